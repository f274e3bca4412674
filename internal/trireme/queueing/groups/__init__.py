"""Pods that are scheduled together: their trees, and where each group is in the queue."""
