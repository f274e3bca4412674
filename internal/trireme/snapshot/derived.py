"""The one store of what is derived from a snapshot: shared between callers, refreshed on access, bounded in memory.

Values that follow from a class alone are stored on the class (`PodClass.memo`). Everything that follows from the
cluster is an entry here, so that it is dropped with the snapshot's incarnation, and never outlives its snapshot. What
is made for a class is dropped with it, for it holds the class: much more than its arrays, which are what is measured.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, Protocol, TypeVar, cast

# The memory limit in bytes; beyond it the least recently used entries are dropped, except a few.
MAX_BYTES = 32 * 1024 * 1024
MAX_BYTES_PER_NODE = 512
MIN_ENTRIES = 32

# Memory is measured again, which visits all entries, once one entry in this many is new; where those that are new have
# not filled the limit by what they took when they were made, only once as many are new as there were.
_MEASURE_PART = 8

# About what a small entry takes whose memory does not depend on the cluster, in bytes.
SMALL = 1024

SourceT = TypeVar("SourceT")
SourceT_contra = TypeVar("SourceT_contra", contravariant=True)


class Derived(Protocol[SourceT_contra]):
    """A value that follows a snapshot.

    Implementers: trireme.plugins.*, trireme.plugin_kit.*, trireme.evaluation.class_priorities.ClassPriorities,
    trireme.evaluation.preemption.dry_run_cache.DryRunCache,
    trireme.evaluation.preemption.victims_with_groups.GroupMembership,
    trireme.snapshot.labelled_classes._ClassesByLabel, trireme.snapshot.class_counters.ClassCounter,
    trireme.snapshot.overlay._DifferenceBuffers, trireme.snapshot.overlay._PodUsage,
    trireme.snapshot.node_usage._CapacityColumn.
    """

    @property
    def nbytes(self) -> int | None:
        """Its memory, in bytes. None: one of a kind, which takes long to make: it is not counted and never dropped."""
        ...

    def refresh(self, snap: SourceT_contra) -> None:
        """Update to the snapshot's current state."""
        ...


Entry = TypeVar("Entry", bound=Derived[Any])


class DerivedTable(Generic[SourceT]):
    """Entries by key. A key belongs to one caller, and stands for one value of one snapshot."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, Derived[SourceT]] = OrderedDict()
        # The keys of what was made for a class, perhaps dropped since.
        self._keys_of_class: dict[int, set[Hashable]] = {}
        # The memory of all entries when it was measured, that of new ones when each was made, and how many these are.
        self._measured = 0
        self._added = 0
        self._unmeasured = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def nbytes(self) -> int:
        """Memory of all entries, in bytes."""
        return sum(entry.nbytes or 0 for entry in self._entries.values())

    def get(
        self, key: Hashable, make: Callable[[SourceT], Entry], snap: SourceT, nodes: int, of_class: int | None = None
    ) -> Entry:
        """Return the entry, made if missing, and updated to the snapshot, which has room for so many nodes.

        An entry that is made `of_class` goes with that class; other classes that share it have it made again.
        """
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
            entry.refresh(snap)
            return cast(Entry, entry)
        self._drop_least_recently_used(nodes)
        made = self._entries[key] = make(snap)
        if of_class is not None:
            self._keys_of_class.setdefault(of_class, set()).add(key)
        self._unmeasured += 1
        made.refresh(snap)
        self._added += made.nbytes or 0
        return made

    def drop_entries_of_class(self, class_id: int) -> None:
        """Drop what was made for a class that exists no more."""
        for key in self._keys_of_class.pop(class_id, ()):
            self._entries.pop(key, None)

    def _drop_least_recently_used(self, nodes: int) -> None:
        """Drop the entries used longest ago while there is too much memory in them; measured only now and then."""
        count, limit = len(self._entries), max(MAX_BYTES, MAX_BYTES_PER_NODE * nodes)
        part = 2 if self._measured + self._added <= limit else _MEASURE_PART
        if count < MIN_ENTRIES or self._unmeasured * part < count:
            return
        self._unmeasured = self._added = 0
        total = self.nbytes
        for key in list(self._entries):
            if total <= limit or len(self._entries) <= MIN_ENTRIES:
                break
            size = self._entries[key].nbytes
            if size is not None:
                total -= size
                del self._entries[key]
        self._measured = total
