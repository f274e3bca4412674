"""The classes that filter or score was asked about lately, each with the columns that it keeps of it.

What is kept is bounded by memory and means something only in the snapshot's present incarnation: nobody gets columns of
an earlier one, nor of a class that is no more.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from trireme.snapshot import classes, snapshot

# Columns kept at most, in bytes; beyond it the classes that were asked about longest ago are forgotten, but for a few.
COLUMN_BYTES = 64 * 1024 * 1024
COLUMN_BYTES_PER_NODE = 300
MIN_CLASSES = 8


class _Columns(Protocol):
    @property
    def nbytes(self) -> int: ...


ColumnsT = TypeVar("ColumnsT", bound=_Columns)


class KeptClasses(Generic[ColumnsT]):
    """The columns of classes, by profile; `make` makes those of a class of which nothing is kept."""

    def __init__(self, snap: snapshot.Snapshot, make: Callable[[], ColumnsT]) -> None:
        self._snap = snap
        self._make = make
        self._incarnation = snap.incarnation
        self._kept: OrderedDict[tuple[str, int], ColumnsT] = OrderedDict()
        # How often a class was begun with nothing.
        self.made = 0

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: object) -> bool:
        """Whether anything is kept of the class (profile, number)."""
        return key in self._kept

    @property
    def nbytes(self) -> int:
        """Memory of all columns, in bytes."""
        return sum(kept.nbytes for kept in self._kept.values())

    def of(self, profile: str, pod_class: classes.PodClass) -> ColumnsT:
        """What is kept of the class, made if nothing is."""
        if self._incarnation != self._snap.incarnation:
            self._kept.clear()
            self._incarnation = self._snap.incarnation
        key = (profile, pod_class.id)
        kept = self._kept.get(key)
        if kept is None:
            self._forget_oldest()
            kept = self._kept[key] = self._make()
            self.made += 1
        self._kept.move_to_end(key)
        return kept

    def _forget_oldest(self) -> None:
        for key in [key for key in self._kept if key[1] not in self._snap.classes]:
            del self._kept[key]
        limit = max(COLUMN_BYTES, COLUMN_BYTES_PER_NODE * self._snap.nodes.capacity)
        total = self.nbytes
        while total > limit and len(self._kept) > MIN_CLASSES:
            total -= self._kept.popitem(last=False)[1].nbytes
