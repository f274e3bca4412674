"""NodeResourcesFit: refuses nodes without enough free resources, and prefers nodes by how full they get."""
