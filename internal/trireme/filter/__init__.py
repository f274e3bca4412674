"""The filter process: on which nodes may a class of pods run, how many fit, and why not on the others."""
