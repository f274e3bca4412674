"""Following collections: list and watch, and the objects that they deliver."""
