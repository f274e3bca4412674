"""What is derived from a snapshot and shared by all who ask the same: kept for a while, brought up to date when asked.

What a plugin needs of one class alone it keeps on the class. What many classes have in common, and what is as large as
the cluster, is kept here, where memory has a bound.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from trireme.snapshot import snapshot

# Kept at most, in bytes; beyond it what was used longest ago is forgotten, but for a few.
MAX_BYTES = 32 * 1024 * 1024
MAX_BYTES_PER_NODE = 512
MIN_ENTRIES = 32


class Derived(Protocol):
    """Something that follows a snapshot."""

    @property
    def nbytes(self) -> int:
        """Its memory, in bytes."""
        ...

    def bring_up(self, snap: "snapshot.Snapshot") -> None:
        """Follow the snapshot to where it is now."""
        ...


Entry = TypeVar("Entry", bound=Derived)


class DerivedTable:
    """Entries by key. Keys are equal only where what they stand for is."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, Any] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def nbytes(self) -> int:
        """Memory of all entries, in bytes."""
        return sum(entry.nbytes for entry in self._entries.values())

    def get(self, key: Hashable, make: Callable[[], Entry], snap: "snapshot.Snapshot") -> Entry:
        """The entry of this key, made if there is none, up to date."""
        entry = self._entries.get(key)
        if entry is None:
            self._forget_oldest(snap.nodes.capacity)
            entry = self._entries[key] = make()
        self._entries.move_to_end(key)
        entry.bring_up(snap)
        return cast(Entry, entry)

    def _forget_oldest(self, nodes: int) -> None:
        limit = max(MAX_BYTES, MAX_BYTES_PER_NODE * nodes)
        total = self.nbytes
        while total > limit and len(self._entries) > MIN_ENTRIES:
            total -= self._entries.popitem(last=False)[1].nbytes
