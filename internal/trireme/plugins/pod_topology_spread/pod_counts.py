"""How many pods count for a constraint."""

from collections.abc import Callable, Hashable

from trireme.framework import label_selectors
from trireme.plugins.pod_topology_spread.constraints import Constraint
from trireme.snapshot import arrays, class_counters, classes, labelled_classes, snapshot_view


def matching_pods_per_slot(
    pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, constraint: Constraint
) -> tuple[arrays.Int64Array, arrays.Int64Array]:
    """How many pods of the class's namespace each slot has that the constraint counts. Shapes: both (slot,).

    In the snapshot, and with the overlay's changes.
    """
    counter = _matching_pods_counter(pod_class.namespace, constraint.selector, snap)
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
