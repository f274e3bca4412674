"""The nominated pods, by UID and as columns.

Each nominated pod counts on its node for pods of lower or equal priority. With many preemptors there are as many
nominated pods, so plugins select the ones that count for a class by columns and not one by one.

Tests: tests/unit/snapshot/test_tables_against_models.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trireme.snapshot import arrays, pods, slot_changes


@dataclass(frozen=True, slots=True)
class Nominee:
    """A pod that waits for a node: it counts there for pods of lower or equal priority."""

    uid: str
    pod_class: int
    slot: int


class Nominations(Mapping[str, Nominee]):
    """The nominated pods, in the order of their first nomination. Shapes: the columns (entry,)."""

    def __init__(self) -> None:
        self._nominees: dict[str, Nominee] = {}
        self._entries: dict[str, int] = {}  # column index by UID
        self._size = 0
        self._slots = np.zeros(0, dtype=np.int32)
        self._class_ids = np.zeros(0, dtype=np.int32)

    def __getitem__(self, uid: str) -> Nominee:
        return self._nominees[uid]

    def __iter__(self) -> Iterator[str]:
        return iter(self._nominees)

    def __len__(self) -> int:
        return len(self._nominees)

    def put(self, nominee: Nominee) -> None:
        """Add or update a nomination."""
        entry = self._entries.get(nominee.uid)
        if entry is None:
            if self._size == self._slots.shape[0]:
                self._compact_or_grow()
            entry = self._entries[nominee.uid] = self._size
            self._size += 1
        self._nominees[nominee.uid] = nominee
        self._slots[entry] = nominee.slot
        self._class_ids[entry] = nominee.pod_class

    def remove(self, uid: str) -> Nominee | None:
        """Remove the pod's nomination; return it."""
        nominee = self._nominees.pop(uid, None)
        if nominee is not None:
            self._slots[self._entries.pop(uid)] = pods.NO_SLOT
        return nominee

    def copy(self) -> "Nominations":
        """The same nominations, in columns of its own."""
        out = Nominations()
        out._nominees, out._entries, out._size = self._nominees.copy(), self._entries.copy(), self._size
        out._slots, out._class_ids = self._slots.copy(), self._class_ids.copy()
        return out

    def slots_of(self, class_ids: Sequence[int]) -> arrays.SlotArray:
        """The slots that pods of these classes are nominated to, ascending, each once. Shape: (slot,)."""
        if not self._nominees:
            return slot_changes.NO_SLOTS
        slots = self.slots[np.isin(self.class_ids, class_ids) & (self.slots != pods.NO_SLOT)]
        return np.unique(slots).astype(np.intp)

    def entry_of(self, uid: str) -> int | None:
        """The pod's column index, or None."""
        return self._entries.get(uid)

    @property
    def slots(self) -> arrays.Int32Array:
        """The slot of each entry; −1: the entry is empty."""
        return self._slots[: self._size]

    @property
    def class_ids(self) -> arrays.Int32Array:
        """The class of each entry."""
        return self._class_ids[: self._size]

    def _compact_or_grow(self) -> None:
        """Compact the columns, and grow them if that frees too little."""
        nominees = list(self._nominees.values())
        capacity = arrays.grown_capacity(2 * len(nominees), 0)
        self._slots = np.full(capacity, pods.NO_SLOT, dtype=np.int32)
        self._class_ids = np.zeros(capacity, dtype=np.int32)
        self._size = len(nominees)
        self._entries = {nominee.uid: entry for entry, nominee in enumerate(nominees)}
        self._slots[: self._size] = [nominee.slot for nominee in nominees]
        self._class_ids[: self._size] = [nominee.pod_class for nominee in nominees]
