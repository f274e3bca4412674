"""Resource quotas: what is used of each, counted anew when objects of its namespace change or go.

Source: k8s.io/kubernetes, pkg/controller/resourcequota.
"""

from collections.abc import Callable

from trireme_kube.apimachinery.quantity import Quantity
from trireme_kube.embedded.api import pod_resources, quantities
from trireme_kube.embedded.api.resources import PODS, Object, Resource
from trireme_kube.embedded.controllers.work_queue import WorkQueue
from trireme_kube.embedded.registry.quotas import pod_usage
from trireme_kube.embedded.registry.quotas.evaluators import QUOTAS, evaluator_of
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.storage.store import ADDED, DELETED, Event, Record

Key = tuple[str, str]
# Batches the changes of a namespace's objects into one sync.
_GATHER_SECONDS = 0.05


class ResourceQuotaController:
    """Computes the status of resource quotas."""

    def __init__(self, registry: Registry, monotonic: Callable[[], float]) -> None:
        self._registry = registry
        self._store = registry.store
        self._queue: WorkQueue[Key] = WorkQueue("resourcequotas", self._sync_quota, monotonic)
        self.queues = (self._queue,)
        self._store.listen_to_all(self._on_write)

    def _on_write(self, resource: Resource, event: Event) -> None:
        """Queue a quota whose limits were written, and those whose usage a write may have reduced."""
        if resource is QUOTAS and event.type != DELETED and _limits_differ(event):
            self._queue.add(event.record.key)
        # What a new object uses, its admission has charged.
        if event.type == ADDED or not self._store.count(QUOTAS):
            return
        evaluator = evaluator_of(resource)
        if evaluator is None or (event.type != DELETED and not _may_use_less(resource, event)):
            return
        for quota in self._store.scan(QUOTAS, event.record.namespace):
            if any(evaluator.tracks(name) for name in (quota.object.get("spec") or {}).get("hard") or ()):
                self._queue.add(quota.key, _GATHER_SECONDS)

    def _sync_quota(self, key: Key) -> None:
        """Write what there may be and what is used of it into the status of a quota."""
        record = self._store.get(QUOTAS, *key)
        if record is None:
            return
        quota = record.object
        hard = (quota.get("spec") or {}).get("hard") or {}
        before = (quota.get("status") or {}).get("used") or {}
        # Usage that no kind here counts stays as somebody else has written it.
        used = {name: before[name] for name in hard if name in before}
        used |= {name: str(amount) for name, amount in self._usage(record, list(hard)).items()}
        status = {part: amounts for part, amounts in (("hard", dict(hard)), ("used", used)) if amounts}
        self._registry.update_fields(QUOTAS, record, status=status)

    def _usage(self, quota: Record, hard: list[str]) -> dict[str, Quantity]:
        """What the objects of the namespace use of what a quota limits."""
        now = self._registry.clock_and_ids.clock()
        used: dict[str, Quantity] = {}
        for resource in self._registry.catalog.stored_in_namespaces():
            evaluator = evaluator_of(resource)
            names = [] if evaluator is None else [name for name in hard if evaluator.tracks(name)]
            if evaluator is None or not names:
                continue
            objects = [
                one.object
                for one in self._store.scan(resource, quota.namespace)
                if evaluator.matches(quota.object, one.object)
            ]
            parts = quantities.total(evaluator.usage(obj, now) for obj in objects)
            used = quantities.total([used, {name: parts.get(name, quantities.NONE) for name in names}])
            if resource is PODS:
                self._queue_overdue(quota.key, objects, now)
        return used

    def _queue_overdue(self, key: Key, pods: list[Object], now: float) -> None:
        """Queue the quota for when a pod that is being deleted stops counting without being gone."""
        times = [time for time in map(pod_usage.overdue_at, pods) if now <= time < float("inf")]
        if times:
            self._queue.add(key, min(times) - now + _GATHER_SECONDS)


def _limits_differ(event: Event) -> bool:
    """Whether a quota is new, or limits something else than before."""
    return event.before is None or event.before.object.get("spec") != event.record.object.get("spec")


def _may_use_less(resource: Resource, event: Event) -> bool:
    """Whether a quota's usage may be less after an update; of a pod also whether it may be so in a while."""
    if resource is not PODS:
        return resource.key in ("persistentvolumeclaims", "services")
    assert event.before is not None
    pod, before = event.record.object, event.before.object
    return (
        pod_resources.has_ended(pod) != pod_resources.has_ended(before)
        or pod_usage.overdue_at(pod) != pod_usage.overdue_at(before)
        or pod_usage.has_deadline(pod) != pod_usage.has_deadline(before)
        or pod_usage.usage(pod, 0.0) != pod_usage.usage(before, 0.0)
    )
