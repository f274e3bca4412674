"""Traces of pods, from what scheduling reports to its ports."""
