"""PodTopologySpread's Score: prefers nodes in domains with few pods of the kind.

The scores are kept up to date while a batch is placed.

Tests: tests/unit/evaluation/test_placement_domains.py.
"""

import itertools
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from trireme.framework import domain_rules, label_selectors, status, tolerations
from trireme.plugin_api import interfaces, scorers
from trireme.plugin_kit import plugin_context
from trireme.plugins.pod_topology_spread import joint_scores, pod_counts, spread_domains
from trireme.plugins.pod_topology_spread.constraints import (
    OWNER_KINDS,
    SOFT,
    Constraint,
    ConstraintRules,
    SpreadConstraints,
    rules_of,
)
from trireme.plugins.pod_topology_spread.spec import SPEC
from trireme.snapshot import arrays, classes, snapshot
from trireme_kube.apimachinery import well_known_labels

_instances = itertools.count()


@dataclass(frozen=True, slots=True)
class _SoftConstraints:
    """The soft constraints of a class. `require_all`: nodes that lack a key are not ranked."""

    constraints: tuple[Constraint, ...]
    require_all: bool
    skipped: bool = field(default=False, init=False)


class PodTopologySpreadScore:
    """The score of PodTopologySpread: soft constraints (ScheduleAnyway)."""

    name = SPEC.name
    depends_on = interfaces.Dependency.CLUSTER
    normalization = scorers.Normalization.CUSTOM
    ignores_requests: Literal[True] = True
    reads: tuple[str, ...] = OWNER_KINDS

    def __init__(self, rules: ConstraintRules) -> None:
        self._rules = rules
        self._key = f"{self.name}/score/{next(_instances)}"

    def pre_score(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot
    ) -> "scorers.JointState | status.Status | None":
        """Return the soft constraints as state; None without any; an error where one is invalid."""
        try:
            constraints = self._soft_constraints_of_class(pod_class, snap)
        except label_selectors.InvalidSelectorError as error:
            text = f"calculating preScoreState: obtaining pod's soft topology spread constraints: {error}"
            return status.error(self.name, f'running PreScore plugin "{self.name}": {text}')
        if not constraints:
            return None
        own = bool(pod_class.pod.spec.topology_spread_constraints)
        return _SoftConstraints(constraints, own or not self._rules.system_defaults)

    def joint(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray
    ) -> scorers.JointScores:
        """The scores of these slots, by the pods that are counted now."""
        soft: _SoftConstraints = state
        columns = spread_domains.spread_domains_of(
            pod_class, snap, soft.constraints, soft.require_all, self._rules.comparing
        )
        terms = [
            self._make_domain_term(pod_class, snap, constraint, domains, slots)
            for constraint, domains in zip(soft.constraints, columns.domains, strict=True)
        ]
        ignored = ~arrays.entries_at(columns.has_all, slots) if soft.require_all else None
        if ignored is not None and not ignored.any():
            ignored = None
        return joint_scores.SpreadScores(terms, ignored)

    def _soft_constraints_of_class(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot
    ) -> tuple[Constraint, ...]:
        """Return the class's soft constraints, cached with the snapshot. Raises: InvalidSelectorError."""
        key = (self._key, pod_class.id)
        return snap.derived(key, lambda _: SpreadConstraints(SOFT, pod_class, self._rules), pod_class.id).constraints

    def _make_domain_term(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        constraint: Constraint,
        domains: spread_domains.ConstraintDomains,
        slots: arrays.SlotArray,
    ) -> joint_scores.DomainTerm:
        """One constraint's part of scores: the pods in each node's domain, and whether a placed copy counts there."""
        counts_self = constraint.self_match(pod_class)
        has_key: arrays.BoolArray | None = arrays.entries_at(domains.has_key, slots)
        if has_key is not None and has_key.all():
            has_key = None
        adds: arrays.BoolArray | None = None
        if constraint.key == well_known_labels.HOSTNAME:
            if counts_self:
                adds = np.ones(slots.shape[0], dtype=np.bool_)
            own = arrays.entries_at(pod_counts.matching_pods_per_slot(pod_class, snap, constraint)[1], slots).copy()
            return joint_scores.DomainTerm(constraint.max_skew, True, slots, has_key, own, adds)
        value = domains.value
        empty = snap.nodes.labels.column(constraint.key).dictionary.find("")
        if empty:
            # A node without the label counts as one whose label is empty.
            value = np.where(domains.has_key, value, empty)
        count = _count_pods_by_value(pod_class, snap, constraint, domains, value)
        if counts_self:
            adds = arrays.entries_at(domains.eligible, slots)
        domain = arrays.entries_at(value, slots)
        return joint_scores.DomainTerm(constraint.max_skew, False, domain, has_key, count, adds)


def _count_pods_by_value(
    pod_class: classes.PodClass,
    snap: snapshot.Snapshot,
    constraint: Constraint,
    domains: spread_domains.ConstraintDomains,
    value: arrays.Int32Array,
) -> arrays.Int64Array:
    """Count the pods that match per value of the key; nodes that are not eligible do not count.

    It is a copy that the caller may change. Shapes: value (slot,), answer (value,).
    """

    def value_numbers() -> arrays.Int32Array:
        return np.where(domains.eligible, value, domain_rules.NO_DOMAIN)

    return pod_counts.matching_pods_per_domain(
        pod_class, snap, constraint, (domains, "value"), value_numbers, domains.values
    ).copy()


def make(context: plugin_context.PluginContext) -> PodTopologySpreadScore:
    """Make the scorer, by its arguments and the feature gates."""
    match_label_keys = context.features.get("MatchLabelKeysInPodTopologySpread", True)
    comparing = context.features.get(tolerations.GATE, False)
    return PodTopologySpreadScore(rules_of(context.args, match_label_keys, comparing))
