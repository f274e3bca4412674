"""NodeLabel's room: a file for each side, and what they share."""
