"""The columns of the classes that filter or score evaluated last.

The cache is bounded by memory. It holds for the snapshot's present incarnation alone: columns of an earlier one, or of
a class that is gone, are never returned.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from trireme.snapshot import classes, snapshot

# Memory limit in bytes; beyond it the classes that were evaluated longest ago are dropped, but for a few. It is
# measured for each eighth of the classes that is made anew, for that takes time for each class, so it may be exceeded
# by as much; where there is much room, not before half of it is taken by classes of the mean size.
COLUMN_BYTES = 64 * 1024 * 1024
COLUMN_BYTES_PER_NODE = 300
MIN_CLASSES = 8
_PART_UNMEASURED = 8


class _CacheableColumns(Protocol):
    """What the cache holds for a class: it belongs to one `incarnation` of a snapshot."""

    @property
    def nbytes(self) -> int: ...


ColumnsT = TypeVar("ColumnsT", bound=_CacheableColumns)


class ColumnCache(Generic[ColumnsT]):
    """The columns of classes, by profile; `make` makes those of a class that is not in the cache."""

    def __init__(self, snap: snapshot.Snapshot, make: Callable[[], ColumnsT]) -> None:
        self._snap = snap
        self._make = make
        self._incarnation = snap.incarnation
        self._columns: OrderedDict[tuple[str, int], ColumnsT] = OrderedDict()
        # How many classes were not in the cache when they were evaluated.
        self.made = 0
        self._measure_at = 0  # so many made
        # The last change of the set of classes for which no class in the cache is gone.
        self._classes_generation = 0

    def __len__(self) -> int:
        return len(self._columns)

    def __contains__(self, key: object) -> bool:
        """Whether the class (profile, number) is in the cache."""
        return key in self._columns

    @property
    def nbytes(self) -> int:
        """Memory of all columns, in bytes."""
        return sum(columns.nbytes for columns in self._columns.values())

    def columns_of(self, profile: str, pod_class: classes.PodClass) -> ColumnsT:
        """The columns of the class, made if they are missing."""
        if self._incarnation != self._snap.incarnation:
            self._columns.clear()
            self._incarnation = self._snap.incarnation
        key = (profile, pod_class.id)
        columns = self._columns.get(key)
        if columns is None:
            self._drop_oldest()
            columns = self._columns[key] = self._make()
            self.made += 1
        self._columns.move_to_end(key)
        return columns

    def drop(self, profile: str, class_id: int) -> None:
        """Drop the columns of a class, if they are in the cache."""
        self._columns.pop((profile, class_id), None)

    def clear(self) -> None:
        """Drop the columns of all classes."""
        self._columns.clear()
        self._measure_at = 0

    def _drop_oldest(self) -> None:
        """Drop the columns of classes that are gone, then the least recently used while memory is over the limit."""
        if self._classes_generation != self._snap.classes_generation:
            self._classes_generation = self._snap.classes_generation
            for key in [key for key in self._columns if key[1] not in self._snap.classes]:
                del self._columns[key]
        if self.made < self._measure_at:
            return
        limit = max(COLUMN_BYTES, COLUMN_BYTES_PER_NODE * self._snap.nodes.capacity)
        total = self.nbytes
        while total > limit and len(self._columns) > MIN_CLASSES:
            total -= self._columns.popitem(last=False)[1].nbytes
        count = len(self._columns)
        room = (limit - total) * count // (2 * total) if total else 0
        self._measure_at = self.made + max(count // _PART_UNMEASURED, room)
