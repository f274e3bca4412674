"""The domains of a class's spread constraints over all slots: which nodes take part, and in which domain each is.

They depend on nodes alone, so they are made once for all classes that spread alike, and again when a node changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trireme.framework import domain_rules, tolerations
from trireme.plugin_kit import required_affinity
from trireme.plugins.pod_topology_spread.constraints import Constraint
from trireme.snapshot import arrays, classes, snapshot, snapshot_view
from trireme.snapshot.dictionary import ABSENT

_HARD_TAINTS = (tolerations.NO_SCHEDULE, tolerations.NO_EXECUTE)


@dataclass(frozen=True, slots=True, eq=False)
class ConstraintDomains:
    """One constraint's domains. Shapes: all (slot,).

    `value` is the number of the label's value; `eligible` marks the nodes whose pods are counted; `has_key` those that
    have the label. `domain` numbers from 0 the values that an eligible node has, −1 for others; there are `domains`.
    """

    value: arrays.Int32Array
    values: int
    has_key: arrays.BoolArray
    eligible: arrays.BoolArray
    domain: arrays.Int32Array
    domains: int

    def counted(self) -> arrays.Int32Array:
        """Return the domain of each slot whose node is eligible, −1 for others. Shape: (slot,)."""
        return np.where(self.eligible, self.domain, domain_rules.NO_DOMAIN)

    @staticmethod
    def of(
        value: arrays.Int32Array, values: int, has_key: arrays.BoolArray, eligible: arrays.BoolArray
    ) -> "ConstraintDomains":
        """Number the domains: the label's values that an eligible node has."""
        seen = np.zeros(values, dtype=np.bool_)
        seen[value[eligible]] = True
        number = np.where(seen, np.cumsum(seen) - 1, domain_rules.NO_DOMAIN).astype(np.int32)
        return ConstraintDomains(value, values, has_key, eligible, number[value], int(np.count_nonzero(seen)))


class SpreadDomains:
    """The domains of some constraints, as a class with certain node demands and tolerations sees them."""

    def __init__(
        self, pod_class: classes.PodClass, constraints: Sequence[Constraint], require_all: bool, comparing: bool
    ) -> None:
        """The arguments say which nodes count.

        `require_all`: only nodes that have the keys of all constraints. `comparing`: tolerations may compare numbers.
        """
        self._comparing = comparing
        self._class = pod_class
        self._constraints = constraints
        self._require_all = require_all
        self._generation = -1
        self.has_all = np.zeros(0, dtype=np.bool_)  # (slot,)
        self.domains: tuple[ConstraintDomains, ...] = ()

    @property
    def nbytes(self) -> int:
        """Memory of the columns, in bytes; values are the label columns' own."""
        return self.has_all.nbytes + sum(
            each.has_key.nbytes + each.eligible.nbytes + each.domain.nbytes for each in self.domains
        )

    def refresh(self, snap: snapshot.Snapshot) -> None:
        """Make the columns anew if a node has changed."""
        nodes = snap.nodes
        if self._generation == nodes.object_changes.latest:
            return
        size = nodes.size
        alive = nodes.alive[:size]
        columns = [nodes.labels.column(each.key) for each in self._constraints]
        values = [column.values(size) for column in columns]
        has = [value != ABSENT for value in values]
        self.has_all = np.logical_and.reduce(has)
        taking_part = alive & self.has_all if self._require_all else alive
        every = np.arange(size)
        affine = tolerated = None
        domains = []
        for constraint, column, value, has_key in zip(self._constraints, columns, values, has, strict=True):
            eligible = taking_part
            if constraint.honor_affinity:
                if affine is None:
                    affine = required_affinity.required_affinity_of(self._class).matches(nodes, every)
                eligible = eligible & affine
            if constraint.honor_taints:
                if tolerated is None:
                    tolerated = _are_taints_tolerated(self._class, snap, self._comparing)
                eligible = eligible & tolerated
            domains.append(ConstraintDomains.of(value, len(column.dictionary), has_key, eligible))
        self.domains = tuple(domains)
        self._generation = nodes.object_changes.latest


def _are_taints_tolerated(
    pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, comparing: bool
) -> arrays.BoolArray:
    """Whether the class tolerates the hard taints of each slot's node. Shape: (slot,)."""
    own = list(pod_class.pod.spec.tolerations)
    sets = ((), *snap.nodes.taint_sets.values_from(1))
    by_set = np.array(
        [tolerations.first_untolerated_taint(own, taints, _HARD_TAINTS, comparing=comparing) is None for taints in sets]
    )
    return by_set[snap.nodes.taint_set[: snap.nodes.size]]


def spread_domains_of(
    pod_class: classes.PodClass,
    snap: snapshot_view.SnapshotView,
    constraints: tuple[Constraint, ...],
    require_all: bool,
    comparing: bool,
) -> SpreadDomains:
    """Return the constraints' domains as the class sees them; classes that count the same nodes share them.

    `require_all`: nodes must have all keys; `comparing`: tolerations may compare numbers.
    """
    demands = pod_class.memo("spread_demands", _inclusion_policy_inputs)
    which = tuple((each.key, each.honor_affinity, each.honor_taints) for each in constraints)
    key = ("spread_domains", which, require_all, comparing, demands)
    return snap.derived(key, lambda _: SpreadDomains(pod_class, constraints, require_all, comparing), pod_class.id)


def _inclusion_policy_inputs(pod_class: classes.PodClass) -> tuple[object, ...]:
    """Return what node inclusion policies read of a class: node selector, affinity and tolerations, comparable."""
    spec = pod_class.pod.spec
    affinity = spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    return (
        tuple(sorted(spec.node_selector.items())),
        spec.affinity.node_affinity.HasField("required_during_scheduling_ignored_during_execution"),
        affinity.SerializeToString(deterministic=True),
        tuple(each.SerializeToString(deterministic=True) for each in spec.tolerations),
    )
