"""Evaluating classes of pods over a snapshot: filtering, scoring, placing, reserving and preemption.

A library: it has no process, opens no connection and writes nothing. The filter and the score process serve it.
"""
