"""Score and place: how good each node is for a class, and which nodes its next pods get, one after the other."""
