"""How much of each resource nodes have and their pods use; also with pods that the snapshot does not have yet.

Resources are numbers of `ResourceNames`. What needs no more of a node works with pods placed in thought as with real
ones.

Tests: tests/unit/evaluation/test_classes_in_turn.py.
"""

import copy
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trireme.snapshot import arrays, snapshot

# A class's number, and a slot.
PlacedPod = tuple[int, int]

# A quotient of whole numbers below this, as Python and NumPy divide them, is never rounded up to a whole one.
_EXACT = 2**53


@dataclass(frozen=True, slots=True)
class Capacity:
    """What nodes have of a resource, to divide by: 1 where they have none of it.

    `is_there` marks the nodes that have it (None: all). `scales_exactly`: a percentage of it that is computed by
    floating point and cut off is that of whole numbers. Shapes: (node, 1).
    """

    amounts: arrays.Int64Array
    floats: arrays.Float64Array
    is_there: arrays.BoolArray | None
    scales_exactly: bool

    @classmethod
    def of(cls, allocatable: arrays.Int64Array) -> "Capacity":
        """Make it of what nodes have. Shape: (node,)."""
        is_there = (allocatable > 0)[:, None]
        amounts = np.maximum(allocatable, 1)[:, None]
        exact = int(amounts.max(initial=1)) * 100 < _EXACT
        return cls(amounts, amounts.astype(np.float64), None if is_there.all() else is_there, exact)

    def at(self, where: arrays.SlotArray | slice) -> "Capacity":
        """The same of some of the nodes."""
        there = None if self.is_there is None else self.is_there[where]
        return Capacity(self.amounts[where], self.floats[where], there, self.scales_exactly)


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
        if self._generation != table.object_changes.latest or self.of_slots.amounts.shape[0] < table.size:
            self.of_slots = Capacity.of(table.allocatable[self._resource, : table.size])
            self._generation = table.object_changes.latest


class NodeUsage:
    """The nodes of these slots. The slots are ascending, or rolled. Shapes of answers: (node,)."""

    def __init__(self, snap: snapshot.Snapshot, slots: arrays.SlotArray) -> None:
        self.snap, self.slots = snap, slots
        self.count = slots.shape[0]
        self._table = snap.nodes
        self._where = arrays.slot_index(slots)
        #: What follows from the usage, for who has need of it again; by caller. It is kept as long as more pods come.
        self.memo: dict[Hashable, Any] = {}
        #: The slots of the pods that the snapshot does not have, in the order in which they came.
        self.added: Sequence[int] = ()
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
        key = ("capacity", resource)
        known: Capacity | None = self.memo.get(key)
        if known is None:
            known = self.memo[key] = self.snap.derived(key, lambda _: _CapacityColumn(resource)).of_slots
        return known.at(self._where)

    def requested(self, resource: int) -> arrays.Int64Array:
        """The requests of their pods; read-only."""
        return arrays.saturated(self._requested[resource, self._where])

    def requested_nonzero(self, resource: int) -> arrays.Int64Array:
        """The requests of their pods for CPU or memory, with defaults where they request none; read-only."""
        return arrays.saturated(self._nonzero[resource, self._where])

    def at(self, slots: arrays.SlotArray) -> "NodeUsage":
        """The same of the nodes at other slots."""
        out = copy.copy(self)
        out.slots, out.count, out._where = slots, slots.shape[0], arrays.slot_index(slots)
        return out


class _NodeUsageWithPods(NodeUsage):
    """The nodes with more pods: `usage` of all nodes counts instead of the snapshot."""

    def __init__(self, snap: snapshot.Snapshot, slots: arrays.SlotArray, usage: "UsageWithPods") -> None:
        super().__init__(snap, slots)
        self._requested, self._nonzero = usage.requested, usage.nonzero
        self.memo, self.added = usage.memo, usage.added


class UsageWithPods:
    """The usage of all nodes beside pods that the snapshot does not have, which grow in number.

    `requested`, `nonzero` are the snapshot's with these pods; `slots` are those of the nodes with some, and `added`
    those of the pods. `memo` is that of NodeUsage. Shapes: (resource, slot), (cpu | memory, slot), (node,).
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
        self.slots = np.unique(np.array(self.added, dtype=np.intp))

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
        self.memo: dict[Hashable, Any] = {}
        self.added: list[int] = []
        for class_id, slot in self._placed:
            self._add_to_usage(class_id, slot)
        self.slots = np.unique(np.array(self.added, dtype=np.intp))

    def _add_to_usage(self, class_id: int, slot: int) -> None:
        if slot >= self._pod_count.shape[0]:
            return  # a slot of another snapshot, which is no node here
        pod_class = self._snap.classes[class_id]
        requests = pod_class.placed_requests(self._snap.nodes.resource_names)[: self.requested.shape[0]]
        self.requested[: requests.shape[0], slot] += requests
        self.nonzero[:, slot] += pod_class.placed_nonzero_requests
        self._pod_count[slot] += 1
        self.added.append(slot)

    def _follow_snapshot(self) -> None:
        """Begin anew if the snapshot has changed, or knows more resources."""
        table = self._snap.nodes
        table.ensure_resource_rows()
        if self._generation != self._snap.generation or self.requested.shape != table.requested.shape:
            self._copy_usage()
