"""Counts the pods of some classes per node, cached between evaluations and updated incrementally.

A `ClassCounter` assigns each class a weight per topology key, and holds the sum of the weights of the pods on each
slot: a count if the classes that a selector matches have weight 1, a score with the weights of affinity terms. A class
is weighed once. Changes of pods update only their slots, from the log of placements; if the log does not reach back far
enough, the pod table is counted again. So the cost is proportional to the changes, not to the pods.

Sums over topology domains (`DomainSums`) are rebuilt from the sums per slot when a node has changed, since its labels
may have changed, and otherwise updated with the counter.

Tests: tests/unit/snapshot/test_class_counters.py, tests/unit/snapshot/test_numbers_used_again.py.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Reversible

import numpy as np

from trireme.snapshot import arrays, classes, pod_overlay, pods, slot_changes, snapshot, snapshot_view

# The weights of a class, per topology key; a counter that needs no key uses the empty one.
# Implementers: trireme.plugins.inter_pod_affinity.score.weigh, trireme.plugins.inter_pod_affinity.filter.weigh.
ClassWeights = Callable[[classes.PodClass], Mapping[str, int]]

# The classes that may have a weight, in order of arrival, where these are few.
# Implementers: trireme.plugins.inter_pod_affinity.affinity_terms.classes_with_terms_about,
# trireme.snapshot.labelled_classes.classes_selected_by.
WeightedClasses = Callable[[snapshot.Snapshot], Reversible[classes.PodClass]]

_NO_WEIGHTS: arrays.Int64Array = np.zeros(0, dtype=np.int64)

# The number of cached domain sums per counter.
MAX_DOMAIN_SUMS = 8


class DomainSums:
    """Sums of a counter by domain, updated with it. Shapes: numbers (slot,), sums (domain,).

    `numbers` says in which domain each slot is (−1: in none); `counted` how many domains but the first have a sum other
    than 0, `flips` when that became so or ceased to be for each. Not to be written to.
    """

    __slots__ = ("counted", "flips", "nodes_at", "numbers", "sums")

    def __init__(self, numbers: arrays.Int32Array, domains: int, per_slot: arrays.Int64Array, nodes_at: int) -> None:
        """`nodes_at` is the generation of the last change of a node."""
        self.numbers = numbers
        self.nodes_at = nodes_at
        used = np.flatnonzero(per_slot)
        used = used[numbers[used] >= 0]
        self.sums = np.zeros(domains, dtype=np.int64)
        np.add.at(self.sums, numbers[used], per_slot[used])
        self.counted = int(np.count_nonzero(self.sums[1:]))
        self.flips = slot_changes.SlotChanges()
        self.flips.ensure_capacity(domains)

    @property
    def nbytes(self) -> int:
        """Memory of the sums, in bytes."""
        return self.sums.nbytes + self.flips.nbytes

    def add(self, slots: arrays.Int32Array, added: arrays.Int64Array, generation: int) -> None:
        """Add to the sums of these slots, which may repeat. Shapes: both (n,)."""
        domains = self.numbers[slots]
        inside = domains >= 0
        domains, added = domains[inside], added[inside]
        touched = np.unique(domains)
        before = self.sums[touched] != 0
        np.add.at(self.sums, domains, added)
        flipped = touched[(self.sums[touched] != 0) != before].astype(np.intp)
        if flipped.shape[0]:
            self.flips.touch(flipped, generation)
            self.counted = int(np.count_nonzero(self.sums[1:]))


class ClassCounter:
    """Sums of class weights over the placed pods, by topology key and slot; follows the snapshot's placements."""

    __slots__ = ("_among", "_arrival", "_domains", "_generation", "_sums", "_weigh", "_weights", "live_only")

    def __init__(self, weigh: ClassWeights, *, live_only: bool = False, among: WeightedClasses | None = None) -> None:
        """`live_only` leaves out pods that are being deleted; `among`: no other class has a weight."""
        self._weigh = weigh
        self._among = among
        self.live_only = live_only
        self._arrival = 0
        self._generation = -1
        self._weights: dict[str, arrays.Int64Array] = {}  # per key, (class,)
        self._sums: dict[str, arrays.Int64Array] = {}  # per key, (slot,)
        self._domains: dict[tuple[str, Hashable], DomainSums] = {}

    @property
    def nbytes(self) -> int:
        """Memory of the sums and weights, in bytes."""
        return sum(each.nbytes for entries in (self._weights, self._sums, self._domains) for each in entries.values())

    @property
    def base(self) -> "ClassCounter":
        """The counter itself; of an AdjustedClassCounter, the one that is adjusted."""
        return self

    @property
    def keys(self) -> tuple[str, ...]:
        """The topology keys under which some class has a weight, sorted."""
        return tuple(sorted(self._sums))

    def weights(self, key: str) -> arrays.Int64Array | None:
        """The weights of the classes under a key; None if none has any. Shape: (class,)."""
        return self._weights.get(key)

    def at_slots(self, key: str, size: int) -> arrays.Int64Array:
        """The sums of the first `size` slots under a key; read-only. Shape: (size,)."""
        sums = self._sums.get(key)
        if sums is None:
            return np.zeros(size, dtype=np.int64)
        if sums.shape[0] < size:
            sums = self._sums[key] = arrays.grow_last_axis(sums, size)
        return sums[:size]

    def by_domain(
        self,
        domains: Hashable,
        numbers: Callable[[], arrays.Int32Array],
        count: int,
        key: str,
        snap: snapshot_view.SnapshotView,
    ) -> DomainSums:
        """Return the sums under a key by domain; cached until a node changes, and kept up to date by placements.

        `domains` stands for how slots are numbered, until a node changes; there are `count` of them. `numbers` is
        called only where the sums have to be made.
        """
        nodes_at = snap.nodes.object_changes.latest
        sums = self._domains.get((key, domains))
        if sums is None or sums.nodes_at != nodes_at or sums.sums.shape[0] != count:
            if len(self._domains) >= MAX_DOMAIN_SUMS:
                self._domains.clear()
            per_slot = self.at_slots(key, snap.nodes.size)
            sums = self._domains[key, domains] = DomainSums(numbers(), count, per_slot, nodes_at)
        return sums

    def refresh(self, snap: snapshot.Snapshot) -> None:
        """Update to the snapshot's current state."""
        if self._generation == snap.generation:
            return
        new_keys = self._set_weights_of_new_classes(snap)
        # Without a weight there is nothing to add up.
        if self._weights:
            changes = snap.placements.since(self._generation, self.live_only) if self._generation >= 0 else None
            if changes is None:
                self._recount_under_keys(snap, tuple(self._weights))
            else:
                self._add_placement_changes(snap, changes, new_keys)
                if new_keys:
                    self._recount_under_keys(snap, new_keys)
        self._generation = snap.generation

    def _set_weights_of_new_classes(self, snap: snapshot.Snapshot) -> tuple[str, ...]:
        """Weigh new classes; return the keys that get weights for the first time.

        Classes are in order of arrival, and a class arrives before its pods.
        """
        before = set(self._weights)
        seen = self._arrival
        for pod_class in self._classes_to_weigh(snap):
            if pod_class.arrival <= seen:
                break
            weights_of_class = self._weigh(pod_class)
            index = pod_class.index
            for weights in self._weights.values():
                if index < weights.shape[0]:
                    weights[index] = 0  # that of the class before it at this index
            for key, weight in weights_of_class.items():
                weights = self._weights.get(key, _NO_WEIGHTS)
                if weights.shape[0] < snap.class_capacity:
                    capacity = arrays.grown_capacity(snap.class_capacity, weights.shape[0])
                    weights = self._weights[key] = arrays.grow_last_axis(weights, capacity)
                weights[index] = weight
        newest = next(reversed(snap.classes.values()), None)
        if newest is not None:
            self._arrival = max(seen, newest.arrival)
        return tuple(self._weights.keys() - before)

    def _classes_to_weigh(self, snap: snapshot.Snapshot) -> Iterable[classes.PodClass]:
        """The classes to compare new ones with, the latest first."""
        # Once there are weights, any class may be at the index of one that had some.
        if self._among is not None and not self._weights:
            return reversed(self._among(snap))
        return reversed(snap.classes.values())

    def _add_placement_changes(
        self,
        snap: snapshot.Snapshot,
        changes: tuple[arrays.Int32Array, arrays.Int32Array, arrays.Int64Array],
        but: tuple[str, ...],
    ) -> None:
        """Add the changes of the pod table to the sums per slot and per domain, except under the keys `but`."""
        indices, slots, signs = changes
        if not indices.size:
            return
        for key, weights in self._weights.items():
            if key in but:
                continue
            has_weight = indices < weights.shape[0]
            added = weights[np.where(has_weight, indices, 0)] * signs * has_weight
            if added.any():
                sums = self._sums[key]
                if sums.shape[0] < snap.nodes.size:
                    sums = self._sums[key] = arrays.grow_last_axis(sums, snap.nodes.capacity)
                np.add.at(sums, slots, added)
                for (under, _), each in self._domains.items():
                    if under == key and each.nodes_at == snap.nodes.object_changes.latest:
                        each.add(slots, added, snap.generation)

    def _recount_under_keys(self, snap: snapshot.Snapshot, keys: tuple[str, ...]) -> None:
        """Count all pods again under these keys; sums by domain under them are dropped."""
        table = snap.pods
        size = snap.nodes.capacity
        self._domains = {which: each for which, each in self._domains.items() if which[0] not in keys}
        for key in keys:
            weights = self._weights[key]
            if weights.shape[0] < snap.class_capacity:
                weights = self._weights[key] = arrays.grow_last_axis(weights, snap.class_capacity)
            rows = table.rows_of(weights != 0)
            if self.live_only:
                rows = rows[(table.flags[rows] & pods.TERMINATING) == 0]
            sums = np.bincount(table.slot[rows], weights=weights[table.class_index[rows]], minlength=size)
            self._sums[key] = sums.astype(np.int64)


class AdjustedClassCounter:
    """A counter as an overlay's changes adjust it, read like a ClassCounter."""

    __slots__ = ("_changes", "base")

    def __init__(self, counter: ClassCounter, changes: pod_overlay.OverlaidPods) -> None:
        # The counter of the snapshot.
        self.base = counter
        self._changes = changes

    @property
    def keys(self) -> tuple[str, ...]:
        """The topology keys under which some class has a weight, sorted: those of the counter below."""
        return self.base.keys

    def at_slots(self, key: str, size: int) -> arrays.Int64Array:
        """The sums of the first `size` slots under a key, with the overlay's changes; read-only. Shape: (size,)."""
        sums, weights = self.base.at_slots(key, size), self.base.weights(key)
        return sums if weights is None else self._changes.adjusted(sums, weights, live_only=self.base.live_only)

    def by_domain(
        self,
        domains: Hashable,
        numbers: Callable[[], arrays.Int32Array],
        count: int,
        key: str,
        snap: snapshot_view.SnapshotView,
    ) -> DomainSums:
        """Return the sums under a key by domain, with the overlay's changes; arguments as in ClassCounter.by_domain."""
        return DomainSums(numbers(), count, self.at_slots(key, snap.nodes.size), snap.nodes.object_changes.latest)


AnyClassCounter = ClassCounter | AdjustedClassCounter


def class_counter(
    snap: snapshot_view.SnapshotView,
    key: Hashable,
    weigh: ClassWeights,
    *,
    live_only: bool = False,
    of_class: int | None = None,
    among: WeightedClasses | None = None,
) -> AnyClassCounter:
    """The counter under this key; `weigh` must follow from the key, and may hold the class of the number `of_class`.

    `among`: the classes that may have a weight; all others have none.
    """
    known = snap.derived(key, lambda _: ClassCounter(weigh, live_only=live_only, among=among), of_class)
    return known if snap.overlaid_pods is None else AdjustedClassCounter(known, snap.overlaid_pods)
