"""The columns of the classes that filter or score evaluated last.

The cache is bounded by memory. It holds for the snapshot's present incarnation alone: columns of an earlier one, or of
a class that is gone, are never returned.

Also change: internal/trireme/frontend/phase_clients/class_answers.py (caches of answers by class).
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from trireme.snapshot import classes, snapshot

# Memory limit in bytes; beyond it the classes that were evaluated longest ago are dropped, but for a few. It is
# measured for each eighth of the classes that is made anew or begins to know something, for that takes time for each
# class, so it may be exceeded by as much; where there is much room, not before half of it is taken by classes of the
# mean size. Only classes that were used since are measured: the columns of all others are as large as they were.
COLUMN_BYTES = 64 * 1024 * 1024
COLUMN_BYTES_PER_NODE = 300
MIN_CLASSES = 8
# So many at most: a class without answers, too, takes some 2 KB, and time where classes are gone.
MAX_CLASSES = 10_000
_PART_UNMEASURED = 8
# Columns of classes that are gone are looked for once for so large a part of the cache that is made anew.
_PART_NOT_LOOKED_AT = 8


class _CacheableColumns(Protocol):
    """A class's entry in the cache, which belongs to one `incarnation` of a snapshot."""

    @property
    def nbytes(self) -> int: ...


# Profile and class.
_Key = tuple[str, int]
# Profile and `PodClass.family`.
_Family = tuple[str, bytes]

ColumnsT = TypeVar("ColumnsT", bound=_CacheableColumns)


class ColumnCache(Generic[ColumnsT]):
    """The columns of classes, by profile.

    `make` makes empty ones, for a class that is not in the cache. What a class knows is where others of its family may
    begin, once it has joined.
    """

    def __init__(self, snap: snapshot.Snapshot, make: Callable[[], ColumnsT]) -> None:
        self._snap = snap
        self._make = make
        self._incarnation = snap.incarnation
        self._columns: OrderedDict[_Key, ColumnsT] = OrderedDict()
        # The family of each class that has joined, and the class of each family that did so last.
        self._families: dict[_Key, _Family] = {}
        self._last_of_family: dict[_Family, _Key] = {}
        # The memory when they were measured last, in bytes, of those that had any, and the sum; and the classes that
        # were used since.
        self._sizes: dict[_Key, int] = {}
        self._measured = 0
        self._used: set[_Key] = set()
        # How many classes were not in the cache when they were evaluated.
        self.made = 0
        self._joined = 0
        self._measure_at = 0  # so many made and joined
        # The last change of the set of classes for which no class in the cache is gone, and when to look again: to look
        # at each new class would cost as many steps as there are classes.
        self._classes_generation = 0
        self._look_at = 0  # so many made

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
        """The columns of the class, empty ones if they are missing."""
        if self._incarnation != self._snap.incarnation:
            self.clear()
            self._incarnation = self._snap.incarnation
        key = (profile, pod_class.id)
        columns = self._columns.get(key)
        if columns is None:
            self._drop_oldest()
            columns = self._columns[key] = self._make()
            self.made += 1
        self._columns.move_to_end(key)
        self._used.add(key)
        return columns

    def sibling_of(self, profile: str, pod_class: classes.PodClass) -> tuple[classes.PodClass, ColumnsT] | None:
        """The class of the same family that joined last, and its columns, if they are in the cache."""
        key = self._last_of_family.get((profile, pod_class.family))
        sibling = None if key is None else self._snap.classes.get(key[1])
        return None if key is None or sibling is None else (sibling, self._columns[key])

    def join_family(self, profile: str, pod_class: classes.PodClass) -> None:
        """The class, which is in the cache, knows something by now."""
        key, family = (profile, pod_class.id), (profile, pod_class.family)
        if key not in self._families:
            self._joined += 1
            self._drop_oldest()
            self._used.add(key)  # what it knows comes from now on
        self._families[key] = family
        self._last_of_family[family] = key

    def drop(self, profile: str, class_id: int) -> None:
        """Drop the columns of a class, if they are in the cache."""
        if (profile, class_id) in self._columns:
            self._remove((profile, class_id))

    def clear(self) -> None:
        """Drop the columns of all classes."""
        self._columns.clear()
        self._families.clear()
        self._last_of_family.clear()
        self._sizes.clear()
        self._measured = self._measure_at = self._look_at = 0

    def _remove(self, key: _Key) -> None:
        del self._columns[key]
        family = self._families.pop(key, None)
        if family is not None and self._last_of_family[family] == key:
            del self._last_of_family[family]
        self._measured -= self._sizes.pop(key, 0)

    def _measure_used(self) -> None:
        """Measure the classes that were used since they were measured last."""
        for key in self._used:
            columns = self._columns.get(key)
            if columns is not None:
                size = columns.nbytes
                self._measured += size - self._sizes.pop(key, 0)
                if size:
                    self._sizes[key] = size
        self._used.clear()

    def _drop_oldest(self) -> None:
        """Drop the columns of classes that are gone, then the least recently used while memory is over the limit."""
        due = self.made >= self._look_at or len(self._columns) >= MAX_CLASSES
        if due and self._classes_generation != self._snap.classes_generation:
            self._classes_generation = self._snap.classes_generation
            self._look_at = self.made + len(self._columns) // _PART_NOT_LOOKED_AT
            for key in [key for key in self._columns if key[1] not in self._snap.classes]:
                self._remove(key)
        if len(self._columns) >= MAX_CLASSES:
            self._remove(next(iter(self._columns)))
        if self.made + self._joined < self._measure_at:
            return
        limit = max(COLUMN_BYTES, COLUMN_BYTES_PER_NODE * self._snap.nodes.capacity)
        self._measure_used()
        while self._measured > limit and len(self._columns) > MIN_CLASSES:
            self._remove(next(iter(self._columns)))
        # Classes without answers say nothing about how large others become.
        count, total = len(self._sizes), self._measured
        room = (limit - total) * count // (2 * total) if total else 0
        self._measure_at = self.made + self._joined + max(count // _PART_UNMEASURED, room)
