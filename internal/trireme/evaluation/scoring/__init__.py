"""Score and Place: how good each node is for a class, and the nodes of its next pods in order."""
