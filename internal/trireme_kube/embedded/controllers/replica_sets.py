"""ReplicaSets and ReplicationControllers: maintain the requested number of pods.

Source: k8s.io/kubernetes, pkg/controller/replicaset.

Also change: internal/trireme_kube/embedded/controllers/jobs.py,
internal/trireme_kube/embedded/controllers/stateful_sets.py,
internal/trireme_kube/embedded/controllers/daemon_sets.py (pods of controllers).

Tests: tests/unit/embedded/controllers/test_endpoints.py.
"""

from collections.abc import Callable

from trireme_kube.embedded.api.resources import Object, Resource
from trireme_kube.embedded.controllers.controller_ref_manager import ControllerRefManager
from trireme_kube.embedded.controllers.owner_index import OwnerIndex, OwnerKey, is_active, pod_from_template
from trireme_kube.embedded.controllers.pod_control import PodControl
from trireme_kube.embedded.controllers.work_queue import WorkQueue, queue_written
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.registry.subresources import pod_ready
from trireme_kube.embedded.storage.store import Record

# Pods created or deleted per step, so that a large ReplicaSet does not block everything else.
_AT_ONCE = 50


def _deletion_order(record: Record) -> tuple[bool, bool, bool, str]:
    """Sort key for deletion: unassigned, then pending, then not ready, then the youngest (last sorts first)."""
    pod = record.object
    running = (pod.get("status") or {}).get("phase") == "Running"
    return (bool(pod["spec"].get("nodeName")), running, pod_ready(pod), pod["metadata"]["creationTimestamp"])


class ReplicaSetController:
    """Keeps the number of pods of one kind of replicated workload."""

    def __init__(
        self, registry: Registry, resource: Resource, pods: OwnerIndex, monotonic: Callable[[], float]
    ) -> None:
        self._registry = registry
        self._resource = resource
        self._pods = pods
        self._queue: WorkQueue[OwnerKey] = WorkQueue(resource.plural, self._sync_replica_set, monotonic)
        self.queues = (self._queue,)
        self._ref_manager = ControllerRefManager(registry, resource, pods, self._queue)
        component = "replicaset-controller" if resource.kind == "ReplicaSet" else "replication-controller"
        self._control = PodControl(registry, component)
        registry.store.listen(resource, queue_written(self._queue))
        pods.queue_owner_on_change(resource.kind, self._queue)

    def _sync_replica_set(self, key: OwnerKey) -> None:
        """Create or delete pods until there are as many as wanted, and write the status even if that fails."""
        record = self._registry.store.get(self._resource, *key)
        if record is None:
            return
        try:
            self._scale_pods(record)
        finally:
            self._update_status(key)

    def _scale_pods(self, record: Record) -> None:
        """Create missing pods, or delete surplus ones."""
        active = [pod for pod in self._ref_manager.claim_objects(record) if is_active(pod.object)]
        if "deletionTimestamp" in record.object["metadata"]:
            return
        missing = record.object["spec"]["replicas"] - len(active)
        if missing > 0:
            self._create_pods(record, missing)
        elif missing < 0:
            self._delete_pods(record, active, -missing)
        if abs(missing) > _AT_ONCE:
            self._queue.add(record.key)

    def _create_pods(self, owner: Record, count: int) -> None:
        """Create so many pods, at most _AT_ONCE now."""
        template = owner.object["spec"]["template"]
        for _ in range(min(count, _AT_ONCE)):
            pod = pod_from_template(template, owner, generate_name=f"{owner.name}-")
            self._control.create(owner, pod)

    def _delete_pods(self, owner: Record, active: list[Record], count: int) -> None:
        """Delete so many of the active pods, at most _AT_ONCE now, in the order of `_deletion_order`."""
        oldest_first = sorted(active, key=lambda one: one.object["metadata"]["creationTimestamp"], reverse=True)
        for pod in sorted(oldest_first, key=lambda one: _deletion_order(one)[:3])[: min(count, _AT_ONCE)]:
            self._control.delete(owner, pod)

    def _update_status(self, key: OwnerKey) -> None:
        """Update the status from the current pods."""
        record = self._registry.store.get(self._resource, *key)
        if record is None:
            return
        pods = [one.object for one in self._pods.of(record.uid)]
        active = [pod for pod in pods if is_active(pod)]
        ready = sum(pod_ready(pod) for pod in active)
        status: Object = {"replicas": len(active)}
        if active:
            status["fullyLabeledReplicas"] = len(active)
        if ready:
            status |= {"readyReplicas": ready, "availableReplicas": ready}
        status["terminatingReplicas"] = sum("deletionTimestamp" in pod["metadata"] for pod in pods)
        status["observedGeneration"] = record.object["metadata"]["generation"]
        self._registry.update_fields(self._resource, record, status=status)
