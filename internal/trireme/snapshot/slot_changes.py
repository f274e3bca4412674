"""Finds the slots that changed after a generation, without scanning all of them.

A column has each slot's last change, and a short log has the slots of the latest changes. Frequent queries use the log,
at a cost proportional to the changes and not the cluster; rare ones scan the column.
"""

from collections import deque

import numpy as np

from trireme.snapshot import arrays

# The size of the log, and the part of all slots beyond which scanning the column is faster.
LOG_ENTRIES = 256
LOG_PART = 8

NO_SLOTS: arrays.SlotArray = np.zeros(0, dtype=np.intp)


class SlotChanges:
    """Last changes of slots: `latest` of any, `at` of each (slot,), with spare capacity."""

    __slots__ = ("_floor", "_log", "at", "latest")

    def __init__(self) -> None:
        self.latest = 0
        self.at = np.zeros(0, dtype=np.int64)
        # The log is complete for changes after this generation.
        self._floor = -1
        self._log: deque[tuple[int, arrays.SlotArray]] = deque()

    @property
    def nbytes(self) -> int:
        """Memory of the column, in bytes."""
        return self.at.nbytes

    def ensure_capacity(self, size: int) -> None:
        """Grow the column to `size` slots."""
        if self.at.shape[0] < size:
            self.at = arrays.grow_last_axis(self.at, size)

    def touch(self, slots: arrays.SlotArray, generation: int) -> None:
        """Record changes of slots, at a generation no lower than any before. Shape: slots (n,), in any order."""
        if not slots.shape[0]:
            return
        self.at[slots] = generation
        self.latest = generation
        if len(self._log) == LOG_ENTRIES:
            self._floor = self._log.popleft()[0]
        self._log.append((generation, slots))

    def copy(self) -> "SlotChanges":
        """The same changes, with a log of its own from now on."""
        out = SlotChanges()
        out.latest = self.latest
        out.at = self.at.copy()
        out._floor = self._floor
        out._log = self._log.copy()
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
