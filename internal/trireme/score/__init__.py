"""The score process: how good each node is for a class of pods, and on which nodes its next pods go."""
