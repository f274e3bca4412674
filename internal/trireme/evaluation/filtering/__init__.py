"""Filter: on which nodes may a class run, and why not on the others; kept as columns and brought up to date."""
