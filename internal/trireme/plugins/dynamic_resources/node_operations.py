"""Slices that skip steps on the node: their devices are for nodes that declare that they support it.

Source: k8s.io/component-helpers/nodedeclaredfeatures/features/draoptionalnodeoperations.

Tests: tests/conformance/test_decisions.py.
"""

from typing import Final

import numpy as np

from trireme.snapshot import arrays, nodes
from trireme.v1 import resource_pb2

FEATURE: Final = "DRAOptionalNodeOperations"


def declares_skipping(table: nodes.NodeTable, slots: arrays.SlotArray) -> arrays.BoolArray:
    """Mark the slots whose nodes declare support for skipping steps on the node. Shape: (slot,)."""
    by_set = np.array([False, *(FEATURE in each for each in table.feature_sets.values_from(1))], dtype=np.bool_)
    found: arrays.BoolArray = by_set[table.feature_set[slots]]
    return found


def skips_operations(allocation: resource_pb2.AllocationResult) -> bool:
    """Whether a device of the allocation skips steps on the node."""
    return any(result.skip_node_operations for result in allocation.devices.results)
