"""Scheduling a pod, a batch of equal pods or a group: the cycles, preemption, binding, and the result of an attempt.

The queue says what is next, filter and score say where it may go and where it goes best, the cache assumes it there,
and bind writes it down.
"""
