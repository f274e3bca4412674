"""NodeColumns: answers about nodes on the wire, complete or as a patch to an answer that the receiver has.

Also change: protos/trireme/v1/filter.proto (the messages).

Tests: tests/unit/wire/test_node_columns.py, tests/unit/wire/test_phase_answers.py,
tests/unit/evaluation/test_post_filter_results.py.
"""

from dataclasses import dataclass, field

import numpy as np

from trireme.framework import status
from trireme.snapshot import arrays
from trireme.v1 import filter_pb2
from trireme.wire import packing
from trireme.wire import status as wire_status

_FIELDS = filter_pb2.NodeColumns.DESCRIPTOR.fields_by_name
_SLOTS = _FIELDS["slots"].number
_STATUS_INDEX = _FIELDS["status_index"].number
_CAPACITY = _FIELDS["capacity"].number
# As many as an index can number. Filter sends fewer (`interfaces.MAX_STATUSES`); the index of one beyond would name
# another status, or say that the node passes.
_MAX_STATUSES = np.iinfo(np.int16).max


@dataclass(slots=True)
class NodeColumns:
    """One answer about nodes. Shapes: all (entry,); `slots` None: one entry per requested node, or by slot.

    `base_generation` above 0: a patch to the answer of that generation, of `size` entries, at `slots`. A node passes
    where the index is 0 and the capacity above 0. Generation 0: no answer yet.
    """

    generation: int = 0
    base_generation: int = 0
    size: int = 0
    slots: arrays.SlotArray | None = None
    statuses: tuple[status.Status, ...] = ()
    index: arrays.Int16Array = field(default_factory=lambda: arrays.EMPTY_INT16)
    capacity: arrays.Int32Array = field(default_factory=lambda: arrays.EMPTY_INT32)

    @staticmethod
    def complete(
        generation: int, statuses: tuple[status.Status, ...], index: arrays.Int16Array, capacity: arrays.Int32Array
    ) -> "NodeColumns":
        """A complete answer. Shapes: (slot,)."""
        return NodeColumns(generation, 0, index.shape[0], None, statuses, index, capacity)

    @property
    def nbytes(self) -> int:
        """Memory of the arrays, in bytes."""
        return self.index.nbytes + self.capacity.nbytes

    @property
    def feasible(self) -> arrays.BoolArray:
        """Which nodes pass. Shape: (entry,)."""
        out: arrays.BoolArray = self.index == 0
        out &= self.capacity > 0
        return out

    @property
    def feasible_count(self) -> int:
        """How many nodes pass."""
        return int(np.count_nonzero(self.feasible))

    @property
    def has_feasible_node(self) -> bool:
        """Whether any node passes."""
        return bool(self.feasible.any())

    @property
    def error(self) -> status.Status | None:
        """The status of a plugin that failed for some node; None: none did. No other node is taken then."""
        for number, entry in enumerate(self.statuses, 1):
            if entry.code is status.Code.ERROR and (self.index == number).any():
                return entry
        return None

    def admits(self, slot: int) -> bool:
        """Whether the node at the slot, if there is one, passes."""
        return 0 <= slot < self.index.shape[0] and self.index[slot] == 0 and bool(self.capacity[slot] > 0)

    def update(self, answer: "NodeColumns") -> None:
        """Replace this complete answer by the next one, or patch it. Raises: ValueError for a patch to another."""
        if answer.slots is None:
            self.index, self.capacity = answer.index, answer.capacity
        else:
            if answer.base_generation != self.generation:
                raise ValueError(f"a patch to generation {answer.base_generation}, have {self.generation}")
            if self.index.shape[0] < answer.size:
                self.index = arrays.grow_last_axis(self.index, answer.size)
                self.capacity = arrays.grow_last_axis(self.capacity, answer.size)
            self.index[answer.slots] = answer.index
            self.capacity[answer.slots] = answer.capacity
        self.size = self.index.shape[0]
        self.statuses = answer.statuses
        self.generation = answer.generation


def to_message(columns: NodeColumns) -> filter_pb2.NodeColumns:
    """The answer as a message."""
    out = filter_pb2.NodeColumns()
    write_to(columns, out)
    return out


def write_to(columns: NodeColumns, out: filter_pb2.NodeColumns) -> None:
    """Write the answer into this empty message: a copy of a whole column takes as long as encoding it."""
    out.generation, out.base_generation, out.size = columns.generation, columns.base_generation, columns.size
    if columns.slots is not None:
        packing.extend_fixed32(out, _SLOTS, columns.slots)
    out.statuses.extend(wire_status.to_message(entry) for entry in columns.statuses)
    packing.extend_varint(out, _STATUS_INDEX, columns.index)
    packing.extend_fixed32(out, _CAPACITY, columns.capacity)


def from_message(columns: filter_pb2.NodeColumns) -> NodeColumns:
    """Decode an answer about nodes, complete or a patch (`base_generation`).

    Raises: ValueError naming the inconsistent field.
    """
    # Wide enough for any value of the field, before its range is checked.
    index = packing.to_array(columns.status_index, np.int64)
    capacity = packing.to_array(columns.capacity, np.int32)
    slots = packing.to_array(columns.slots, np.intp) if columns.base_generation else None
    expected = columns.size if slots is None else slots.shape[0]
    for name, entries in (("status_index", index), ("capacity", capacity)):
        if entries.shape[0] != expected:
            raise ValueError(f"columns.{name}: has {entries.shape[0]} entries, must have {expected}")
    if len(columns.statuses) > _MAX_STATUSES:
        raise ValueError(f"columns.statuses: has {len(columns.statuses)} entries, must have at most {_MAX_STATUSES}")
    if index.size and int(index.max()) > len(columns.statuses):
        raise ValueError(f"columns.status_index: {int(index.max())} is beyond the {len(columns.statuses)} statuses")
    if slots is not None and slots.size and int(slots.max()) >= columns.size:
        raise ValueError(f"columns.slots: {int(slots.max())} is beyond the size {columns.size}")
    statuses = tuple(wire_status.from_message(entry) for entry in columns.statuses)
    generation, base = columns.generation, columns.base_generation
    return NodeColumns(generation, base, columns.size, slots, statuses, index.astype(np.int16), capacity)
