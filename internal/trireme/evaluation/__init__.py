"""Evaluating classes of pods over a snapshot: filtering, scoring and placing, reserving, preemption.

A library: it has no process, asks nobody over the network and writes nothing. Filter and score serve it.
"""
