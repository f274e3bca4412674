"""What nodes have of each resource and what their pods use of it, at some slots; also with pods that are not there yet.

Resources are numbers of `ResourceNames`. What needs no more of a node works with pods placed in thought as with real
ones.

Tests: tests/unit/evaluation/test_classes_in_turn.py.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from trireme.snapshot import arrays, snapshot

# A class's number, and a slot.
PlacedPod = tuple[int, int]


class NodeUsage:
    """The nodes of these slots as they are. The slots are ascending, or rolled. Shapes of answers: (node,)."""

    def __init__(self, snap: snapshot.Snapshot, slots: arrays.SlotArray) -> None:
        self.snap, self.slots = snap, slots
        self.count = slots.shape[0]
        self._table = snap.nodes
        self._where = arrays.slot_index(slots)

    def name_of(self, resource: int) -> str:
        """The resource's name."""
        return self._table.resource_names.names[resource]

    def allocatable(self, resource: int) -> arrays.Int64Array:
        """What the nodes have; read-only."""
        out: arrays.Int64Array = self._table.allocatable[resource, self._where]
        return out

    def requested(self, resource: int) -> arrays.Int64Array:
        """What their pods request; read-only."""
        out: arrays.Int64Array = self._table.requested[resource, self._where]
        return out

    def requested_nonzero(self, resource: int) -> arrays.Int64Array:
        """What their pods request of CPU or memory, with defaults where they request none; read-only."""
        out: arrays.Int64Array = self._table.nonzero[resource, self._where]
        return out


class NodeUsageWithPods(NodeUsage):
    """The nodes with more pods on them: those of `placed` that are at one of the slots."""

    def __init__(self, snap: snapshot.Snapshot, slots: arrays.SlotArray, placed: Sequence[PlacedPod]) -> None:
        super().__init__(snap, slots)
        table = snap.nodes
        node_of_slot = {slot: node for node, slot in enumerate(slots.tolist())}
        self._more = np.zeros((table.requested.shape[0], slots.shape[0]), dtype=np.int64)
        self._more_nonzero = np.zeros((2, slots.shape[0]), dtype=np.int64)
        self._pods = np.zeros(slots.shape[0], dtype=np.int64)
        for class_id, slot in placed:
            node = node_of_slot.get(slot)
            if node is not None:
                pod_class = snap.classes[class_id]
                requests = pod_class.placed_requests(table.resource_names)[: self._more.shape[0]]
                self._more[: requests.shape[0], node] += requests
                self._more_nonzero[:, node] += pod_class.placed_nonzero_requests
                self._pods[node] += 1

    def requested(self, resource: int) -> arrays.Int64Array:
        """What their pods request, those of `placed` too."""
        out: arrays.Int64Array = super().requested(resource) + self._more[resource]
        return out

    def requested_nonzero(self, resource: int) -> arrays.Int64Array:
        """As `requested`, with defaults where pods request none."""
        out: arrays.Int64Array = super().requested_nonzero(resource) + self._more_nonzero[resource]
        return out

    def copies_that_fit(self, demand: Mapping[str, int]) -> arrays.Int64Array:
        """How many pods that each take so much fit beside the others on the nodes."""
        table = self._table
        table.ensure_resource_rows()
        copies: arrays.Int64Array = table.allowed_pods[self._where] - table.pod_count[self._where] - self._pods
        for name, amount in demand.items():
            number = table.resource_names.find(name)
            if number is None:
                return np.zeros(self.count, dtype=np.int64)
            free = self.allocatable(number) - self.requested(number)
            copies = np.minimum(copies, free // amount)
        return np.maximum(copies, 0)
