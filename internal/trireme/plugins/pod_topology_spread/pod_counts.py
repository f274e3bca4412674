"""How many pods count for a constraint."""

from collections.abc import Callable, Hashable

import numpy as np

from trireme.framework import label_selectors
from trireme.plugins.pod_topology_spread.constraints import Constraint
from trireme.snapshot import arrays, class_counters, classes, labelled_classes, snapshot_view


def matching_pods_per_slot(
    pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, constraint: Constraint
) -> tuple[arrays.Int64Array, arrays.Int64Array]:
    """How many pods of the class's namespace each slot has that the constraint counts. Shapes: both (slot,).

    In the snapshot, and with the overlay's changes.
    """
    namespace, selector = pod_class.namespace, constraint.selector
    if selector.empty:
        return np.zeros(snap.nodes.size, dtype=np.int64), _count_moved_pods(namespace, snap)
    counter = _matching_pods_counter(namespace, selector, snap)
    return counter.base.at_slots("", snap.nodes.size), counter.at_slots("", snap.nodes.size)


def matching_pods_per_domain(
    pod_class: classes.PodClass,
    snap: snapshot_view.SnapshotView,
    constraint: Constraint,
    numbering: Hashable,
    numbers: Callable[[], arrays.Int32Array],
    count: int,
) -> arrays.Int64Array:
    """Count the pods that match the constraint by domain, a dry run's changes included. Shape: (domain,).

    `numbers` returns the domain of each of the `count` slots; `numbering` is equal where these are.
    """
    if constraint.selector.empty:
        per_slot = matching_pods_per_slot(pod_class, snap, constraint)[1]
        return class_counters.DomainSums(numbers(), count, per_slot, 0).sums
    counter = _matching_pods_counter(pod_class.namespace, constraint.selector, snap)
    return counter.by_domain(numbering, numbers, count, "", snap).sums


def _matching_pods_counter(
    namespace: str, selector: label_selectors.LabelSelector, snap: snapshot_view.SnapshotView
) -> class_counters.AnyClassCounter:
    """Pods of the namespace that the selector matches and that are not being deleted."""

    def weigh(other: classes.PodClass) -> dict[str, int]:
        return {"": 1} if other.namespace == namespace and selector.matches(other.labels) else {}

    among = labelled_classes.classes_selected_by([selector])
    return class_counters.class_counter(snap, ("spread", namespace, selector), weigh, live_only=True, among=among)


def _count_moved_pods(namespace: str, snap: snapshot_view.SnapshotView) -> arrays.Int64Array:
    """Count by slot what an empty selector counts: in a dry run each pod added or removed, else nothing.

    Shape: (slot,). Source: podtopologyspread (countPodsMatchSelector, updateWithPod).
    """
    none = np.zeros(snap.nodes.size, dtype=np.int64)
    if snap.dry_run is None:
        return none
    counted = snap.class_mask([each.id for each in snap.classes.values() if each.namespace == namespace])
    return snap.dry_run.adjusted(none, counted.astype(np.int64), live_only=False)
