"""How much of a cluster is in use, and in how small pieces the rest is.

Fragmentation is relative to a reference shape: of the pods of that shape that would fit into all that is free, the
share that does not fit because the free resources are on different nodes. 0: all fit, 1: none does.

Tests: tests/unit/simulation/test_questions.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from trireme.framework import amounts
from trireme.snapshot import arrays, resources, snapshot

#: Controllers whose pods belong to a node: nobody evicts them, and they come again on their node alone.
BOUND_TO_NODE = frozenset({"DaemonSet", "Node"})


@dataclass(frozen=True, slots=True)
class Usage:
    """A cluster's use. `resources` has, by name, what nodes have and what pods on them request."""

    nodes: int
    used_nodes: int
    pods: int
    resources: Mapping[str, tuple[int, int]]
    reference: Mapping[str, int]
    reference_pods: int = 0
    reference_pods_in_one_piece: int = 0

    @property
    def fragmentation(self) -> float:
        """From 0 to 1; 0 where nothing of the reference shape is free at all."""
        whole = self.reference_pods_in_one_piece
        return 1.0 - self.reference_pods / whole if whole else 0.0


def reference_shape(snap: snapshot.Snapshot) -> Mapping[str, int]:
    """Median requests of cpu and memory of the placed pods; those that request neither count as asking nothing.

    Empty where no pod is placed, or at least half of them request nothing. Units: millicores, bytes.
    """
    placed = snap.pods.slot[: snap.pods.size] >= 0
    indices = snap.pods.class_index[: snap.pods.size][placed]
    if not indices.size:
        return {}
    names = snap.nodes.resource_names
    of_class = np.zeros((2, snap.class_capacity), dtype=np.int64)
    for each in snap.classes.values():
        of_class[:, each.index] = each.placed_requests(names)[: resources.MEMORY + 1]
    medians = np.sort(of_class[:, indices], axis=1)[:, (indices.size - 1) // 2].tolist()
    found = dict(zip((amounts.CPU, amounts.MEMORY), medians, strict=True))
    return {name: amount for name, amount in found.items() if amount}


def measure(snap: snapshot.Snapshot, reference: Mapping[str, int]) -> Usage:
    """The cluster's use, with fragmentation for pods of the reference shape."""
    nodes = snap.nodes
    live = nodes.live_slots()
    names = nodes.resource_names.names[: nodes.allocatable.shape[0]]
    has = nodes.allocatable[:, live]
    used = nodes.requested[:, live]
    totals = {
        name: (_total(has[row]), _total(used[row]))
        for row, name in enumerate(names)
        if row < resources.EPHEMERAL_STORAGE or used[row].any()
    }
    on_nodes, in_one_piece = _reference_pods(snap, live[~nodes.unschedulable[live]], reference)
    return Usage(int(live.size), _used_nodes(snap), snap.pods.count, totals, dict(reference), on_nodes, in_one_piece)


def _reference_pods(snap: snapshot.Snapshot, slots: arrays.SlotArray, reference: Mapping[str, int]) -> tuple[int, int]:
    """How many pods of the shape fit on these slots, and in the sum of what they have free. Shape: slots (n,)."""
    if not reference or not slots.size:
        return 0, 0
    nodes = snap.nodes
    room = (nodes.allowed_pods[slots] - nodes.pod_count[slots]).clip(0)
    whole = _total(room)
    for name, amount in reference.items():
        row = nodes.resource_names.find(name)
        if row is None:
            return 0, 0
        free = (nodes.allocatable[row, slots] - nodes.requested[row, slots]).clip(0)
        room = np.minimum(room, free // amount)
        whole = min(whole, _total(free) // amount)
    return _total(room), whole


def _total(of_slots: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]") -> int:
    """The sum, where NumPy's would wrap around: two nodes may have all that a number holds. Shape: (n,)."""
    return sum(of_slots.tolist())


def _used_nodes(snap: snapshot.Snapshot) -> int:
    """How many nodes have a pod that is no DaemonSet's and no node's own."""
    others = [
        number
        for number, each in snap.classes.items()
        if not any(owner.controller and owner.kind in BOUND_TO_NODE for owner in each.pod.metadata.owner_references)
    ]
    rows = snap.pods.rows_of(snap.class_mask(others))
    return int(np.unique(snap.pods.slot[rows]).size)
