"""Scheduling a pod, a batch of equal pods or a group: the cycles, preemption, binding, and the result of an attempt.

The queue hands out what is next, filter and score find the feasible nodes and the best one, the cache assumes the pod
there, and bind writes the binding.
"""
