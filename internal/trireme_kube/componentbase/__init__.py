"""What a process shows of itself: metrics, logs, health, and the server for them.

Nothing here knows what a pod is: the processes hand in their numbers, checks and documents.
"""
