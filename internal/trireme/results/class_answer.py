"""Filter's answer about one class of pods: a column over all slots, complete at its generation.

The next answer comes as a patch to it, from whichever replica.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from trireme.framework import status
from trireme.snapshot import arrays
from trireme.v1 import filter_pb2
from trireme.wire import node_columns


@dataclass(slots=True)
class ClassAnswer:
    """Filter's answer about one class. Shapes: (slot,). Generation 0: none yet."""

    generation: int = 0
    # The replica, and which of its streams, that answered; it alone can answer by a patch.
    source: tuple[str, int] | None = None
    statuses: tuple[status.Status, ...] = ()
    index: arrays.Int16Array = field(default_factory=lambda: np.zeros(0, dtype=np.int16))
    capacity: arrays.Int32Array = field(default_factory=lambda: np.zeros(0, dtype=np.int32))

    @property
    def feasible_count(self) -> int:
        """How many nodes pass."""
        return int(np.count_nonzero((self.index == 0) & (self.capacity > 0)))

    @property
    def has_feasible_node(self) -> bool:
        """Whether any node passes."""
        return bool(((self.index == 0) & (self.capacity > 0)).any())

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

    def update(self, answer: node_columns.NodeColumns) -> None:
        """Take in the next answer, complete or a patch to this one. Raises: ValueError for a patch to another."""
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
        self.statuses = answer.statuses
        self.generation = answer.generation

    @staticmethod
    def of_nominated(slots: Sequence[int], generation: int) -> "ClassAnswer":
        """The nodes at these slots each take one pod; all others are as if they were not there."""
        out = ClassAnswer(generation)
        size = max(slots, default=-1) + 1
        out.index, out.capacity = np.zeros(size, dtype=np.int16), np.zeros(size, dtype=np.int32)
        out.capacity[list(slots)] = 1
        return out

    def to_message(self) -> filter_pb2.NodeColumns:
        """The whole answer on the wire."""
        size = self.index.shape[0]
        return node_columns.to_message(
            node_columns.NodeColumns(self.generation, 0, size, None, self.statuses, self.index, self.capacity)
        )
