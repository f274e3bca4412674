"""A remote filter plugin's verdicts on nodes as they are: collected, and looked up by dry runs of preemption.

The answer of Filter names for each node the first plugin that refuses it. A dry run without the pods that it refused it
for comes to the plugins behind that one, so what these said is recorded by itself, for the nodes that were tried.

Also change: protos/trireme/v1/remote_node_verdicts.proto (the messages).
"""

import numpy as np

from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays
from trireme.v1 import remote_node_verdicts_pb2
from trireme.wire import status as wire_status

# In `run_verdicts`, and in columns here: no dry run read the verdict; the node passes; the first status.
_NOT_READ, _PASSES, _FIRST_STATUS = 0, 1, 2


class VerdictCollection:
    """The verdicts of one plugin on one class that dry runs of one call read."""

    def __init__(self) -> None:
        self._skipped = False
        self._statuses: dict[status.Status, int] = {}
        self._column: arrays.Int32Array = np.zeros(0, dtype=np.int32)

    def add(self, slots: arrays.SlotArray, index: arrays.Int16Array, table: interfaces.StatusTable) -> None:
        """The verdicts on these slots were read. Shapes: both (slot,); index has numbers of the table."""
        size = int(slots.max(initial=-1)) + 1
        if self._column.shape[0] < size:
            self._column = arrays.grow_last_axis(self._column, size)
        numbers, places = np.unique(index, return_inverse=True)
        own = [self._number_of(table.statuses[number - 1]) if number else _PASSES for number in numbers.tolist()]
        self._column[slots] = np.array(own, dtype=np.int32)[places]

    def skip(self) -> None:
        """PreFilter of the plugin skips the class."""
        self._skipped = True

    def _number_of(self, refusal: status.Status) -> int:
        return self._statuses.setdefault(refusal, _FIRST_STATUS + len(self._statuses))

    def to_message(self) -> remote_node_verdicts_pb2.RemoteNodeVerdicts:
        """All of them."""
        if self._skipped:
            return remote_node_verdicts_pb2.RemoteNodeVerdicts(skipped=True)
        size = self._column.shape[0]
        first = np.flatnonzero(np.diff(self._column, prepend=-1))
        return remote_node_verdicts_pb2.RemoteNodeVerdicts(
            run_slots=np.diff(first, append=size).tolist(),
            run_verdicts=self._column[first].tolist(),
            statuses=map(wire_status.to_message, self._statuses),
        )


class RecordedVerdicts:
    """The verdicts of one plugin on one class, as they were recorded."""

    def __init__(self, message: remote_node_verdicts_pb2.RemoteNodeVerdicts) -> None:
        """Raises: ValueError for a message whose parts do not fit together."""
        if len(message.run_slots) != len(message.run_verdicts):
            raise ValueError(f"run_verdicts: {len(message.run_verdicts)} for {len(message.run_slots)} runs")
        #: Whether the plugin's PreFilter skipped the class.
        self.skipped = message.skipped
        self._statuses = [wire_status.from_message(each) for each in message.statuses]
        # The slots that have verdicts; None: all.
        self._holding: arrays.BoolArray | None = None
        self._ends = np.cumsum(np.array(message.run_slots, dtype=np.int64))
        # Behind the last run nothing was read.
        self._verdicts = np.array([*message.run_verdicts, _NOT_READ], dtype=np.int64)
        if self._verdicts.max() >= _FIRST_STATUS + len(self._statuses):
            raise ValueError(f"run_verdicts: there is no status {self._verdicts.max() - _FIRST_STATUS}")

    def hold_only(self, slots: arrays.BoolArray) -> None:
        """Other slots have other nodes now, without records. Shape: (slot,)."""
        self._holding = slots

    def find(
        self, slots: arrays.SlotArray, table: interfaces.StatusTable
    ) -> tuple[arrays.Int16Array, arrays.BoolArray]:
        """The verdicts on these slots, as numbers of the table, and which slots have one.

        Shapes: all (slot,).
        """
        if self.skipped:
            return np.zeros(slots.shape[0], dtype=np.int16), np.ones(slots.shape[0], dtype=np.bool_)
        found = self._verdicts[np.searchsorted(self._ends, slots, side="right")]
        if self._holding is not None:
            there = slots < self._holding.shape[0]
            found[~there] = _NOT_READ
            found[there] = np.where(self._holding[slots[there]], found[there], _NOT_READ)
        numbers = np.zeros(_FIRST_STATUS + len(self._statuses), dtype=np.int16)
        for number in np.unique(found[found >= _FIRST_STATUS]).tolist():
            numbers[number] = table.intern(self._statuses[number - _FIRST_STATUS])
        return numbers[found], found != _NOT_READ
