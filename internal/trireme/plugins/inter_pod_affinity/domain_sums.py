"""Sums over the domains of a topology key, of what pods in them count for."""

from collections.abc import Mapping

from trireme.snapshot import arrays, occupancy, snapshot_view

# Per topology key the sums of its domains, by the number of the label's value; the first stands for nodes without it.
Sums = Mapping[str, occupancy.DomainSums]


def sums_of(snap: snapshot_view.SnapshotView, tally: occupancy.AnyTally) -> Sums:
    """What the tally counts, for each topology key that it has."""
    return {key: over(snap, key, tally, key) for key in tally.keys}


def over(snap: snapshot_view.SnapshotView, key: str, tally: occupancy.AnyTally, under: str) -> occupancy.DomainSums:
    """What the tally counts under a name, over the domains of one key."""
    return tally.over(key, lambda: values_of(snap, key), domains_of(snap, key), under, snap)


def domains_of(snap: snapshot_view.SnapshotView, key: str) -> int:
    """How many values the label has, and one more for nodes without it."""
    return len(snap.nodes.labels.column(key).dictionary)


def values_of(snap: snapshot_view.SnapshotView, key: str) -> arrays.Int32Array:
    """The numbers of all slots' values of a label. Shape: (slot,)."""
    return snap.nodes.labels.column(key).values(snap.nodes.size)


def label_key(*labels: Mapping[str, str]) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Labels as a part of a key."""
    return tuple(tuple(sorted(each.items())) for each in labels)
