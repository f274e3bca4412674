"""The score process: how good is each node for a class of pods, and where do the next ones go."""
