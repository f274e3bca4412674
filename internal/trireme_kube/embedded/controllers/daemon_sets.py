"""DaemonSets: one pod for every node that the pod may run on.

The pod is pinned to its node by node affinity and placed by the scheduler like any other.
Source: k8s.io/kubernetes, pkg/controller/daemon.

Also change: internal/trireme_kube/embedded/controllers/stateful_sets.py (the label of a revision).
Also change: internal/trireme_kube/embedded/controllers/jobs.py,
internal/trireme_kube/embedded/controllers/replica_sets.py (pods of controllers).

Tests: tests/unit/embedded/controllers/test_workloads.py.
"""

from collections.abc import Callable

from trireme_kube.embedded.api.resources import BY_KEY, NODES, Object
from trireme_kube.embedded.controllers import daemon_pods
from trireme_kube.embedded.controllers.controller_ref_manager import ControllerRefManager
from trireme_kube.embedded.controllers.owner_index import (
    OwnerIndex,
    OwnerKey,
    is_active,
    pod_from_template,
    template_hash,
)
from trireme_kube.embedded.controllers.pod_control import PodControl
from trireme_kube.embedded.controllers.work_queue import WorkQueue, queue_written
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.registry.subresources import pod_ready
from trireme_kube.embedded.storage.store import DELETED, Event, Record

DAEMON_SETS = BY_KEY["daemonsets.apps"]
REVISION = "controller-revision-hash"
# Batches node events into one sync.
_GATHER_SECONDS = 0.1
_AT_ONCE = 50


def _target_node(pod: Object) -> str:
    """The node that a daemon pod is pinned to; empty for an adopted pod without one."""
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    required = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(daemon_pods.REQUIRED) or {}
    for term in required.get("nodeSelectorTerms") or ():
        for one in term.get("matchFields") or ():
            if one["key"] == "metadata.name":
                return str(one["values"][0])
    return ""


class DaemonSetController:
    """Reconciles DaemonSets."""

    def __init__(self, registry: Registry, pods: OwnerIndex, monotonic: Callable[[], float]) -> None:
        self._registry = registry
        self._pods = pods
        self._queue: WorkQueue[OwnerKey] = WorkQueue("daemonsets", self._sync_daemon_set, monotonic)
        self.queues = (self._queue,)
        self._ref_manager = ControllerRefManager(registry, DAEMON_SETS, pods, self._queue, lambda owner, pod: True)
        self._control = PodControl(registry, "daemonset-controller")
        registry.store.listen(DAEMON_SETS, queue_written(self._queue))
        registry.store.listen(NODES, self._on_node)
        pods.queue_owner_on_change(DAEMON_SETS.kind, self._queue, _GATHER_SECONDS)

    def _on_node(self, event: Event) -> None:
        """Queue all DaemonSets if a node came, went, or changed its labels or spec."""
        node, before = event.record.object, event.before.object if event.before else None
        if before is not None and event.type != DELETED:
            same_labels = node["metadata"].get("labels") == before["metadata"].get("labels")
            if same_labels and node["spec"] == before["spec"]:
                return
        for record in self._registry.store.scan(DAEMON_SETS):
            self._queue.add(record.key, _GATHER_SECONDS)

    def _sync_daemon_set(self, key: OwnerKey) -> None:
        """Delete and create pods so that each node that should has one, some at a time, and write the status."""
        record = self._registry.store.get(DAEMON_SETS, *key)
        if record is None or "deletionTimestamp" in record.object["metadata"]:
            return
        template = record.object["spec"]["template"]
        nodes = [one.object for one in self._registry.store.scan(NODES)]
        target_nodes = {one["metadata"]["name"] for one in nodes if daemon_pods.should_run(template["spec"], one)}
        covered: set[str] = set()
        for pod in self._ref_manager.claim_objects(record):
            node = _target_node(pod.object)
            if is_active(pod.object) and node in target_nodes and node not in covered:
                covered.add(node)
            elif "deletionTimestamp" in pod.object["metadata"]:
                covered.add(node)  # its successor comes once it is gone
            else:
                self._control.delete(record, pod)
        missing = sorted(target_nodes - covered)
        for node in missing[:_AT_ONCE]:
            self._create_pod(record, node)
        if len(missing) > _AT_ONCE:
            self._queue.add(key)
        self._replace_one_outdated_pod(record)
        self._update_status(key, len(target_nodes))

    @staticmethod
    def _template_hash(record: Record) -> str:
        return template_hash(record.object["spec"]["template"])

    def _create_pod(self, record: Record, node: str) -> None:
        """Create the pod for a node, pinned to it by affinity, with the tolerations of daemons."""
        pod = pod_from_template(record.object["spec"]["template"], record, generate_name=f"{record.name}-")
        pod["metadata"].setdefault("labels", {})[REVISION] = self._template_hash(record)
        daemon_pods.pin_to_node(pod["spec"], node)
        self._control.create(record, pod)

    def _replace_one_outdated_pod(self, record: Record) -> None:
        """Replace one pod of an older template, while all others are ready."""
        if record.object["spec"]["updateStrategy"]["type"] != "RollingUpdate":
            return
        pods = [one for one in self._pods.of(record.uid) if is_active(one.object)]
        revision = self._template_hash(record)
        old = [one for one in pods if (one.object["metadata"].get("labels") or {}).get(REVISION) != revision]
        if old and all(pod_ready(one.object) for one in pods if one not in old):
            self._control.delete(record, old[0])

    def _update_status(self, key: OwnerKey, desired: int) -> None:
        """Write the counts of a DaemonSet's pods; `desired` is the number of nodes that should run one."""
        record = self._registry.get(DAEMON_SETS, *key)
        revision = self._template_hash(record)
        pods = [one.object for one in self._pods.of(record.uid) if is_active(one.object)]
        ready = sum(pod_ready(pod) for pod in pods)
        updated = sum((pod["metadata"].get("labels") or {}).get(REVISION) == revision for pod in pods)
        status: Object = {
            "currentNumberScheduled": min(len(pods), desired),
            "numberMisscheduled": max(len(pods) - desired, 0),
            "desiredNumberScheduled": desired,
            "numberReady": ready,
            "observedGeneration": record.object["metadata"]["generation"],
        }
        counts = {
            "updatedNumberScheduled": updated,
            "numberAvailable": ready,
            "numberUnavailable": max(desired - ready, 0),
        }
        status |= {name: count for name, count in counts.items() if count}
        self._registry.update_fields(DAEMON_SETS, record, status=status)
