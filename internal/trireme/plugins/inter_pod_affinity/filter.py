"""InterPodAffinity's Filter: pods that have to be near certain pods, or far from them, and pods that those are about.

Nothing is evaluated pod by pod. Which classes a term is about is decided once per class; counters keep what their pods
weigh per topology key and slot; a node is judged by the sums of its domains.

Tests: tests/unit/plugins/test_inter_pod_affinity.py, tests/unit/evaluation/test_isolated_dry_runs.py,
tests/unit/evaluation/test_placement_domains.py.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from trireme.framework import domain_rules, status
from trireme.plugin_api import interfaces
from trireme.plugin_kit import plugin_context
from trireme.plugins.inter_pod_affinity import affinity_terms, domain_sums
from trireme.plugins.inter_pod_affinity.spec import SPEC
from trireme.snapshot import (
    arrays,
    class_counters,
    classes,
    labelled_classes,
    slot_changes,
    snapshot,
    snapshot_view,
)
from trireme.snapshot.dictionary import ABSENT

_AFFINITY = "node(s) didn't match pod affinity rules"
_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"

Terms = affinity_terms.AffinityTerms


@dataclass(frozen=True, slots=True)
class _FilterState:
    """Filter's state for a class.

    `first`: no pod counts for the class's affinity anywhere, and the pod may be the first. `apart` are the topology
    keys in whose domains a pod of the class keeps out the next one.
    """

    terms: Terms
    affinity: domain_sums.Sums
    first: bool
    anti_affinity: domain_sums.Sums
    existing: domain_sums.Sums
    apart: tuple[str, ...]


class InterPodAffinityFilter:
    """The filter of InterPodAffinity, for required terms of the pod and anti-affinity of pods that are there."""

    name = SPEC.name
    depends_on = interfaces.Dependency.CLUSTER
    ignores_requests: Literal[True] = True
    ignores_node_affinity: Literal[True] = True
    reads: tuple[str, ...] = ("namespace",)

    def __init__(self) -> None:
        self._refused = status.unresolvable(self.name, _AFFINITY, reasons=(status.Reason("podAffinity"),))
        self._conflict = status.unschedulable(self.name, _ANTI_AFFINITY, reasons=(status.Reason("podAntiAffinity"),))
        self._existing = status.unschedulable(
            self.name, _EXISTING, reasons=(status.Reason("existingPodsAntiAffinity"),)
        )

    def pre_filter(
        self, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, table: interfaces.StatusTable
    ) -> interfaces.PreFilterResult:
        """State: sums per domain. Without terms of its own and nobody's anti-affinity, there is nothing to filter."""
        problem = affinity_terms.terms_of(pod_class).problem
        if problem:
            text, reasons = f"parsing pod: {problem}", (status.Reason("invalidTerm"),)
            return interfaces.PreFilterResult(status=status.unresolvable(self.name, text, reasons=reasons))
        existing = domain_sums.domain_sums_of(snap, self._existing_anti_affinity_counter(pod_class, snap))
        terms = affinity_terms.terms_with_namespaces(pod_class, snap)
        if not terms.affinity and not terms.anti_affinity:
            if not any(sums.counted for sums in existing.values()):
                return interfaces.SKIPPED
            return interfaces.PreFilterResult(state=_FilterState(terms, {}, False, {}, existing, ()))
        affinity: domain_sums.Sums = {}
        first = False
        if terms.affinity:
            counter = _affinity_counter(terms.affinity, snap)
            affinity = {
                key: domain_sums.sums_over_domains(snap, key, counter, "")
                for key in dict.fromkeys(term.key for term in terms.affinity)
            }
            nowhere = not any(sums.counted for sums in affinity.values())
            first = nowhere and affinity_terms.matches_all(terms.affinity, pod_class)
        anti_affinity: domain_sums.Sums = {}
        if terms.anti_affinity:
            anti_affinity = domain_sums.domain_sums_of(snap, _anti_affinity_counter(terms.anti_affinity, snap))
        apart = _keys_excluding_own_class(pod_class, snap, terms)
        return interfaces.PreFilterResult(state=_FilterState(terms, affinity, first, anti_affinity, existing, apart))

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        state: Any,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """Refuse slots by the class's affinity, its anti-affinity, and that of pods that are there, in this order."""
        sums_state: _FilterState = state
        index = np.zeros(slots.shape[0], dtype=np.int16)
        for sums, refusal in ((sums_state.existing, self._existing), (sums_state.anti_affinity, self._conflict)):
            for key, each in sums.items():
                if each.counted:
                    here = arrays.entries_at(domain_sums.domain_values(snap, key), slots)
                    index[(each.sums[here] > 0) & (here != ABSENT)] = table.intern(refusal)
        for key, each in sums_state.affinity.items():
            here = arrays.entries_at(domain_sums.domain_values(snap, key), slots)
            there = here != ABSENT
            if not sums_state.first:
                there &= each.sums[here] > 0
            index[~there] = table.intern(self._refused)
        return interfaces.Verdicts(index, _capacity_by_anti_affinity(sums_state.apart, snap, slots))

    def affected_slots(
        self, snap: snapshot.Snapshot, before: Any, now: Any, generation: int
    ) -> arrays.SlotArray | None:
        """Return the slots in domains where something counts that did not, or the other way round.

        None: the states cannot be compared, and all slots may be affected.
        """
        old: _FilterState = before
        new: _FilterState = now
        if old.terms is not new.terms or old.first != new.first or old.apart != new.apart:
            return None
        parts = []
        for old_sums, new_sums in (
            (old.existing, new.existing),
            (old.anti_affinity, new.anti_affinity),
            (old.affinity, new.affinity),
        ):
            if old_sums.keys() != new_sums.keys():
                return None
            for key, each in new_sums.items():
                if old_sums[key] is not each:
                    return None
                parts.append(_slots_with_values(snap, key, each.flips.since(generation, each.sums.shape[0])))
        return slot_changes.union(parts, snap.nodes.size)

    def filter_isolated(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """Judge each slot as `filter` does, with the cluster as it is but for the changes on that slot itself."""
        terms = affinity_terms.terms_with_namespaces(pod_class, snap)
        index = np.zeros(slots.shape[0], dtype=np.int16)
        keeping_out = [(self._existing_anti_affinity_counter(pod_class, snap), self._existing)]
        if terms.anti_affinity:
            keeping_out.append((_anti_affinity_counter(terms.anti_affinity, snap), self._conflict))
        for counter, refusal in keeping_out:
            for key in counter.keys:
                sums = _IsolatedSums(snap, key, counter, key, slots)
                index[sums.inside & (sums.sums > 0)] = table.intern(refusal)
        if terms.affinity:
            counter = _affinity_counter(terms.affinity, snap)
            keys = dict.fromkeys(term.key for term in terms.affinity)
            by_key = [_IsolatedSums(snap, key, counter, "", slots) for key in keys]
            first = np.full(slots.shape[0], affinity_terms.matches_all(terms.affinity, pod_class))
            for each in by_key:
                first &= each.everywhere == 0
            for each in by_key:
                index[~(each.inside & (first | (each.sums > 0)))] = table.intern(self._refused)
        return interfaces.Verdicts(
            index, _capacity_by_anti_affinity(_keys_excluding_own_class(pod_class, snap, terms), snap, slots)
        )

    def constraints(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any
    ) -> Sequence[domain_rules.DomainConstraint]:
        """Return the constraints of a placement on the next: the first of a group attracts others, copies keep apart.

        Anti-affinity by single nodes is left out: capacity says it.
        """
        sums_state: _FilterState = state
        out = []
        if sums_state.first:
            out += [
                domain_rules.DomainConstraint(
                    self._refused,
                    _domain_numbers(snap, key),
                    each.sums[1:],
                    1,
                    domain_rules.PresenceRule(may_be_first=True),
                )
                for key, each in sums_state.affinity.items()
            ]
        for key in sums_state.apart:
            # Where each domain is one node, capacity says it all.
            if not _are_domains_single_nodes(snap, key):
                domains = len(snap.nodes.labels.column(key).dictionary) - 1
                count = np.zeros(domains, dtype=np.int64)
                for sums in (sums_state.anti_affinity, sums_state.existing):
                    if key in sums:
                        count += sums[key].sums[1:]
                out.append(
                    domain_rules.DomainConstraint(
                        self._conflict, _domain_numbers(snap, key), count, 1, domain_rules.AbsenceRule()
                    )
                )
        return out

    def _existing_anti_affinity_counter(
        self, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView
    ) -> class_counters.AnyClassCounter:
        """Return the counter, by topology key, of placed pods whose required anti-affinity matches the class."""
        labels = affinity_terms.namespace_labels(snap, pod_class.namespace)

        def weigh(existing: classes.PodClass) -> Mapping[str, int]:
            terms = affinity_terms.terms_of(existing).anti_affinity
            if not terms:
                return _NO_WEIGHTS
            return _count_keys(term.key for term in terms if term.matches_pods_of(pod_class, labels))

        key = ("existing_anti_affinity", pod_class.namespace, *domain_sums.labels_as_key(pod_class.labels, labels))
        among = affinity_terms.classes_with_terms_about(pod_class)
        return class_counters.class_counter(snap, key, weigh, of_class=pod_class.id, among=among)


# The value of a class without such terms, as most classes are.
_NO_WEIGHTS: Mapping[str, int] = {}


class _SingleNodeDomains:
    """Whether no two nodes have the same value of a label, and then which one has it.

    Read for each batch, and computed when a node changes. Shape: slots (value,), −1 where no node has it.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._generation = -1
        self.so = True
        self.slots = np.zeros(0, dtype=np.intp)

    @property
    def nbytes(self) -> int:
        """Memory of the column, in bytes."""
        return self.slots.nbytes

    def refresh(self, snap: snapshot.Snapshot) -> None:
        """Follow the snapshot's nodes."""
        if self._generation != snap.nodes.object_changes.latest:
            self._generation = snap.nodes.object_changes.latest
            values = domain_sums.domain_values(snap, self._key)
            self.so = int(np.bincount(values)[1:].max(initial=0)) <= 1
            self.slots = np.full(
                len(snap.nodes.labels.column(self._key).dictionary) if self.so else 0, -1, dtype=np.intp
            )
            if self.so:
                self.slots[values] = np.arange(values.shape[0])
                self.slots[ABSENT] = -1


class _IsolatedSums:
    """Sums of a counter over the domains of a key, as each slot sees them with the changes on itself alone.

    Shapes: all (given slot,). `inside`: it has the label; `sums` of its domain; `everywhere`: of all domains.
    """

    def __init__(
        self,
        snap: snapshot_view.SnapshotView,
        key: str,
        counter: class_counters.AnyClassCounter,
        under: str,
        slots: arrays.SlotArray,
    ) -> None:
        """Sum the counter over the domains of `key`.

        `under` is the key that the counter has its weights by; empty: those that hold whatever the key.
        """
        real = counter.base.at_slots(under, snap.nodes.size)
        changes = counter.at_slots(under, snap.nodes.size)[slots] - real[slots]
        per_value = class_counters.DomainSums(
            domain_sums.domain_values(snap, key), domain_sums.domain_count(snap, key), real, 0
        ).sums
        values = domain_sums.domain_values(snap, key)[slots]
        self.inside = values != ABSENT
        self.sums = per_value[values] + changes
        self.everywhere = int(per_value[1:].sum()) + np.where(self.inside, changes, 0)


def _capacity_by_anti_affinity(
    apart: Sequence[str], snap: snapshot_view.SnapshotView, slots: arrays.SlotArray
) -> arrays.Int32Array | None:
    """Return how many pods of the class each node can take by its anti-affinity to itself; None: no such limit.

    It is one pod under keys whose domains are single nodes; other keys are left to `constraints`. Shape: (slot,).
    """
    capacity: arrays.Int32Array | None = None
    for key in apart:
        if _are_domains_single_nodes(snap, key):
            alone = np.where(
                arrays.entries_at(domain_sums.domain_values(snap, key), slots) != ABSENT, 1, interfaces.UNLIMITED
            ).astype(np.int32)
            capacity = alone if capacity is None else np.minimum(capacity, alone)
    return capacity


def _affinity_counter(
    terms: tuple[affinity_terms.AffinityTerm, ...], snap: snapshot_view.SnapshotView
) -> class_counters.AnyClassCounter:
    """Return the counter of placed pods that match all of the terms: required affinity counts as one condition."""

    def weigh(existing: classes.PodClass) -> Mapping[str, int]:
        return {"": 1} if affinity_terms.matches_all(terms, existing) else {}

    # A pod is counted that matches all terms, so it matches the first.
    among = labelled_classes.classes_selected_by([terms[0].selector])
    return class_counters.class_counter(snap, ("affinity", terms), weigh, among=among)


def _anti_affinity_counter(
    terms: tuple[affinity_terms.AffinityTerm, ...], snap: snapshot_view.SnapshotView
) -> class_counters.AnyClassCounter:
    """Return the counter of placed pods that match a term, under that term's topology key."""

    def weigh(existing: classes.PodClass) -> Mapping[str, int]:
        return _count_keys(key for key, _ in affinity_terms.weights_by_key(terms, existing))

    among = labelled_classes.classes_selected_by([term.selector for term in terms])
    return class_counters.class_counter(snap, ("anti_affinity", terms), weigh, among=among)


def _count_keys(keys: Iterable[str]) -> Mapping[str, int]:
    """How often each key occurs: for each class of the cluster, so without a Counter, which takes longer to make."""
    found = dict[str, int]()
    for key in keys:
        found[key] = found.get(key, 0) + 1
    return found


def _keys_excluding_own_class(
    pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, terms: Terms
) -> tuple[str, ...]:
    """Return the topology keys within whose domains two pods of the class exclude each other."""
    labels = affinity_terms.namespace_labels(snap, pod_class.namespace)
    keys = [key for key, _ in affinity_terms.weights_by_key(terms.anti_affinity, pod_class)]
    stated = affinity_terms.terms_of(pod_class).anti_affinity
    keys += [term.key for term in stated if term.matches_pods_of(pod_class, labels)]
    return tuple(dict.fromkeys(keys))


def _slots_with_values(snap: snapshot_view.SnapshotView, key: str, values: arrays.SlotArray) -> arrays.SlotArray:
    """Return the slots whose nodes have one of these values of a label. Shape: values (n,)."""
    if not values.shape[0]:
        return values
    alone = snap.derived(("one_node_each", key), lambda _: _SingleNodeDomains(key))
    if alone.so:
        slots = alone.slots[values]
        return slots[slots >= 0]
    chosen = np.zeros(domain_sums.domain_count(snap, key), dtype=np.bool_)
    chosen[values] = True
    chosen[ABSENT] = False
    return np.flatnonzero(chosen[domain_sums.domain_values(snap, key)])


def _domain_numbers(snap: snapshot_view.SnapshotView, key: str) -> arrays.Int32Array:
    """Return the number of each slot's domain, −1 where the node lacks the label. Shape: (slot,)."""
    return domain_sums.domain_values(snap, key) - 1


def _are_domains_single_nodes(snap: snapshot_view.SnapshotView, key: str) -> bool:
    """Return whether every domain of the topology key is one node, as with the hostname."""
    return snap.derived(("one_node_each", key), lambda _: _SingleNodeDomains(key)).so


def make(context: plugin_context.PluginContext) -> InterPodAffinityFilter:
    """Make the filter, which depends on nothing in its profile."""
    return InterPodAffinityFilter()
