"""Disruption budgets: how many disruptions are allowed now.

Source: k8s.io/kubernetes, pkg/controller/disruption.

Also change: internal/trireme/evaluation/preemption/disruption_budgets.py,
internal/trireme/simulation/budgets.py (what a disruption budget allows).

Tests: tests/unit/embedded/controllers/test_controllers.py.
"""

from collections.abc import Callable

from trireme_kube.embedded.api import selectors
from trireme_kube.embedded.api.resources import PODS, Object
from trireme_kube.embedded.api.timestamps import parse_timestamp
from trireme_kube.embedded.controllers.deployments import resolve_number_or_percentage
from trireme_kube.embedded.controllers.owner_index import controller_of, is_active
from trireme_kube.embedded.controllers.work_queue import WorkQueue, queue_written
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.registry.subresources import BUDGETS, budgets_of, pod_ready, with_condition
from trireme_kube.embedded.storage.store import Event, Store

Key = tuple[str, str]
# Batches the changes of a budget's pods into one sync.
_GATHER_SECONDS = 0.05
_DISRUPTED_SECONDS = 120


def _expected_pod_count(store: Store, pods: list[Object]) -> int:
    """The replicas of the workloads that own these pods; a pod without a workload counts as one."""
    workloads: dict[str, int] = {}
    alone = 0
    for pod in pods:
        reference = controller_of(pod)
        controller = store.by_uid(reference["uid"]) if reference else None
        above = controller_of(controller[1].object) if controller else None
        controller = (store.by_uid(above["uid"]) or controller) if above else controller
        if controller is None:
            alone += 1
        else:
            workloads[controller[1].uid] = int((controller[1].object.get("spec") or {}).get("replicas", 0))
    return alone + sum(workloads.values())


def desired_healthy(store: Store, spec: Object, pods: list[Object]) -> tuple[int, int]:
    """How many pods are expected, and how many of them must stay healthy."""
    if spec.get("maxUnavailable") is not None:
        expected = _expected_pod_count(store, pods)
        return expected, max(expected - resolve_number_or_percentage(spec["maxUnavailable"], expected, up=True), 0)
    least = spec.get("minAvailable", 0)
    expected = _expected_pod_count(store, pods) if isinstance(least, str) else len(pods)
    return expected, resolve_number_or_percentage(least, expected, up=True)


class DisruptionController:
    """Computes the status of disruption budgets."""

    def __init__(self, registry: Registry, monotonic: Callable[[], float]) -> None:
        self._registry = registry
        self._queue: WorkQueue[Key] = WorkQueue("disruption", self._sync_budget, monotonic)
        self.queues = (self._queue,)
        registry.store.listen(BUDGETS, queue_written(self._queue))
        registry.store.listen(PODS, self._on_pod)

    def _on_pod(self, event: Event) -> None:
        """Queue the budgets that select the pod."""
        if not self._registry.store.count(BUDGETS):
            return
        labels = event.record.object["metadata"].get("labels") or {}
        for budget in budgets_of(self._registry, event.record.namespace, labels):
            self._queue.add(budget.key, _GATHER_SECONDS)

    def _sync_budget(self, key: Key) -> None:
        """Compute how many pods of a budget may be evicted now, and write its status.

        Pods whose eviction was allowed but has not begun count as disrupted for a while.
        """
        store = self._registry.store
        record = store.get(BUDGETS, *key)
        if record is None:
            return
        budget, now = record.object, self._registry.clock_and_ids.now()
        spec, before = budget["spec"], budget.get("status") or {}
        selector = spec.get("selector")
        matches = selectors.compile_label_selector(selector) if selector is not None else None
        pods = [
            one.object
            for one in (store.scan(PODS, record.namespace) if matches else ())
            if matches is not None and matches(one.object["metadata"].get("labels") or {}) and is_active(one.object)
        ]
        disrupted = self._evictions_in_progress(before.get("disruptedPods") or {}, pods)
        healthy = sum(pod_ready(pod) and pod["metadata"]["name"] not in disrupted for pod in pods)
        expected, desired = desired_healthy(store, spec, pods)
        allowed = max(healthy - desired, 0) if expected > 0 else 0
        condition = {
            "type": "DisruptionAllowed",
            "status": "True" if allowed else "False",
            "observedGeneration": budget["metadata"]["generation"],
            "reason": "SufficientPods" if allowed else "InsufficientPods",
            "message": "",
        }
        status: Object = {
            "observedGeneration": budget["metadata"]["generation"],
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "conditions": with_condition(before.get("conditions"), condition, now),
        }
        if disrupted:
            status["disruptedPods"] = disrupted
            self._queue.add(key, _DISRUPTED_SECONDS)
        self._registry.update_fields(BUDGETS, record, status=status)

    def _evictions_in_progress(self, marked: Object, pods: list[Object]) -> Object:
        """Evictions in progress: pods that still exist, for two minutes at most."""
        present = {pod["metadata"]["name"] for pod in pods}
        oldest = self._registry.clock_and_ids.clock() - _DISRUPTED_SECONDS
        return {name: at for name, at in marked.items() if name in present and parse_timestamp(at) > oldest}
