"""Domain constraints while a batch is placed: which nodes they admit, after each placement.

Also change: internal/trireme/framework/domain_rules.py (the kinds of rules).

Tests: tests/unit/evaluation/test_constraint_admission.py, tests/unit/evaluation/test_placement_domains.py,
tests/unit/evaluation/test_batches_exact.py.
"""

from collections.abc import Iterable, Sequence
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from trireme.framework import domain_rules
from trireme.snapshot import arrays


def distinguishing_columns(
    constraint: domain_rules.DomainConstraint, slots: arrays.SlotArray
) -> list[npt.NDArray[Any]]:
    """Columns in which two nodes are the same only if the constraint treats them alike. Shapes: (node,).

    It admits both or neither, while nothing is placed on either.
    """
    # From 0, and in the state of none: nodes in no domain.
    return domain_rules.distinguishing_columns(
        arrays.entries_at(constraint.domain, slots) + 1, np.append(-1, constraint.count)
    )


class _MaxSkewAdmission:
    """One skew rule over nodes 0 … n−1."""

    def __init__(
        self, constraint: domain_rules.DomainConstraint, rule: domain_rules.SkewRule, slots: arrays.SlotArray
    ) -> None:
        self._rule = rule
        self._counts = rule.counts[slots]
        self._adds = constraint.placement_adds
        self._enough = constraint.count.shape[0] >= max(rule.min_domains, 1)
        self._domain, count = _without_unused_domains(constraint.domain[slots], constraint.count)
        # The last entry stands for nodes in no domain.
        self._count = np.append(count, 0)
        self._fits = self._may_take_pod_by_domain()

    def admitted_nodes(self) -> arrays.BoolArray:
        """The nodes whose domain may take one more pod. Shape: (node,)."""
        admitted: arrays.BoolArray = self._fits[self._domain]
        return admitted

    def place(self, node: int) -> bool:
        """Count one more pod on the node; return whether other nodes may be admitted now than before."""
        domain = int(self._domain[node])
        if domain == domain_rules.NO_DOMAIN or not self._counts[node]:
            return False
        self._count[domain] += self._adds
        fits = self._may_take_pod_by_domain()
        changed = not np.array_equal(fits, self._fits)
        self._fits = fits
        return changed

    def _may_take_pod_by_domain(self) -> arrays.BoolArray:
        """Whether a pod more fits, by domain. Shape: (domain + 1,)."""
        lowest = int(self._count[:-1].min()) if self._enough else 0
        fits: arrays.BoolArray = self._count <= self._rule.max_skew + lowest - self._rule.self_match
        return fits


def _without_unused_domains(
    domain: npt.NDArray[np.int32], count: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """The same domains and counts, of all domains without a node only the lowest count. Shapes: (node,), (domain,)."""
    if count.shape[0] <= domain.shape[0]:
        return domain, count
    within = np.zeros(count.shape[0] + 1, dtype=np.bool_)
    within[domain] = True
    used = np.flatnonzero(within[:-1])
    number = np.full(count.shape[0] + 1, domain_rules.NO_DOMAIN, dtype=np.int32)
    number[used] = np.arange(used.shape[0])
    return number[domain], np.append(count[used], count[~within[:-1]].min())


class _PresenceAdmission:
    """A group of presence rules over nodes 0 … n−1."""

    def __init__(self, constraints: Sequence[domain_rules.DomainConstraint], slots: arrays.SlotArray) -> None:
        self._domains = [each.domain[slots] for each in constraints]
        self._counts = [np.append(each.count, 0) for each in constraints]
        self._adds = [each.placement_adds for each in constraints]
        rules = [each.rule for each in constraints]
        self._may_be_first = all(isinstance(rule, domain_rules.PresenceRule) and rule.may_be_first for rule in rules)
        self._nobody = not any(count.any() for count in self._counts)

    def admitted_nodes(self) -> arrays.BoolArray:
        """The nodes whose domains have a matching pod each; before the first such pod, all that have the domains."""
        first = self._nobody and self._may_be_first
        admitted = np.ones(self._domains[0].shape[0], dtype=np.bool_)
        for domain, count in zip(self._domains, self._counts, strict=True):
            admitted &= domain != domain_rules.NO_DOMAIN if first else (count > 0)[domain]
        return admitted

    def place(self, node: int) -> bool:
        """Count one more pod on the node; return whether other nodes may be admitted now than before."""
        changed = False
        for domains, count, adds in zip(self._domains, self._counts, self._adds, strict=True):
            domain = int(domains[node])
            if domain != domain_rules.NO_DOMAIN and adds:
                changed |= count[domain] == 0
                count[domain] += adds
                self._nobody = False
        return bool(changed)


class _AbsenceAdmission:
    """One absence rule over nodes 0 … n−1."""

    def __init__(self, constraint: domain_rules.DomainConstraint, slots: arrays.SlotArray) -> None:
        self._domain = constraint.domain[slots]
        # The last entry stands for nodes in no domain.
        self._free = np.append(constraint.count == 0, True)
        self._adds = constraint.placement_adds

    def admitted_nodes(self) -> arrays.BoolArray:
        """The nodes in domains without a conflicting pod. Shape: (node,)."""
        admitted: arrays.BoolArray = self._free[self._domain]
        return admitted

    def place(self, node: int) -> bool:
        """Count one more pod on the node; return whether other nodes may be admitted now than before."""
        domain = int(self._domain[node])
        if domain == domain_rules.NO_DOMAIN or not self._adds or not self._free[domain]:
            return False
        self._free[domain] = False
        return True


class ConstraintAdmission:
    """All constraints of a batch over the nodes at some slots."""

    def __init__(self, constraints: Iterable[domain_rules.DomainConstraint], slots: arrays.SlotArray) -> None:
        self._rules: list[_MaxSkewAdmission | _PresenceAdmission | _AbsenceAdmission] = []
        groups: dict[int, list[domain_rules.DomainConstraint]] = {}
        for each in constraints:
            if isinstance(each.rule, domain_rules.SkewRule):
                self._rules.append(_MaxSkewAdmission(each, each.rule, slots))
            elif isinstance(each.rule, domain_rules.PresenceRule):
                groups.setdefault(each.rule.group, []).append(each)
            elif isinstance(each.rule, domain_rules.AbsenceRule):
                self._rules.append(_AbsenceAdmission(each, slots))
            else:
                assert_never(each.rule)
        self._rules += [_PresenceAdmission(group, slots) for group in groups.values()]
        self._admitted = [rule.admitted_nodes() for rule in self._rules]
        self._nodes = slots.shape[0]

    def admitted_nodes(self) -> arrays.BoolArray:
        """The nodes that all constraints admit now. Shape: (node,)."""
        out = np.ones(self._nodes, dtype=np.bool_)
        for admitted in self._admitted:
            out &= admitted
        return out

    def place(self, node: int) -> bool:
        """Count one more pod on the node; return whether other nodes may be admitted now than before."""
        changed = False
        for number, rule in enumerate(self._rules):
            if rule.place(node):
                self._admitted[number] = rule.admitted_nodes()
                changed = True
        return changed
