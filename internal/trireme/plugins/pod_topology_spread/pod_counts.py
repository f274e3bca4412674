"""How many pods count for a constraint."""

from collections.abc import Callable, Hashable

import numpy as np

from trireme.framework import label_selectors
from trireme.plugins.pod_topology_spread.constraints import Constraint
from trireme.snapshot import arrays, classes, occupancy, snapshot


def counted(
    pod_class: classes.PodClass, snap: snapshot.Snapshot, constraint: Constraint
) -> tuple[arrays.Int64Array, arrays.Int64Array]:
    """How many pods of the class's namespace each slot has that the constraint counts: in truth, and with what is
    rehearsed. Shapes: both (slot,).
    """
    namespace, selector = pod_class.namespace, constraint.selector
    if selector.empty:
        return np.zeros(snap.nodes.size, dtype=np.int64), _rehearsed_alone(namespace, snap)

    tally = _tally(namespace, selector, snap)
    return tally.real_at_slots("", snap.nodes.size), tally.at_slots("", snap.nodes.size)


def summed(
    pod_class: classes.PodClass,
    snap: snapshot.Snapshot,
    constraint: Constraint,
    numbering: Hashable,
    numbers: Callable[[], arrays.Int32Array],
    count: int,
) -> arrays.Int64Array:
    """What the constraint counts by how slots are numbered (`numbering` stands for that), with what is rehearsed."""
    if constraint.selector.empty:
        per_slot = counted(pod_class, snap, constraint)[1]
        return occupancy.DomainSums(numbers(), count, per_slot, 0).sums
    tally = _tally(pod_class.namespace, constraint.selector, snap)
    return tally.over(numbering, numbers, count, "", snap).sums


def _tally(namespace: str, selector: label_selectors.LabelSelector, snap: snapshot.Snapshot) -> occupancy.Tally:
    """Pods of the namespace that the selector matches and that are not being deleted."""

    def weigh(other: classes.PodClass) -> dict[str, int]:
        return {"": 1} if other.namespace == namespace and selector.matches(other.labels) else {}

    return snap.derived(("spread", namespace, selector), lambda: occupancy.Tally(weigh, live_only=True))


def _rehearsed_alone(namespace: str, snap: snapshot.Snapshot) -> arrays.Int64Array:
    """What an empty selector counts: none of the pods that are there, but each that a rehearsal adds or takes away.

    Shape: (slot,). Source: podtopologyspread (countPodsMatchSelector, updateWithPod).
    """
    none = np.zeros(snap.nodes.size, dtype=np.int64)
    if snap.rehearsal is None:
        return none
    there = snap.class_mask([each.id for each in snap.classes.values() if each.namespace == namespace])
    return snap.rehearsal.adjusted(none, there.astype(np.int64))
