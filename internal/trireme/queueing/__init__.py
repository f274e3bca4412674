"""Which pod is tried next: the queue, what wakes a pod in it, and what a pending pod waits for."""
