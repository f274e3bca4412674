"""PodTopologySpread's Filter: the pods of a kind have to be spread over the values of a node label.

Pods are counted per slot by counters and added up per domain; a node is judged by its domain. What a placement of the
class changes elsewhere goes out as skew rules.

Tests: tests/unit/plugins/test_pod_topology_spread.py, tests/unit/evaluation/test_isolated_dry_runs.py,
tests/unit/simulation/test_questions.py.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from trireme.framework import domain_rules, label_selectors, status, tolerations
from trireme.plugin_api import interfaces
from trireme.plugin_kit import plugin_context
from trireme.plugins.pod_topology_spread import pod_counts, spread_domains
from trireme.plugins.pod_topology_spread.constraints import (
    HARD,
    OWNER_KINDS,
    Constraint,
    ConstraintRules,
    SpreadConstraints,
    rules_of,
)
from trireme.plugins.pod_topology_spread.spec import SPEC
from trireme.snapshot import arrays, class_counters, classes, slot_changes, snapshot, snapshot_view

_REASON = "node(s) didn't match pod topology spread constraints"
_MISSING = f"{_REASON} (missing required label)"

# More pods than any domain has.
_BEYOND = 1 << 40

_instances = itertools.count()


@dataclass(frozen=True, slots=True)
class _HardConstraint:
    """One hard constraint as it stands. Shapes: domain and eligible (slot,), count (domain,).

    `self_match`: a placement of the class is counted. Domains without an eligible node are −1: nothing counts there.
    """

    constraint: Constraint
    domain: arrays.Int32Array
    has_key: arrays.BoolArray
    eligible: arrays.BoolArray
    count: arrays.Int64Array
    self_match: bool

    def fits(self) -> arrays.BoolArray:
        """Whether a pod more is within the skew: by domain and, last, for nodes in none. Shape: (domain + 1,)."""
        counts = np.append(self.count, 0)
        lowest = int(self.count.min()) if self._has_min_domains else 0
        return counts + int(self.self_match) - lowest <= self.constraint.max_skew

    def fits_isolated(self, slots: arrays.SlotArray, changes: arrays.Int64Array) -> arrays.BoolArray:
        """As fits, by slot, each with so many counted pods more on itself alone. Shapes: all (given slot,)."""
        domain = self.domain[slots]
        inside = domain >= 0
        changed = np.append(self.count, 0)[domain] + np.where(inside & self.eligible[slots], changes, 0)
        lowest: arrays.Int64Array | int = 0
        if self._has_min_domains:
            # The lowest of the other domains, by domain: it is another one's where the lowest is a single one.
            two = np.partition(self.count, 1)[:2] if self.count.size > 1 else np.append(self.count, _BEYOND)
            others = np.append(np.where(self.count == two[0], two[1], two[0]), two[0])[domain]
            lowest = np.where(inside, np.minimum(others, changed), two[0])
        return changed + int(self.self_match) - lowest <= self.constraint.max_skew

    @property
    def _has_min_domains(self) -> bool:
        """Whether there are domains enough for the lowest to count, and not 0 in its place."""
        return bool(self.count.size and self.count.size >= self.constraint.min_domains)


@dataclass(frozen=True, slots=True)
class _FilterState:
    """What Filter goes by: the hard constraints, and in which of their domains a pod more fits (domain + 1,)."""

    hard: tuple[_HardConstraint, ...]
    fits: tuple[arrays.BoolArray, ...]


class PodTopologySpreadFilter:
    """The filter of PodTopologySpread: hard constraints (DoNotSchedule)."""

    name = SPEC.name
    depends_on = interfaces.Dependency.CLUSTER
    ignores_requests: Literal[True] = True
    reads: tuple[str, ...] = OWNER_KINDS

    def __init__(self, rules: ConstraintRules) -> None:
        self._rules = rules
        self._key = f"{self.name}/filter/{next(_instances)}"
        self._hard_by_default = any(each.when_unsatisfiable == HARD for each in rules.defaults)
        self._refusals: dict[str, status.Status] = {}

    def pre_filter(
        self, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, table: interfaces.StatusTable
    ) -> interfaces.PreFilterResult:
        """Count the pods per domain of each hard constraint; a class without any is skipped.

        An invalid selector is an error.
        """
        try:
            constraints = self._hard_constraints_of_class(pod_class, snap)
        except label_selectors.InvalidSelectorError as error:
            # Default constraints have no selectors of their own, so it is the pod's.
            text = f"get constraints from pod: obtaining pod's hard topology spread constraints: {error}"
            return interfaces.PreFilterResult(
                status=status.error(self.name, f'running PreFilter plugin "{self.name}": {text}')
            )
        if not constraints:
            return interfaces.SKIPPED
        columns = spread_domains.spread_domains_of(pod_class, snap, constraints, True, self._rules.comparing)
        hard = [
            self._make_hard_constraint(
                pod_class, constraint, domains, _count_pods_by_domain(pod_class, snap, constraint, domains)
            )
            for constraint, domains in zip(constraints, columns.domains, strict=True)
        ]
        return interfaces.PreFilterResult(state=_FilterState(tuple(hard), tuple(each.fits() for each in hard)))

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        state: Any,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """Refuse slots by the first constraint that they do not meet; a missing label is unresolvable.

        `domain_refused` marks refusals that only other pods of the batch may lift, elsewhere in the domain.
        """
        hard_state: _FilterState = state
        index = np.zeros(slots.shape[0], dtype=np.int16)
        domain_refused = np.ones(slots.shape[0], dtype=np.bool_)
        for each, fits in zip(hard_state.hard, hard_state.fits, strict=True):
            missing, skewed = self._refusal_numbers(each.constraint.key, table)
            by_domain = np.where(fits, interfaces.PASSES, skewed).astype(np.int16)
            refusal = by_domain[arrays.entries_at(each.domain, slots)]
            has_key = arrays.entries_at(each.has_key, slots)
            if not each.self_match:
                domain_refused &= refusal == interfaces.PASSES
            if not has_key.all():
                refusal[~has_key] = missing
                domain_refused &= has_key
            np.copyto(index, refusal, where=index == interfaces.PASSES)
        return interfaces.Verdicts(index, domain_refused=domain_refused & (index != interfaces.PASSES))

    def affected_slots(
        self, snap: snapshot.Snapshot, before: Any, now: Any, generation: int
    ) -> arrays.SlotArray | None:
        """Return the slots in domains that are open now and were not, or the other way round; None: all may be."""
        old: _FilterState = before
        new: _FilterState = now
        if [(each.constraint, id(each.domain)) for each in old.hard] != [
            (each.constraint, id(each.domain)) for each in new.hard
        ]:
            return None
        parts = []
        for each, was, fits in zip(new.hard, old.fits, new.fits, strict=True):
            if not np.array_equal(was, fits):
                parts.append(np.flatnonzero((was != fits)[each.domain]))
        return slot_changes.union(parts, snap.nodes.size)

    def filter_isolated(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """As `filter`, for each slot by itself: of the overlay's changes only those on the slot count."""
        constraints = self._hard_constraints_of_class(pod_class, snap)
        columns = spread_domains.spread_domains_of(pod_class, snap, constraints, True, self._rules.comparing)
        index = np.zeros(slots.shape[0], dtype=np.int16)
        for constraint, domains in zip(constraints, columns.domains, strict=True):
            real, changed = pod_counts.matching_pods_per_slot(pod_class, snap, constraint)
            count = class_counters.DomainSums(domains.counted(), domains.domains, real, 0).sums
            hard = self._make_hard_constraint(pod_class, constraint, domains, count)
            missing, skewed = self._refusal_numbers(constraint.key, table)
            fits = hard.fits_isolated(slots, changed[slots] - real[slots])
            refusal = np.where(fits, interfaces.PASSES, skewed).astype(np.int16)
            refusal[~hard.has_key[slots]] = missing
            np.copyto(index, refusal, where=index == interfaces.PASSES)
        return interfaces.Verdicts(index)

    def constraints(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any
    ) -> Sequence[domain_rules.DomainConstraint]:
        """A skew rule for each hard constraint that counts pods of the class itself."""
        hard_state: _FilterState = state
        return [
            domain_rules.DomainConstraint(
                self._skew_refusal(each.constraint.key),
                each.domain,
                each.count,
                1,
                domain_rules.SkewRule(each.constraint.max_skew, 1, each.constraint.min_domains, each.eligible),
            )
            for each in hard_state.hard
            if each.self_match
        ]

    def _hard_constraints_of_class(
        self, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView
    ) -> tuple[Constraint, ...]:
        """Return the class's hard constraints, cached with the snapshot. Raises: InvalidSelectorError."""
        if not self._hard_by_default and not pod_class.pod.spec.topology_spread_constraints:
            return ()
        key = (self._key, pod_class.id)
        return snap.derived(key, lambda _: SpreadConstraints(HARD, pod_class, self._rules), pod_class.id).constraints

    def _make_hard_constraint(
        self,
        pod_class: classes.PodClass,
        constraint: Constraint,
        domains: spread_domains.ConstraintDomains,
        count: arrays.Int64Array,
    ) -> _HardConstraint:
        matches = constraint.self_match(pod_class)
        return _HardConstraint(constraint, domains.domain, domains.has_key, domains.eligible, count, matches)

    def _refusal_numbers(self, key: str, table: interfaces.StatusTable) -> tuple[int, int]:
        """Return the numbers of two refusals in the table: the node lacks the key, the skew would be too large."""
        reason = status.Reason.of("topologyKeyMissing", {"topologyKey": key})
        missing = status.unresolvable(self.name, _MISSING, reasons=(reason,))
        return table.intern(missing), table.intern(self._skew_refusal(key))

    def _skew_refusal(self, key: str) -> status.Status:
        """Return the refusal because of the skew; one object for each topology key."""
        refusal = self._refusals.get(key)
        if refusal is None:
            reason = status.Reason.of("topologySpread", {"topologyKey": key})
            refusal = self._refusals[key] = status.unschedulable(self.name, _REASON, reasons=(reason,))
        return refusal


def _count_pods_by_domain(
    pod_class: classes.PodClass,
    snap: snapshot_view.SnapshotView,
    constraint: Constraint,
    domains: spread_domains.ConstraintDomains,
) -> arrays.Int64Array:
    """Count the pods that match the constraint by domain, a dry run's changes included. Shape: (domain,)."""
    return pod_counts.matching_pods_per_domain(pod_class, snap, constraint, domains, domains.counted, domains.domains)


def make(context: plugin_context.PluginContext) -> PodTopologySpreadFilter:
    """Make the filter, by its arguments and the feature gates."""
    match_label_keys = context.features.get("MatchLabelKeysInPodTopologySpread", True)
    comparing = context.features.get(tolerations.GATE, False)
    return PodTopologySpreadFilter(rules_of(context.args, match_label_keys, comparing))
