"""Filter: on which nodes a class may run and why not on the others, as columns that are cached and updated."""
