"""Simulate: questions of callers, one after the other, answered by `trireme.simulation` on forks of the snapshot."""
