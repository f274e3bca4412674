"""How much of each resource nodes have and their pods use; also with pods that the snapshot does not have yet.

Resources are numbers of `ResourceNames`. What needs no more of a node works with pods placed in thought as with real
ones.

Tests: tests/unit/snapshot/test_node_usage.py, tests/unit/evaluation/test_classes_in_turn.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trireme.snapshot import arrays, snapshot

# A class's number, and a slot.
PlacedPod = tuple[int, int]

# Less than any amount.
_NOTHING = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Capacity:
    """What nodes have of a resource, to divide by: 1 where they have none of it.

    `is_there` marks the nodes that have it (None: all); `largest` is no less than any. Shapes: (node, 1).
    """

    amounts: arrays.Int64Array
    floats: arrays.Float64Array
    is_there: arrays.BoolArray | None
    largest: int

    @classmethod
    def of(cls, allocatable: arrays.Int64Array) -> "Capacity":
        """Make it of what nodes have. Shape: (node,)."""
        is_there = (allocatable > 0)[:, None]
        amounts = np.maximum(allocatable, 1)[:, None]
        largest = int(amounts.max(initial=1))
        return cls(amounts, amounts.astype(np.float64), None if is_there.all() else is_there, largest)

    def at(self, where: arrays.SlotArray | slice) -> "Capacity":
        """The same of some of the nodes."""
        there = None if self.is_there is None else self.is_there[where]
        return Capacity(self.amounts[where], self.floats[where], there, self.largest)


class _CapacityColumn:
    """The `Capacity` of all slots, which follows a snapshot."""

    __slots__ = ("_generation", "_resource", "of_slots")

    def __init__(self, resource: int) -> None:
        self._resource, self._generation = resource, -1
        self.of_slots = Capacity.of(arrays.EMPTY_INT64)

    @property
    def nbytes(self) -> int:
        """Memory of the arrays, in bytes."""
        return self.of_slots.amounts.nbytes + self.of_slots.floats.nbytes

    def refresh(self, snap: snapshot.Snapshot) -> None:
        """Follow the snapshot's nodes."""
        table = snap.nodes
        if self._generation != table.object_changes.latest:
            self.of_slots = Capacity.of(table.allocatable[self._resource, : table.size])
            self._generation = table.object_changes.latest


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
        """The nodes' allocatable amounts; read-only."""
        out: arrays.Int64Array = self._table.allocatable[resource, self._where]
        return out

    def capacity(self, resource: int) -> Capacity:
        """What the nodes have, to divide by; read-only."""
        known = self.snap.derived(("capacity", resource), lambda _: _CapacityColumn(resource))
        return known.of_slots.at(self._where)

    def requested(self, resource: int) -> arrays.Int64Array:
        """The requests of their pods, for `arrays.saturated`; read-only."""
        out: arrays.Int64Array = self._requested[resource, self._where]
        return out

    def requested_nonzero(self, resource: int) -> arrays.Int64Array:
        """As `requested`, of CPU or memory, with defaults where pods request none; read-only."""
        out: arrays.Int64Array = self._nonzero[resource, self._where]
        return out


class _NodeUsageWithPods(NodeUsage):
    """The nodes with more pods: `usage` of all nodes counts instead of the snapshot."""

    def __init__(self, snap: snapshot.Snapshot, slots: arrays.SlotArray, usage: "UsageWithPods") -> None:
        super().__init__(snap, slots)
        self._requested, self._nonzero = usage.requested, usage.nonzero


class UsageWithPods:
    """The usage of all nodes beside pods that the snapshot does not have, which grow in number.

    `requested`, `nonzero` are the snapshot's with these pods; `slots` are those of the nodes with some, ascending.
    Shapes: (resource, slot), (cpu | memory, slot), (node,).
    """

    def __init__(self, snap: snapshot.Snapshot, placed: Sequence[PlacedPod] = ()) -> None:
        self._snap = snap
        self._placed: list[PlacedPod] = list(placed)
        self._copy_usage()

    def add(self, placed: Sequence[PlacedPod]) -> None:
        """These pods are on their nodes, too."""
        if not self._placed:
            self._placed += placed
            self._copy_usage()
            return
        self._placed += placed
        for class_id, slot in placed:
            self._add_to_usage(class_id, slot, 1)
        self._find_slots()

    def remove_last(self, count: int) -> None:
        """The pods that were added last, so many, are on no node."""
        if count:
            for class_id, slot in self._placed[-count:]:
                self._add_to_usage(class_id, slot, -1)
            del self._placed[-count:]
            self._find_slots()

    def at(self, slots: arrays.SlotArray) -> NodeUsage:
        """The usage of the nodes at these slots, with the pods."""
        self._follow_snapshot()
        return _NodeUsageWithPods(self._snap, slots, self)

    def fits(self, slots: arrays.SlotArray, demands: Sequence[Mapping[str, int]]) -> arrays.BoolArray:
        """Which of these nodes have room for a pod that takes so much, above 0 by resource, beside the pods.

        Shapes: slots (n,), result (demand, n).
        """
        self._follow_snapshot()
        table = self._snap.nodes
        room = table.allowed_pods[slots] > self._pod_count[slots]
        out = np.repeat(room[None, :], len(demands), axis=0)
        for name in set().union(*demands):
            number = table.resource_names.find(name)
            free = np.zeros(slots.shape[0], dtype=np.int64)
            if number is not None and number < self.requested.shape[0]:
                free = table.allocatable[number, slots] - arrays.saturated(self.requested[number, slots])
            # Of a resource that a pod does not ask for, a node may have less than nothing.
            out &= np.array([each.get(name, _NOTHING) for each in demands])[:, None] <= free
        return out

    def _copy_usage(self) -> None:
        """Begin with the usage that the snapshot has now; without pods it is not copied."""
        table = self._snap.nodes
        table.ensure_resource_rows()
        self._generation = self._snap.generation
        self.requested, self.nonzero, self._pod_count = table.requested, table.nonzero, table.pod_count
        if self._placed:
            self.requested, self.nonzero = self.requested.copy(), self.nonzero.copy()
            self._pod_count = self._pod_count.copy()
        for class_id, slot in self._placed:
            self._add_to_usage(class_id, slot, 1)
        self._find_slots()

    def _find_slots(self) -> None:
        size = self._snap.nodes.size
        self.slots = np.array(sorted({slot for _, slot in self._placed if slot < size}), dtype=np.intp)

    def _add_to_usage(self, class_id: int, slot: int, count: int) -> None:
        if slot >= self._pod_count.shape[0]:
            return  # a slot of another snapshot, which is no node here
        pod_class = self._snap.classes[class_id]
        requests = pod_class.placed_requests(self._snap.nodes.resource_names)[: self.requested.shape[0]]
        self.requested[: requests.shape[0], slot] += count * requests
        self.nonzero[:, slot] += count * pod_class.placed_nonzero_requests
        self._pod_count[slot] += count

    def _follow_snapshot(self) -> None:
        """Begin anew if the snapshot has changed, or knows more resources."""
        table = self._snap.nodes
        table.ensure_resource_rows()
        if self._generation != self._snap.generation or self.requested.shape != table.requested.shape:
            self._copy_usage()
