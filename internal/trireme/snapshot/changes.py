"""Which slots changed after a generation, without looking at all of them.

A column says of each slot when it changed last, and a short log says which slots the last changes were about: who asks
often is answered from the log, in the time that the changes take and not the cluster; who asks rarely, from the column.
"""

from collections import deque

import numpy as np

from trireme.snapshot import arrays

# Changes that are remembered; and where they are about more than so large a part of all slots, the column is quicker.
LOG_ENTRIES = 256
LOG_PART = 8

NO_SLOTS: arrays.SlotArray = np.zeros(0, dtype=np.intp)


class SlotChanges:
    """When slots changed. `latest` is when any did; `at` when each did last (slot,), of which it has room for some."""

    __slots__ = ("_floor", "_log", "at", "latest")

    def __init__(self) -> None:
        self.latest = 0
        self.at = np.zeros(0, dtype=np.int64)
        # The generation from which on all changes are in the log.
        self._floor = -1
        self._log: deque[tuple[int, arrays.SlotArray]] = deque()

    @property
    def nbytes(self) -> int:
        """Memory of the column, in bytes."""
        return self.at.nbytes

    def reserve(self, size: int) -> None:
        """Make room for so many slots."""
        if self.at.shape[0] < size:
            self.at = arrays.grow_last_axis(self.at, size)

    def touch(self, slots: arrays.SlotArray, generation: int) -> None:
        """These slots change, at a generation no lower than any before. Shape: slots (n,), in any order."""
        if not slots.shape[0]:
            return
        self.at[slots] = generation
        self.latest = generation
        if len(self._log) == LOG_ENTRIES:
            self._floor = self._log.popleft()[0]
        self._log.append((generation, slots))

    def since(self, generation: int, size: int) -> arrays.SlotArray:
        """Those of the first `size` slots that changed after the generation, ascending."""
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
                return _joined(parts)
        return np.flatnonzero(self.at[:size] > generation)


def union(parts: list[arrays.SlotArray], size: int) -> arrays.SlotArray:
    """The slots, of the first `size`, that are in any of the parts, ascending."""
    if sum(part.shape[0] for part in parts) * LOG_PART <= size:
        return _joined([part for part in parts if part.shape[0]])
    within = np.zeros(size, dtype=np.bool_)
    for part in parts:
        within[part] = True
    return np.flatnonzero(within)


def _joined(parts: list[arrays.SlotArray]) -> arrays.SlotArray:
    """Ascending, each once."""
    if not parts:
        return NO_SLOTS
    return np.unique(parts[0] if len(parts) == 1 else np.concatenate(parts))
