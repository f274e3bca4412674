"""Scoring only a share of the nodes, where the profile asks for it.

Source: pkg/scheduler/schedule_one.go numFeasibleNodesToFind.

Tests: tests/unit/evaluation/test_placement.py.
"""

import numpy as np

from trireme.snapshot import arrays

MIN_FEASIBLE = 100

# Successive generations start far apart, so that no node is preferred for its slot (2^64 by the golden ratio).
_STRIDE = 0x9E37_79B9_7F4A_7C15


def sample_slots(slots: arrays.SlotArray, nodes: int, percentage: int, seed: int) -> arrays.SlotArray:
    """Return as many of the feasible slots as kube-scheduler would find, from a start that moves on with the seed.

    `percentage` is not 0: callers score all nodes then (`ScoreChain`), where kube-scheduler chooses by size.
    """
    sampled = max(nodes * percentage // 100, MIN_FEASIBLE)
    if slots.size <= sampled:
        return slots
    start = (seed * _STRIDE & 0xFFFF_FFFF_FFFF_FFFF) % slots.size
    return np.roll(slots, -start)[:sampled]
