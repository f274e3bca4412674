"""Disruption budgets: which victims' evictions would violate one.

Source: pkg/scheduler/framework/preemption (FilterVictimsWithPDBViolation).

Also change: internal/trireme/simulation/budgets.py,
internal/trireme_kube/embedded/controllers/disruption.py (what a disruption budget allows).

Tests: tests/unit/evaluation/test_preemption_victims.py,
tests/unit/plugins/default_preemption/test_post_filter.py.
"""

import contextlib
from collections.abc import Sequence

from trireme.framework import label_selectors
from trireme.snapshot import snapshot
from trireme.v1 import policy_pb2

_KIND = "pod_disruption_budget"
_NONE: frozenset[int] = frozenset()


class DisruptionBudgets:
    """The budgets of a snapshot, which must not change meanwhile."""

    def __init__(self, snap: snapshot.Snapshot) -> None:
        self._snap = snap
        self._budgets: list[tuple[policy_pb2.PodDisruptionBudget, label_selectors.LabelSelector]] = []
        for budget in snap.objects.all(_KIND):
            if not budget.spec.HasField("selector"):
                continue
            # An empty selector protects all pods of its namespace, an invalid one none.
            with contextlib.suppress(label_selectors.InvalidSelectorError):
                self._budgets.append((budget, label_selectors.parse(budget.spec.selector)))
        self._of_class: dict[int, tuple[int, ...]] = {}

    def __bool__(self) -> bool:
        """Whether there are budgets that may protect a pod."""
        return bool(self._budgets)

    def violating_rows(self, rows: Sequence[int]) -> frozenset[int]:
        """Return those of the pods, the most important first, that violate a budget if all of them are evicted."""
        if not self._budgets:
            return _NONE
        allowed = [budget.status.disruptions_allowed for budget, _ in self._budgets]
        return frozenset(row for row in rows if self._eviction_exceeds_budget(row, allowed))

    def _eviction_exceeds_budget(self, row: int, allowed: list[int]) -> bool:
        """Count the eviction against the budgets that protect the pod; return whether one of them allows no more.

        Counting ends at that budget. A budget that has the pod among its disrupted pods is not counted again.
        """
        for number in self._budgets_of_class(int(self._snap.pods.pod_class[row])):
            if self._snap.pods.names[row] in self._budgets[number][0].status.disrupted_pods:
                # The API server has counted it already.
                continue
            allowed[number] -= 1
            if allowed[number] < 0:
                return True
        return False

    def _budgets_of_class(self, class_id: int) -> tuple[int, ...]:
        """The numbers of the budgets that select pods of the class."""
        numbers = self._of_class.get(class_id)
        if numbers is None:
            pod_class = self._snap.classes[class_id]
            numbers = self._of_class[class_id] = tuple(
                number
                for number, (budget, selector) in enumerate(self._budgets)
                if budget.metadata.namespace == pod_class.namespace and selector.matches(pod_class.labels)
            )
        return numbers
