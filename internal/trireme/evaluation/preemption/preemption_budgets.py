"""Disruption budgets: whose going would break one.

Source: pkg/scheduler/framework/preemption (FilterVictimsWithPDBViolation).
"""

from collections.abc import Sequence

from trireme.framework import label_selectors
from trireme.snapshot import snapshot
from trireme.v1 import policy_pb2

_KIND = "pod_disruption_budget"
_NOBODY: frozenset[int] = frozenset()


class Budgets:
    """The budgets of a snapshot, for as long as it stands still."""

    def __init__(self, snap: snapshot.Snapshot) -> None:
        self._snap = snap
        self._budgets: list[tuple[policy_pb2.PodDisruptionBudget, label_selectors.LabelSelector]] = []
        for budget in snap.objects.all(_KIND):
            try:
                selector = label_selectors.parse(budget.spec.selector)
            except label_selectors.InvalidSelectorError:
                # One that cannot be read protects nobody, and neither does one that selects everything.
                continue
            if selector.requirements:
                self._budgets.append((budget, selector))
        self._of_class: dict[int, tuple[int, ...]] = {}

    @property
    def any(self) -> bool:
        """Whether there are budgets that may protect anybody."""
        return bool(self._budgets)

    def violating(self, rows: Sequence[int]) -> frozenset[int]:
        """Those of the pods, the most important first, for whom a budget has nothing left when all of them go."""
        if not self._budgets:
            return _NOBODY
        left = [budget.status.disruptions_allowed for budget, _ in self._budgets]
        return frozenset(row for row in rows if self._violates(row, left))

    def _violates(self, row: int, left: list[int]) -> bool:
        """Take the pod off the budgets that protect it; the first that has nothing left is the last one to be asked."""
        for number in self._protecting(int(self._snap.pods.pod_class[row])):
            if self._snap.pods.names[row] in self._budgets[number][0].status.disrupted_pods:
                # The API server has counted it already.
                continue
            left[number] -= 1
            if left[number] < 0:
                return True
        return False

    def _protecting(self, class_id: int) -> tuple[int, ...]:
        known = self._of_class.get(class_id)
        if known is None:
            pod_class = self._snap.classes[class_id]
            known = self._of_class[class_id] = tuple(
                number
                for number, (budget, selector) in enumerate(self._budgets)
                if (pod_class.labels or pod_class.labels_projected)
                and budget.metadata.namespace == pod_class.namespace
                and selector.matches(pod_class.labels)
            )
        return known
