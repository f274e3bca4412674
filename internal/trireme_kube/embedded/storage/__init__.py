"""Objects by resource, with one counter of revisions, and the watches that follow them."""
