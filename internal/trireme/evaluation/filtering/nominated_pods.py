"""The nominated pods that count for a class: those of at least its priority, each on the node that it waits for.

Tests: tests/unit/evaluation/test_nominated_filter.py.
"""

from dataclasses import dataclass

import numpy as np

from trireme.evaluation import class_priorities
from trireme.snapshot import arrays, snapshot


@dataclass(frozen=True, slots=True)
class Nominees:
    """Pods that are nominated to a slot and count there for the class that is evaluated. Shapes: both (nominee,)."""

    class_ids: arrays.Int32Array
    slots: arrays.Int32Array

    def limit_to_slots(self, slots: arrays.SlotArray, size: int) -> "Nominees":
        """Return those that are nominated to one of these slots; there are `size` slots."""
        there = np.zeros(size, dtype=np.bool_)
        there[slots] = True
        chosen = there[self.slots]
        return Nominees(self.class_ids[chosen], self.slots[chosen])


_NONE = Nominees(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32))


def nominees_of_at_least(snap: snapshot.Snapshot, priority: int, *but: str) -> Nominees:
    """Return the nominated pods of at least this priority, but for the pods of these UIDs.

    Left out are those whose class or node is not known (any more).
    """
    nominated = snap.nominations
    if not len(nominated):
        return _NONE
    slots, class_ids = nominated.slots, nominated.class_ids
    counting = (slots >= 0) & (class_priorities.class_priorities_of(snap).of_numbers(class_ids) >= priority)
    counting &= snap.nodes.alive[slots]
    for uid in but:
        own = nominated.entry_of(uid)
        if own is not None:
            counting[own] = False
    return Nominees(class_ids[counting], slots[counting])
