"""Evaluates a checked tree, and counts its cost."""
