"""The priority of each class as a column: what preemption compares, of placed pods and of nominated ones."""

import numpy as np

from trireme.snapshot import arrays, snapshot

# Stands for a class that does not exist: less than any priority.
_UNKNOWN = -(2**40)


class ClassPriorities:
    """The priority of each class as a column, made again when classes were added or removed. Shape: (class,)."""

    def __init__(self, snap: snapshot.Snapshot) -> None:
        self._generation = -1
        self.column = np.zeros(0, dtype=np.int64)

    @property
    def nbytes(self) -> int:
        """Memory of the column, in bytes."""
        return self.column.nbytes

    def refresh(self, snap: snapshot.Snapshot) -> None:
        """Make the column again if classes were added or removed since."""
        if self._generation == snap.classes_generation:
            return
        self.column = np.full(snap.class_capacity, _UNKNOWN, dtype=np.int64)
        for pod_class in snap.classes.values():
            self.column[pod_class.id] = pod_class.priority
        self._generation = snap.classes_generation


def priorities_by_class(snap: snapshot.Snapshot) -> arrays.Int64Array:
    """The priority of each class. Shape: (class,)."""
    return snap.derived("class_priorities", ClassPriorities).column
