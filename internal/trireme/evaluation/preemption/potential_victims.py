"""The pods that may be evicted for a pod of a priority: all of lower priority, in the order of their importance.

Also change: internal/trireme/evaluation/preemption/victims_with_groups.py (the order of victims).

Tests: tests/unit/evaluation/test_preemption_victims.py,
tests/unit/plugins/default_preemption/test_post_filter.py.
"""

import numpy as np

from trireme.evaluation import class_priorities
from trireme.snapshot import arrays, snapshot

#: The start of a pod that has not started, so that it comes after all others.
NOT_STARTED = np.iinfo(np.int64).max


def has_victims(snap: snapshot.Snapshot, priority: int) -> arrays.BoolArray:
    """Return for each slot whether there are pods of lower priority. Shape: (slot,)."""
    table = snap.pods
    out = np.zeros(snap.nodes.size + 1, dtype=np.bool_)
    # Rows without a pod are at slot −1: the last entry, which is left off.
    lower = class_priorities.priorities_by_class(snap)[table.class_index[: table.size]] < priority
    out[table.slot[: table.size][lower]] = True
    return out[:-1]


def rows_on_slots(snap: snapshot.Snapshot, slots: arrays.SlotArray, *, priority: int) -> arrays.RowArray:
    """Return the rows of the pods of lower priority on these slots: by slot, the most important first.

    Of two pods of one priority the one that started earlier is more important; one that has not started is the least.
    Of those that started in the same second the one with the lower UID is. Shape: (victim,).
    """
    table = snap.pods
    # Rows without a pod are at slot −1: the last entry, which stays false.
    wanted = np.zeros(snap.nodes.size + 1, dtype=np.bool_)
    wanted[slots] = True
    by_class = class_priorities.priorities_by_class(snap)
    rows = np.flatnonzero(wanted[table.slot[: table.size]])
    rows = rows[by_class[table.class_index[rows]] < priority]
    keys = np.array([starts(snap, rows), -by_class[table.class_index[rows]], table.slot[rows]])
    order = np.lexsort(keys)
    equal = (keys[:, order[1:]] == keys[:, order[:-1]]).all(axis=0)
    return _with_ties_by_uid(snap, rows[order], equal)


def _with_ties_by_uid(snap: snapshot.Snapshot, rows: arrays.RowArray, equal: arrays.BoolArray) -> arrays.RowArray:
    """Sort runs of equally important rows by UID; `equal` marks rows that are as the one after them. Shape: (row,)."""
    for first in np.flatnonzero(equal & ~np.append(False, equal[:-1])).tolist():
        more = np.flatnonzero(~equal[first:])
        after = first + 1 + (int(more[0]) if more.size else equal.shape[0] - first)
        rows[first:after] = sorted(rows[first:after].tolist(), key=snap.pods.uids.__getitem__)
    return rows


def starts(snap: snapshot.Snapshot, rows: arrays.RowArray) -> arrays.Int64Array:
    """Return when the pods at these rows started, in Unix seconds, or NOT_STARTED. Shape: (row,)."""
    start = snap.pods.start[rows]
    return np.where(start == 0, NOT_STARTED, start)


def restricted_to(snap: snapshot.Snapshot, victims: arrays.RowArray, slots: arrays.SlotArray) -> arrays.RowArray:
    """Return those of the victims (rows) that are on these slots, in their order. Shape: (victim,)."""
    return victims[np.isin(snap.pods.slot[victims], slots)]
