"""Insight's memory of the last decisions, and their explanation on the cluster as it was when they were made."""
