"""NodeColumns: answers about nodes on the wire, complete or as a patch to an answer that the receiver has."""

from dataclasses import dataclass

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

    `base_generation` above 0: a patch to the answer of that generation, of `size` entries, at `slots`.
    """

    generation: int
    base_generation: int
    size: int
    slots: arrays.SlotArray | None
    statuses: tuple[status.Status, ...]
    index: arrays.Int16Array
    capacity: arrays.Int32Array


def to_message(columns: NodeColumns) -> filter_pb2.NodeColumns:
    """The answer as a message."""
    out = filter_pb2.NodeColumns(
        generation=columns.generation, base_generation=columns.base_generation, size=columns.size
    )
    if columns.slots is not None:
        packing.extend_fixed32(out, _SLOTS, columns.slots)
    out.statuses.extend(wire_status.to_message(entry) for entry in columns.statuses)
    packing.extend_varint(out, _STATUS_INDEX, columns.index)
    packing.extend_fixed32(out, _CAPACITY, columns.capacity)
    return out


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
