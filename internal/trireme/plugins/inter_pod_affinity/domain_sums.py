"""Sums over the domains of a topology key, of what pods in them count for."""

from collections.abc import Mapping

from trireme.snapshot import arrays, class_counters, snapshot_view

# Per topology key the sums of its domains, by the number of the label's value; the first stands for nodes without it.
Sums = Mapping[str, class_counters.DomainSums]


def domain_sums_of(snap: snapshot_view.SnapshotView, counter: class_counters.AnyClassCounter) -> Sums:
    """Return the counter's sums by domain, for each topology key that it counts under."""
    return {key: sums_over_domains(snap, key, counter, key) for key in counter.keys}


def sums_over_domains(
    snap: snapshot_view.SnapshotView, key: str, counter: class_counters.AnyClassCounter, under: str
) -> class_counters.DomainSums:
    """Return what the counter has counted under the name `under`, summed over the domains of a topology key."""
    return counter.by_domain(key, lambda: domain_values(snap, key), domain_count(snap, key), under, snap)


def domain_count(snap: snapshot_view.SnapshotView, key: str) -> int:
    """Return the number of values that the label has on any node, and one more for nodes without it."""
    return len(snap.nodes.labels.column(key).dictionary)


def domain_values(snap: snapshot_view.SnapshotView, key: str) -> arrays.Int32Array:
    """Return the number of the label's value on each slot's node. Shape: (slot,)."""
    return snap.nodes.labels.column(key).values(snap.nodes.size)


def labels_as_key(*labels: Mapping[str, str]) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Labels as a part of a key."""
    return tuple(tuple(sorted(each.items())) for each in labels)
