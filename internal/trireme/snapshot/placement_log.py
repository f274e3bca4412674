"""The latest changes of the pod table, from which sums over pods are updated without counting all of them again.

Also change: internal/trireme/snapshot/slot_changes.py (pods of a node's changes).
"""

import numpy as np

from trireme.snapshot import arrays, pods

# The size of the log, and that with which it begins.
LOG_ENTRIES = 8192
_FIRST_ENTRIES = 64


class PlacementLog:
    """The latest changes of the pod table, as columns: pods added to a slot (+1) or removed from it (−1).

    The log is complete for changes after the generation `floor`.
    """

    def __init__(self, entries: int = LOG_ENTRIES) -> None:
        self._keep = entries
        self._size = 0
        first = min(_FIRST_ENTRIES, 2 * entries)
        self._generation = np.zeros(first, dtype=np.int64)
        self._class = np.zeros(first, dtype=np.int32)
        self._slot = np.zeros(first, dtype=np.int32)
        self._sign = np.zeros(first, dtype=np.int8)
        self._terminating = np.zeros(first, dtype=np.bool_)
        self.floor = 0

    def append(
        self,
        generation: int,
        classes: arrays.Int32Array,
        slots: arrays.Int32Array,
        flags: arrays.UInt8Array,
        sign: int,
    ) -> None:
        """Record pods of classes added to slots (sign 1) or removed from them (−1); `classes` are their indices.

        Shapes: all (n,).
        More changes at once than the log keeps empty it: `since` then answers None for what was before.
        """
        count = classes.shape[0]
        if count > self._keep:
            self._size = 0
            self.floor = generation
            return
        if self._size + count > self._generation.shape[0]:
            self._grow(self._size + count)
        if self._size + count > self._generation.shape[0]:
            self._drop_oldest_changes(self._size + count - self._generation.shape[0] + self._keep // 2)
        at = slice(self._size, self._size + count)
        self._generation[at] = generation
        self._class[at] = classes
        self._slot[at] = slots
        self._sign[at] = sign
        self._terminating[at] = (flags & pods.TERMINATING) != 0
        self._size += count

    def since(
        self, generation: int, live_only: bool
    ) -> tuple[arrays.Int32Array, arrays.Int32Array, arrays.Int64Array] | None:
        """Class indices, slots and signs of the changes after the generation; None: the log does not reach back to it.

        `live_only` leaves out pods that are being deleted. Shapes: (n,).
        """
        if generation < self.floor:
            return None
        first = int(np.searchsorted(self._generation[: self._size], generation, side="right"))
        at = slice(first, self._size)
        classes, slots, signs = self._class[at], self._slot[at], self._sign[at].astype(np.int64)
        if live_only:
            live = ~self._terminating[at]
            return classes[live], slots[live], signs[live]
        return classes, slots, signs

    def _grow(self, entries: int) -> None:
        """Make room for so many entries, as far as the log may be so long."""
        size = min(max(entries, 2 * self._generation.shape[0]), 2 * self._keep)
        for name in ("_generation", "_class", "_slot", "_sign", "_terminating"):
            setattr(self, name, arrays.grow_last_axis(getattr(self, name), size))

    def _drop_oldest_changes(self, count: int) -> None:
        self.floor = max(self.floor, int(self._generation[count - 1]))
        remaining = self._size - count
        for column in (self._generation, self._class, self._slot, self._sign, self._terminating):
            column[:remaining] = column[count : self._size].copy()
        self._size = remaining
