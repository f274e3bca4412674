"""The priority of each class as a column: what preemption compares, of placed pods and of nominated ones.

Tests: tests/unit/snapshot/test_numbers_used_again.py.
"""

import numpy as np

from trireme.snapshot import arrays, snapshot

# Stands for a class that does not exist: less than any priority.
_UNKNOWN = -(2**40)


class ClassPriorities:
    """The priority of each class as a column, made again when classes were added or removed. Shape: (class,)."""

    def __init__(self, snap: snapshot.Snapshot) -> None:
        self._generation = -1
        self.column = np.zeros(0, dtype=np.int64)
        # The numbers of all classes, ascending, and their priorities. Shapes: (existing class,).
        self._numbers = np.zeros(0, dtype=np.int64)
        self._priorities = np.zeros(0, dtype=np.int64)

    @property
    def nbytes(self) -> int:
        """Memory of the columns, in bytes."""
        return self.column.nbytes + self._numbers.nbytes + self._priorities.nbytes

    def refresh(self, snap: snapshot.Snapshot) -> None:
        """Make the column again if classes were added or removed since."""
        if self._generation == snap.classes_generation:
            return
        known = [snap.classes[number] for number in sorted(snap.classes)]
        self._numbers = np.array([each.id for each in known], dtype=np.int64)
        self._priorities = np.array([each.priority for each in known], dtype=np.int64)
        self.column = np.full(snap.class_capacity, _UNKNOWN, dtype=np.int64)
        self.column[np.array([each.index for each in known], dtype=np.intp)] = self._priorities
        self._generation = snap.classes_generation

    def of_numbers(self, class_ids: arrays.Int32Array) -> arrays.Int64Array:
        """The priorities of the classes with these numbers; of one that does not exist less than any. Shapes: (n,)."""
        if not self._numbers.size:
            return np.full(class_ids.shape, _UNKNOWN, dtype=np.int64)
        at = np.searchsorted(self._numbers, class_ids).clip(max=self._numbers.size - 1)
        return np.where(self._numbers[at] == class_ids, self._priorities[at], _UNKNOWN)


def priorities_by_class(snap: snapshot.Snapshot) -> arrays.Int64Array:
    """The priority of each class. Shape: (class,)."""
    return class_priorities_of(snap).column


def class_priorities_of(snap: snapshot.Snapshot) -> ClassPriorities:
    """The snapshot's priorities of classes, up to date."""
    return snap.derived("class_priorities", ClassPriorities)
