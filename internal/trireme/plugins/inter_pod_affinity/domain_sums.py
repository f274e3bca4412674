"""Sums over the domains of a topology key, of what pods in them count for."""

from collections.abc import Mapping

from trireme.snapshot import arrays, class_counters, snapshot_view

# Per topology key the sums of its domains, by the number of the label's value; the first stands for nodes without it.
Sums = Mapping[str, class_counters.DomainSums]


def domain_sums_of(snap: snapshot_view.SnapshotView, counter: class_counters.AnyClassCounter) -> Sums:
    """What the counter counts, for each topology key that it has."""
    return {key: sums_over_domains(snap, key, counter, key) for key in counter.keys}


def sums_over_domains(
    snap: snapshot_view.SnapshotView, key: str, counter: class_counters.AnyClassCounter, under: str
) -> class_counters.DomainSums:
    """What the counter counts under a name, over the domains of one key."""
    return counter.by_domain(key, lambda: domain_values(snap, key), domain_count(snap, key), under, snap)


def domain_count(snap: snapshot_view.SnapshotView, key: str) -> int:
    """How many values the label has, and one more for nodes without it."""
    return len(snap.nodes.labels.column(key).dictionary)


def domain_values(snap: snapshot_view.SnapshotView, key: str) -> arrays.Int32Array:
    """The numbers of all slots' values of a label. Shape: (slot,)."""
    return snap.nodes.labels.column(key).values(snap.nodes.size)


def labels_as_key(*labels: Mapping[str, str]) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Labels as a part of a key."""
    return tuple(tuple(sorted(each.items())) for each in labels)
