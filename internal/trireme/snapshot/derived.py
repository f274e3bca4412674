"""A bounded cache of values derived from a snapshot, shared between callers and refreshed on access.

Plugins store values about a single class on the class. Values shared by many classes, or as large as the cluster, are
cached here, within a memory limit.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from trireme.snapshot import snapshot

# The memory limit in bytes; beyond it the least recently used entries are dropped, except a few.
MAX_BYTES = 32 * 1024 * 1024
MAX_BYTES_PER_NODE = 512
MIN_ENTRIES = 32


class Derived(Protocol):
    """A value that follows a snapshot."""

    @property
    def nbytes(self) -> int:
        """Its memory, in bytes."""
        ...

    def bring_up(self, snap: "snapshot.Snapshot") -> None:
        """Update to the snapshot's current state."""
        ...


Entry = TypeVar("Entry", bound=Derived)


class DerivedTable:
    """Cached entries by key."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, Any] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def nbytes(self) -> int:
        """Memory of all entries, in bytes."""
        return sum(entry.nbytes for entry in self._entries.values())

    def get(self, key: Hashable, make: Callable[[], Entry], snap: "snapshot.Snapshot") -> Entry:
        """Return the entry, made if missing, and updated to the snapshot."""
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
