"""Disruption budgets while pods leave and others come in their place.

The number that a budget allows is in its status, as the disruption controller writes it: the pods that are healthy
beyond those that have to be. A pod with a node counts as healthy. How many have to be follows from the replicas that
there should be.

Also change: internal/trireme/evaluation/preemption/disruption_budgets.py,
internal/trireme_kube/embedded/controllers/disruption.py (what a disruption budget allows).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from trireme.cache import cluster_cache
from trireme.framework import label_selectors
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, meta_pb2, policy_pb2

KIND = "pod_disruption_budget"


class Budgets:
    """The budgets of a simulation. `store` puts a changed budget in place of the one before."""

    def __init__(
        self, cache: cluster_cache.ClusterCache, store: Callable[[policy_pb2.PodDisruptionBudget], None]
    ) -> None:
        self._cache = cache
        self._store = store
        # By namespace and labels of pods, the budgets that select them.
        self._selections: dict[tuple[object, ...], list[tuple[str, str]]] = {}

    def blocking(self, pod: core_pb2.Pod) -> Sequence[str]:
        """The budgets (namespace/name) that allow no eviction of the pod, given as its class."""
        return [_name(budget) for budget in self._budgets_of(pod) if budget.status.disruptions_allowed <= 0]

    def on_left(self, pod: core_pb2.Pod) -> None:
        """A pod with a node left."""
        self._change(pod, -1, 0)

    def on_placed(self, pod: core_pb2.Pod) -> None:
        """A pod that was pending has a node."""
        self._change(pod, 1, 0)

    def on_scaled(self, pod: core_pb2.Pod, by: int) -> None:
        """A workload has so many replicas more, with or without pods for them by now."""
        self._change(pod, 0, by)

    def _change(self, pod: core_pb2.Pod, healthy: int, expected: int) -> None:
        """Change how many of the pods of the pod's budgets are healthy, and how many there should be, by so many."""
        for budget in self._budgets_of(pod):
            changed = policy_pb2.PodDisruptionBudget()
            changed.CopyFrom(budget)
            status = changed.status
            known = status.disruptions_allowed == _allowed(status)
            status.current_healthy = max(0, status.current_healthy + healthy)
            if expected:
                status.expected_pods = max(0, status.expected_pods + expected)
                status.desired_healthy = _desired_healthy(changed.spec, status.expected_pods)
            # A status without counts has only the number.
            status.disruptions_allowed = _allowed(status) if known else max(0, status.disruptions_allowed + healthy)
            if changed != budget:
                self._store(changed)

    def forget_selections(self) -> None:
        """A budget came, went or may select other pods."""
        self._selections.clear()

    def _budgets_of(self, pod: core_pb2.Pod) -> list[policy_pb2.PodDisruptionBudget]:
        """The budgets that select the pod."""
        labels = (pod.metadata.namespace, *sorted(pod.metadata.labels.items()))
        keys = self._selections.get(labels)
        if keys is None:
            keys = self._selections[labels] = [key for key, budget in self._all_budgets() if _selects_pod(budget, pod)]
        entries = (self._cache.get_object(KIND, *key) for key in keys)
        return [entry.pod_disruption_budget for entry in entries if entry is not None]

    def _all_budgets(self) -> Iterator[tuple[tuple[str, str], policy_pb2.PodDisruptionBudget]]:
        """All budgets, by namespace and name."""
        for key in sorted(self._cache.object_keys(KIND)):
            entry = self._cache.get_object(KIND, *key)
            if entry is not None:
                yield key, entry.pod_disruption_budget


def with_status(
    budget: policy_pb2.PodDisruptionBudget, snap: snapshot.Snapshot, pending: Iterable[core_pb2.Pod]
) -> policy_pb2.PodDisruptionBudget:
    """The budget with the status that the disruption controller gives it, by the pods of its namespace.

    `pending` are those without a node, given as their classes. There should be as many pods as there are.
    """

    def selected(pod: core_pb2.Pod) -> bool:
        return _selects_pod(budget, pod)

    numbers = [number for number, each in snap.classes.items() if selected(each.pod)]
    healthy = int(snap.pods.rows_of(snap.class_mask(numbers)).size) if numbers else 0
    out = policy_pb2.PodDisruptionBudget()
    out.CopyFrom(budget)
    out.status.current_healthy = healthy
    out.status.expected_pods = healthy + sum(map(selected, pending))
    out.status.desired_healthy = _desired_healthy(budget.spec, out.status.expected_pods)
    out.status.disruptions_allowed = _allowed(out.status)
    return out


def _allowed(status: policy_pb2.PodDisruptionBudgetStatus) -> int:
    return max(0, status.current_healthy - status.desired_healthy)


def _desired_healthy(spec: policy_pb2.PodDisruptionBudgetSpec, expected: int) -> int:
    """How many of so many pods have to be healthy.

    Source: getExpectedPodCount of pkg/controller/disruption/disruption.go.
    """
    if spec.HasField("max_unavailable"):
        return max(0, expected - _scaled(spec.max_unavailable, expected))
    return _scaled(spec.min_available, expected) if spec.HasField("min_available") else 0


def _scaled(value: meta_pb2.IntOrString, total: int) -> int:
    """The number, or the percentage of the total, rounded up; 0 for a text that is no percentage."""
    if not value.type:
        return value.int_val
    percent = value.str_val.removesuffix("%")
    return -(-int(percent) * total // 100) if percent.isdecimal() else 0


def _selects_pod(budget: policy_pb2.PodDisruptionBudget, pod: core_pb2.Pod) -> bool:
    """Whether the budget is about the pod.

    An empty selector selects all pods of the namespace. One that is invalid, or not there, selects none.
    """
    if budget.metadata.namespace != pod.metadata.namespace or not budget.spec.HasField("selector"):
        return False
    try:
        selector = label_selectors.parse(budget.spec.selector)
    except label_selectors.InvalidSelectorError:
        return False
    return selector.matches(dict(pod.metadata.labels))


def _name(budget: policy_pb2.PodDisruptionBudget) -> str:
    return f"{budget.metadata.namespace}/{budget.metadata.name}"
