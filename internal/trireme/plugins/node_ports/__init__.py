"""NodePorts: refuses nodes on which a wanted host port is taken."""
