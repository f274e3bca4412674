"""Finds the slots that changed after a generation, without scanning all of them.

A column has each slot's last change, and a short log has the slots of the latest changes. Frequent queries use the log,
at a cost proportional to the changes and not the cluster; rare ones scan the column.

Also change: internal/trireme/snapshot/placement_log.py (pods of a node's changes).

Tests: tests/unit/snapshot/test_slot_changes.py, tests/unit/snapshot/test_forks.py.
"""

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from trireme.snapshot import arrays

# The size of the log, and the part of all slots beyond which scanning the column is faster.
LOG_ENTRIES = 256
LOG_PART = 8

NO_SLOTS = arrays.EMPTY_SLOTS


class SlotChanges:
    """Last changes of slots: `latest` of any, `at` of each (slot,), with spare capacity.

    A fork does not know the changes before it: all slots count as changed at the latest of them.
    """

    __slots__ = ("_before", "_capacity", "_floor", "_log", "at", "latest")

    at: arrays.Int64Array

    def __init__(self) -> None:
        self.latest = 0
        self.at = arrays.EMPTY_INT64
        # In a fork, as long as its log is complete: the latest change before it, and the size of the column.
        self._before: int | None = None
        self._capacity = 0
        # The log is complete for changes after this generation.
        self._floor = -1
        self._log: deque[tuple[int, arrays.SlotArray]] = deque()

    if not TYPE_CHECKING:  # else any attribute would do

        def __getattr__(self, name: str) -> arrays.Int64Array:
            """The column of a fork, made when it is first needed."""
            if name != "at" or self._before is None:
                raise AttributeError(name)
            self.at = np.full(self._capacity, self._before, dtype=np.int64)
            for generation, slots in self._log:
                self.at[slots] = generation
            self._before = None
            return self.at

    @property
    def nbytes(self) -> int:
        """Memory of the column, in bytes."""
        return self.at.nbytes if self._before is None else 0

    def ensure_capacity(self, size: int) -> None:
        """Grow the column to `size` slots."""
        if self._before is not None:
            self._capacity = max(self._capacity, size)
        elif self.at.shape[0] < size:
            self.at = arrays.grow_last_axis(self.at, size)

    def touch(self, slots: arrays.SlotArray, generation: int, where: slice | None = None) -> None:
        """Record changes of slots, at a generation no lower than any before. Shape: slots (n,), in any order.

        `where`: the same slots, if they have no gap.
        """
        if not slots.shape[0]:
            return
        if self._before is None or len(self._log) == LOG_ENTRIES:
            self.at[slots if where is None else where] = generation
        self.latest = generation
        if len(self._log) == LOG_ENTRIES:
            self._floor = self._log.popleft()[0]
        self._log.append((generation, slots))

    def fork(self, capacity: int) -> "SlotChanges":
        """The same latest change, for `capacity` slots, with a column and a log of its own from now on."""
        out = SlotChanges()
        out.latest = out._floor = out._before = self.latest
        out._capacity = capacity
        del out.at
        return out

    def since(self, generation: int, size: int) -> arrays.SlotArray:
        """Return the slots below `size` that changed after the generation, ascending.

        Recent changes are read from a log; if it does not reach back, or is long, all slots are compared.
        """
        if self.latest <= generation:
            return NO_SLOTS
        if generation >= self._floor:
            parts = []
            total = 0
            for when, slots in reversed(self._log):
                if when <= generation:
                    break
                parts.append(slots)
                total += slots.shape[0]
            if total * LOG_PART <= size:
                return _concatenate_unique(parts)
        return np.flatnonzero(self.at[:size] > generation)


def union(parts: list[arrays.SlotArray], size: int) -> arrays.SlotArray:
    """The union of the parts, as ascending slots below `size`."""
    if sum(part.shape[0] for part in parts) * LOG_PART <= size:
        return _concatenate_unique([part for part in parts if part.shape[0]])
    within = np.zeros(size, dtype=np.bool_)
    for part in parts:
        within[part] = True
    return np.flatnonzero(within)


def _concatenate_unique(parts: list[arrays.SlotArray]) -> arrays.SlotArray:
    """Concatenate the parts, sorted and without duplicates."""
    if not parts:
        return NO_SLOTS
    return np.unique(parts[0] if len(parts) == 1 else np.concatenate(parts))
