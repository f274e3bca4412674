"""Disruption budgets while pods leave and others come in their place.

The number that a budget allows is in its status, as the disruption controller writes it: one less for each pod that
leaves, one more for each that takes its place and has a node. A pod with a node counts as healthy.
"""

from collections.abc import Callable, Sequence

from trireme.cache import cluster_cache
from trireme.framework import label_selectors
from trireme.v1 import core_pb2, policy_pb2

KIND = "pod_disruption_budget"


class Budgets:
    """The budgets of a simulation. `store` puts a changed budget in place of the one before."""

    def __init__(
        self, cache: cluster_cache.ClusterCache, store: Callable[[policy_pb2.PodDisruptionBudget], None]
    ) -> None:
        self._cache = cache
        self._store = store
        self._exist = bool(cache.object_keys(KIND))

    def blocking(self, pod: core_pb2.Pod) -> Sequence[str]:
        """The budgets (namespace/name) that allow no eviction of the pod, given as its class."""
        return [_name(budget) for budget in self._budgets_of(pod) if budget.status.disruptions_allowed <= 0]

    def on_left(self, pod: core_pb2.Pod) -> None:
        """A pod with a node left."""
        self._change(pod, -1)

    def on_replaced(self, pod: core_pb2.Pod) -> None:
        """A pod that takes the place of one that left has a node."""
        self._change(pod, 1)

    def _change(self, pod: core_pb2.Pod, by: int) -> None:
        """Change what the pod's budgets allow; a status below 0 does not exist."""
        for budget in self._budgets_of(pod):
            changed = policy_pb2.PodDisruptionBudget()
            changed.CopyFrom(budget)
            changed.status.disruptions_allowed = max(0, changed.status.disruptions_allowed + by)
            changed.status.current_healthy = max(0, changed.status.current_healthy + by)
            if changed != budget:
                self._store(changed)

    def _budgets_of(self, pod: core_pb2.Pod) -> list[policy_pb2.PodDisruptionBudget]:
        """The budgets that select the pod."""
        if not self._exist:
            return []
        namespace, found = pod.metadata.namespace, []
        for key in sorted(self._cache.object_keys(KIND)):
            entry = self._cache.get_object(KIND, *key) if key[0] == namespace else None
            if entry is not None and _selects(entry.pod_disruption_budget, pod):
                found.append(entry.pod_disruption_budget)
        return found


def _selects(budget: policy_pb2.PodDisruptionBudget, pod: core_pb2.Pod) -> bool:
    """Whether the budget is about the pod. One with an invalid selector is about none."""
    try:
        selector = label_selectors.parse(budget.spec.selector)
    except label_selectors.InvalidSelectorError:
        return False
    return budget.spec.HasField("selector") and selector.matches(dict(pod.metadata.labels))


def _name(budget: policy_pb2.PodDisruptionBudget) -> str:
    """namespace/name."""
    return f"{budget.metadata.namespace}/{budget.metadata.name}"
