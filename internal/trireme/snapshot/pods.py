"""The pod table: one row for each placed pod, as columns.

The frontend assigns rows; a pod keeps its row while it is placed. Counting pods of some classes per slot is a pass over
two int32 columns (a tenth of a millisecond for 100,000 pods), so there is no table per (class, slot) pair.
"""

import numpy as np

from trireme.snapshot import arrays

NO_SLOT = -1

TERMINATING = 1
PREEMPTED = 2

_COLUMNS = ("pod_class", "class_index", "slot", "start", "flags")


class PodTable:
    """Columns over rows; a row with slot NO_SLOT holds no pod. Units: start in seconds since 1970, 0 not started.

    `pod_class` is the number of the pod's class, `class_index` its place in arrays over classes.
    """

    def __init__(self) -> None:
        self.capacity = 0
        self.size = 0  # one past the highest row in use
        self.count = 0
        self.pod_class = np.zeros(0, dtype=np.int32)
        self.class_index = np.zeros(0, dtype=np.int32)
        self.slot = np.zeros(0, dtype=np.int32)
        self.start = np.zeros(0, dtype=np.int64)
        self.flags = np.zeros(0, dtype=np.uint8)
        self.uids: list[str] = []
        self.names: list[str] = []

    def ensure_capacity(self, row: int) -> None:
        """Grow the table to include the row."""
        if row < self.size:
            return
        missing = row + 1 - self.size
        self.uids.extend([""] * missing)
        self.names.extend([""] * missing)
        if row >= self.capacity:
            capacity = arrays.grown_capacity(row + 1, self.capacity)
            for column in _COLUMNS:
                setattr(self, column, arrays.grow_last_axis(getattr(self, column), capacity))
            self.capacity = capacity
        self.slot[self.size : row + 1] = NO_SLOT
        self.size = row + 1

    def copy(self) -> "PodTable":
        """The same rows, in columns of its own."""
        out = PodTable()
        out.capacity, out.size, out.count = self.capacity, self.size, self.count
        for column in _COLUMNS:
            setattr(out, column, getattr(self, column).copy())
        out.uids, out.names = self.uids.copy(), self.names.copy()
        return out

    def find(self, uid: str, slot: int) -> int | None:
        """The row of the pod with this UID on the slot; None if it is not there."""
        rows = np.flatnonzero(self.slot[: self.size] == slot).tolist()
        return next((row for row in rows if self.uids[row] == uid), None)

    def rows_of(self, classes: arrays.BoolArray) -> arrays.RowArray:
        """Rows of pods whose class is marked. Shape: classes (class,)."""
        placed = self.slot[: self.size] >= 0
        return np.flatnonzero(placed & classes[self.class_index[: self.size]])

    def count_by_slot(self, classes: arrays.BoolArray, size: int) -> arrays.Int64Array:
        """The number of pods of the marked classes per slot. Shapes: classes (class,); result (size,)."""
        return np.bincount(self.slot[self.rows_of(classes)], minlength=size)
