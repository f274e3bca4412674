"""What nodes have of each resource and what their pods use of it; also with pods that the snapshot does not have yet.

Resources are numbers of `ResourceNames`. What needs no more of a node works with pods placed in thought as with real
ones.

Tests: tests/unit/evaluation/test_classes_in_turn.py.
"""

import copy
from collections.abc import Mapping, Sequence

import numpy as np

from trireme.snapshot import arrays, snapshot

# A class's number, and a slot.
PlacedPod = tuple[int, int]


class NodeUsage:
    """The nodes of these slots. The slots are ascending, or rolled. Shapes of answers: (node,)."""

    def __init__(self, snap: snapshot.Snapshot, slots: arrays.SlotArray) -> None:
        self.snap, self.slots = snap, slots
        self.count = slots.shape[0]
        self._table = snap.nodes
        self._where = arrays.slot_index(slots)
        self._requested, self._nonzero = snap.nodes.requested, snap.nodes.nonzero

    def name_of(self, resource: int) -> str:
        """The resource's name."""
        return self._table.resource_names.names[resource]

    def allocatable(self, resource: int) -> arrays.Int64Array:
        """What the nodes have; read-only."""
        out: arrays.Int64Array = self._table.allocatable[resource, self._where]
        return out

    def requested(self, resource: int) -> arrays.Int64Array:
        """What their pods request; read-only."""
        return arrays.saturated(self._requested[resource, self._where])

    def requested_nonzero(self, resource: int) -> arrays.Int64Array:
        """What their pods request of CPU or memory, with defaults where they request none; read-only."""
        return arrays.saturated(self._nonzero[resource, self._where])

    def nodes_with_more_pods(self) -> arrays.SlotArray:
        """The numbers of the nodes with pods that the snapshot does not have."""
        return arrays.EMPTY_SLOTS

    def part(self, nodes: arrays.SlotArray) -> "NodeUsage":
        """The same of the nodes with these numbers, ascending."""
        out = copy.copy(self)
        out.slots, out.count = self.slots[nodes], nodes.shape[0]
        out._where = arrays.slot_index(out.slots)
        return out


class _NodeUsageWithPods(NodeUsage):
    """The nodes with more pods: `usage` of all nodes counts instead of the snapshot."""

    def __init__(self, snap: snapshot.Snapshot, slots: arrays.SlotArray, usage: "UsageWithPods") -> None:
        super().__init__(snap, slots)
        self._requested, self._nonzero, self._has_more = usage.requested, usage.nonzero, usage.has_more

    def nodes_with_more_pods(self) -> arrays.SlotArray:
        """The numbers of the nodes with pods that the snapshot does not have."""
        return np.flatnonzero(self._has_more[self._where])


class UsageWithPods:
    """The usage of all nodes beside pods that the snapshot does not have, which grow in number.

    `requested`, `nonzero` are the snapshot's with these pods; `has_more` marks the nodes with some, and `slots` are
    theirs. Shapes: (resource, slot), (cpu | memory, slot), (slot,), (node,).
    """

    def __init__(self, snap: snapshot.Snapshot, placed: Sequence[PlacedPod] = ()) -> None:
        self._snap = snap
        self._placed: list[PlacedPod] = list(placed)
        self._copy_usage()

    def add(self, class_id: int, slots: Sequence[int]) -> None:
        """A pod of the class is on each of these slots, too."""
        for slot in slots:
            self._placed.append((class_id, slot))
            self._add_to_usage(class_id, slot)
        self.slots = np.flatnonzero(self.has_more)

    def at(self, slots: arrays.SlotArray) -> NodeUsage:
        """The usage of the nodes at these slots, with the pods."""
        self._follow_snapshot()
        return _NodeUsageWithPods(self._snap, slots, self)

    def copies_that_fit(self, demand: Mapping[str, int]) -> arrays.Int64Array:
        """How many pods that each take so much fit beside the others on the nodes with more pods. Shape: as `slots`."""
        self._follow_snapshot()
        table, slots = self._snap.nodes, self.slots
        copies: arrays.Int64Array = table.allowed_pods[slots] - self._pod_count[slots]
        for name, amount in demand.items():
            number = table.resource_names.find(name)
            if number is None or number >= self.requested.shape[0]:
                return np.zeros(slots.shape[0], dtype=np.int64)
            used = arrays.saturated(self.requested[number, slots])
            copies = np.minimum(copies, (table.allocatable[number, slots] - used) // amount)
        return np.maximum(copies, 0)

    def _copy_usage(self) -> None:
        """Begin with the usage that the snapshot has now."""
        table = self._snap.nodes
        table.ensure_resource_rows()
        self._generation = self._snap.generation
        self.requested, self.nonzero = table.requested.copy(), table.nonzero.copy()
        self._pod_count = table.pod_count.copy()
        self.has_more = np.zeros(table.pod_count.shape[0], dtype=np.bool_)
        for class_id, slot in self._placed:
            self._add_to_usage(class_id, slot)
        self.slots = np.flatnonzero(self.has_more)

    def _add_to_usage(self, class_id: int, slot: int) -> None:
        if slot >= self.has_more.shape[0]:
            return  # a slot of another snapshot, which is no node here
        pod_class = self._snap.classes[class_id]
        requests = pod_class.placed_requests(self._snap.nodes.resource_names)[: self.requested.shape[0]]
        self.requested[: requests.shape[0], slot] += requests
        self.nonzero[:, slot] += pod_class.placed_nonzero_requests
        self._pod_count[slot] += 1
        self.has_more[slot] = True

    def _follow_snapshot(self) -> None:
        """Begin anew if the snapshot has changed, or knows more resources."""
        table = self._snap.nodes
        table.ensure_resource_rows()
        if self._generation != self._snap.generation or self.requested.shape != table.requested.shape:
            self._copy_usage()
