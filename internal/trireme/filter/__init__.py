"""The filter process: on which nodes a class of pods may run, how many fit, and why not on the others."""
