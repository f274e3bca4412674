"""The pod table: one row for each placed pod, as columns.

The frontend assigns rows; a pod keeps its row while it is placed. Counting pods of some classes per slot is a pass over
two int32 columns (a tenth of a millisecond for 100,000 pods), so there is no table per (class, slot) pair.

Also change: internal/trireme/cache/pod_projection.py, internal/trireme/sdk/cluster_state.py (bits of a pod's flags).

Tests: tests/unit/snapshot/test_tables_against_models.py, tests/unit/snapshot/test_deltas.py,
tests/unit/snapshot/test_shared_columns.py.
"""

from collections.abc import Sequence

import numpy as np

from trireme.snapshot import arrays, forkable_columns, pod_names, uid_index

NO_SLOT = -1

# So many classes are compared with each row, one by one.
_FEW_CLASSES = 4

TERMINATING = 1
PREEMPTED = 2


class PodTable(forkable_columns.ForkableColumns):
    """Columns over rows; a row with slot NO_SLOT holds no pod. Units: start in seconds since 1970, 0 not started.

    `pod_class` is the number of the pod's class, `class_index` its place in arrays over classes. UIDs and names are
    written by `write_names` alone.
    """

    COLUMNS = ("pod_class", "class_index", "slot", "start", "flags")

    def __init__(self) -> None:
        super().__init__()
        self.capacity = 0
        self.size = 0  # one past the highest row in use
        self.count = 0
        self.pod_class = np.zeros(0, dtype=np.int32)
        self.class_index = np.zeros(0, dtype=np.int32)
        self.slot = np.zeros(0, dtype=np.int32)
        self.start = np.zeros(0, dtype=np.int64)
        self.flags = np.zeros(0, dtype=np.uint8)
        self.uids: Sequence[str] = []
        self.names: Sequence[str] = []
        # In a fork, its changes of them.
        self._forked_names: pod_names.ForkedNames | None = None
        # The rows by UID, from when they are first needed.
        self._index: uid_index.UidIndex | None = None

    def ensure_capacity(self, row: int) -> None:
        """Grow the table to include the row; after `before_change`."""
        if row < self.size:
            return
        missing = row + 1 - self.size
        if self._forked_names is not None:
            self._forked_names.size = row + 1
        else:
            for texts in self._own_texts():
                texts.extend([""] * missing)
        if row >= self.capacity:
            capacity = arrays.grown_capacity(row + 1, self.capacity)
            for column in self.COLUMNS:
                setattr(self, column, arrays.grow_last_axis(getattr(self, column), capacity))
            self.capacity = capacity
        self.slot[self.size : row + 1] = NO_SLOT
        self.size = row + 1

    def write_names(self, rows: Sequence[int], uids: Sequence[str], names: Sequence[str]) -> None:
        """Write UIDs and names of rows, but for those without a UID; after `before_change`."""
        forked, index = self._forked_names, self._index
        if forked is not None:
            for row, uid, name in zip(rows, uids, names, strict=True):
                if uid:
                    forked.write(row, uid, name)
            return
        own_uids, own_names = self._own_texts()
        for row, uid, name in zip(rows, uids, names, strict=True):
            if uid:
                own_uids[row] = uid
                own_names[row] = name
                if index is not None:
                    index.write(uid, row)

    def clear_names(self, rows: Sequence[int]) -> None:
        """Clear UIDs and names of rows; after `before_change`."""
        if self._forked_names is not None:
            for row in rows:
                self._forked_names.write(row, "", "")
            return
        uids, names = self._own_texts()
        if self._index is not None:
            for row in rows:
                self._index.discard(uids[row])
        for row in rows:
            uids[row] = names[row] = ""

    def fork(self) -> "PodTable":
        """The same rows, which are not changed by changes of this table, nor these by it."""
        out = PodTable()
        self.share(out)
        out.count = self.count
        source = out._source
        assert isinstance(source, pod_names.PodTableVersion)
        known = self._forked_names
        same = known is not None and known.version is source
        out._forked_names = known.copy() if known is not None and same else pod_names.ForkedNames(source)
        out.uids, out.names = pod_names.NameColumn(out._forked_names, 0), pod_names.NameColumn(out._forked_names, 1)
        return out

    def make_version(self, family: forkable_columns.Family) -> pod_names.PodTableVersion:
        """The table as it is now, for forks."""
        return pod_names.PodTableVersion(self, self, family)

    def make_independent(self) -> None:
        """Copy all columns, UIDs and names that a fork shares with what changes."""
        if self._forked_names is not None:
            self.uids, self.names = self._forked_names.texts(0), self._forked_names.texts(1)
            self._forked_names = None
        super().make_independent()

    def names_at(self, row: int) -> pod_names.Names:
        """UID and name of the pod in the row; both at once, for forks of forks ask one after the other."""
        forked = self._forked_names
        return (self.uids[row], self.names[row]) if forked is None else forked.at(row)

    def row_of(self, uid: str) -> int | None:
        """The row of the pod with this UID; None if there is none."""
        if self._forked_names is not None:
            return self._forked_names.row_of(uid)
        if not uid:
            return None
        if self._index is None or self._index.is_crowded:
            self._index = uid_index.UidIndex(self.uids)
        return next((row for row in self._index.rows_with(uid) if self.uids[row] == uid), None)

    def find(self, uid: str, slot: int) -> int | None:
        """The row of the pod with this UID on the slot; None if it is not there."""
        rows = np.flatnonzero(self.slot[: self.size] == slot).tolist()
        return next((row for row in rows if self.uids[row] == uid), None)

    def rows_of(self, classes: arrays.BoolArray) -> arrays.RowArray:
        """Rows of pods whose class is marked, ascending. Shape: classes (class,)."""
        index, marked = self.class_index[: self.size], np.flatnonzero(classes).tolist()
        if len(marked) > _FEW_CLASSES:
            rows = np.flatnonzero(classes[index])
        else:
            # To compare all rows with a few numbers takes a fraction of looking each row's class up.
            chosen = np.zeros(self.size, dtype=np.bool_)
            for number in marked:
                chosen |= index == number
            rows = np.flatnonzero(chosen)
        return rows[self.slot[rows] >= 0]

    def count_by_slot(self, classes: arrays.BoolArray, size: int) -> arrays.Int64Array:
        """The number of pods of the marked classes per slot. Shapes: classes (class,); result (size,)."""
        return np.bincount(self.slot[self.rows_of(classes)], minlength=size)

    def _own_texts(self) -> tuple[list[str], list[str]]:
        """The lists of UIDs and names of a table that is no fork."""
        assert isinstance(self.uids, list)
        assert isinstance(self.names, list)
        return self.uids, self.names
