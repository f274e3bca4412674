"""StatefulSets: pods with stable names, created in order, each with its own claims.

Source: k8s.io/kubernetes, pkg/controller/statefulset.

Also change: internal/trireme/simulation/submission/workload_pods.py,
internal/trireme_kube/embedded/controllers/jobs.py (pods that controllers make).
Also change: internal/trireme_kube/embedded/controllers/daemon_sets.py (the label of a revision).
Also change: internal/trireme_kube/embedded/controllers/replica_sets.py (pods of controllers).

Tests: tests/unit/embedded/controllers/test_workloads.py.
"""

from collections.abc import Callable

from trireme_kube.embedded.api import api_errors, pod_resources
from trireme_kube.embedded.api.resources import BY_KEY, PODS, Object
from trireme_kube.embedded.controllers.controller_ref_manager import ControllerRefManager
from trireme_kube.embedded.controllers.event_recorder import EventRecorder
from trireme_kube.embedded.controllers.owner_index import OwnerIndex, OwnerKey, pod_from_template, template_hash
from trireme_kube.embedded.controllers.work_queue import WorkQueue, queue_written
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.registry.subresources import pod_ready
from trireme_kube.embedded.storage.store import Record

STATEFUL_SETS, CLAIMS = BY_KEY["statefulsets.apps"], BY_KEY["persistentvolumeclaims"]
REVISION = "controller-revision-hash"


def _ordinal_of_pod(record: Record) -> int:
    return int(record.name.rpartition("-")[2])


def _is_pod_of_set(record: Record, pod: Record) -> bool:
    parent, _, ordinal = pod.name.rpartition("-")
    return parent == record.name and ordinal.isdecimal()


def _is_terminating(record: Record) -> bool:
    return "deletionTimestamp" in record.object["metadata"]


class StatefulSetController:
    """Reconciles StatefulSets."""

    def __init__(self, registry: Registry, pods: OwnerIndex, monotonic: Callable[[], float]) -> None:
        self._registry = registry
        self._pods = pods
        self._queue: WorkQueue[OwnerKey] = WorkQueue("statefulsets", self._sync_stateful_set, monotonic)
        self.queues = (self._queue,)
        self._ref_manager = ControllerRefManager(registry, STATEFUL_SETS, pods, self._queue, _is_pod_of_set)
        self._recorder = EventRecorder(registry, "statefulset-controller")
        registry.store.listen(STATEFUL_SETS, queue_written(self._queue))
        pods.queue_owner_on_change(STATEFUL_SETS.kind, self._queue)

    def _sync_stateful_set(self, key: OwnerKey) -> None:
        """Take the next step unless the StatefulSet is being deleted, and write its status."""
        record = self._registry.store.get(STATEFUL_SETS, *key)
        if record is None:
            return
        if not _is_terminating(record):
            self._create_delete_or_replace_pods(record)
        self._update_status(key)

    def _create_delete_or_replace_pods(self, record: Record) -> None:
        """Create what is missing and delete what is surplus; without surplus, replace one pod of an older template.

        If OrderedReady, one pod at a time; the event that it causes triggers the next one.
        """
        spec = record.object["spec"]
        in_order = spec["podManagementPolicy"] == "OrderedReady"
        first = int((spec.get("ordinals") or {}).get("start", 0))
        pods = {
            _ordinal_of_pod(pod): pod for pod in self._ref_manager.claim_objects(record) if _is_pod_of_set(record, pod)
        }
        for ordinal in range(first, first + spec["replicas"]):
            pod = pods.get(ordinal)
            if pod is None:
                self._create_pod(record, ordinal)
            elif pod_resources.has_ended(pod.object) and not _is_terminating(pod):
                self._delete_pod(record, pod)
            if in_order and (pod is None or _is_terminating(pod) or not pod_ready(pod.object)):
                return
        surplus = sorted((one for one in pods if not first <= one < first + spec["replicas"]), reverse=True)
        for ordinal in surplus:
            if not _is_terminating(pods[ordinal]):
                self._delete_pod(record, pods[ordinal])
            if in_order:
                return
        if not surplus:
            self._replace_one_outdated_pod(record, pods)

    def _replace_one_outdated_pod(self, record: Record, pods: dict[int, Record]) -> None:
        """Replace the highest pod of an older template, unless one above it is not ready.

        A pod of an older template need not be ready itself: it may never be. Source:
        pkg/controller/statefulset/stateful_set_control.go (updateStatefulSet).
        """
        strategy = record.object["spec"]["updateStrategy"]
        if strategy["type"] != "RollingUpdate":
            return
        revision = self._template_hash(record)
        partition = int((strategy.get("rollingUpdate") or {}).get("partition", 0))
        for ordinal in sorted(pods, reverse=True):
            pod = pods[ordinal]
            labels = pod.object["metadata"].get("labels") or {}
            if ordinal >= partition and labels.get(REVISION) != revision and not _is_terminating(pod):
                self._delete_pod(record, pod)
                return
            if _is_terminating(pod) or not pod_ready(pod.object):
                return

    @staticmethod
    def _template_hash(record: Record) -> str:
        return f"{record.name}-{template_hash(record.object['spec']['template'])}"

    def _create_pod(self, record: Record, ordinal: int) -> None:
        """Create the pod of that number, and before it its claims. Raises: ApiError, after an event about it."""
        spec, name = record.object["spec"], f"{record.name}-{ordinal}"
        pod = pod_from_template(spec["template"], record, name=name)
        labels = pod["metadata"].setdefault("labels", {})
        labels["statefulset.kubernetes.io/pod-name"] = name
        labels["apps.kubernetes.io/pod-index"] = str(ordinal)
        labels[REVISION] = self._template_hash(record)
        pod["spec"]["hostname"] = name
        if spec.get("serviceName"):
            pod["spec"]["subdomain"] = spec["serviceName"]
        for template in spec.get("volumeClaimTemplates") or ():
            claim = self._create_claim_if_missing(record, template, name)
            volume = template["metadata"]["name"]
            others = [one for one in pod["spec"].get("volumes") or () if one["name"] != volume]
            pod["spec"]["volumes"] = [*others, {"name": volume, "persistentVolumeClaim": {"claimName": claim}}]
        try:
            self._registry.create(PODS, record.namespace, pod)
        except api_errors.ApiError as error:
            self._record_pod_event(record, "create", "Create", name, error)
            raise
        self._record_pod_event(record, "create", "Create", name)

    def _delete_pod(self, record: Record, pod: Record) -> None:
        self._registry.delete(PODS, *pod.key)
        self._record_pod_event(record, "delete", "Delete", pod.name)

    def _record_pod_event(
        self, record: Record, verb: str, noun: str, pod: str, error: api_errors.ApiError | None = None
    ) -> None:
        """Record that a pod was created or deleted, or that this failed."""
        about = f"{verb} Pod {pod} in StatefulSet {record.name}"
        if error is None:
            self._recorder.normal(record.object, f"Successful{noun}", f"{about} successful")
        else:
            self._recorder.warning(record.object, f"Failed{noun}", f"{about} failed error: {error}")

    def _create_claim_if_missing(self, record: Record, template: Object, pod_name: str) -> str:
        """Create a pod's claim if missing; return its name."""
        name = f"{template['metadata']['name']}-{pod_name}"
        if self._registry.store.get(CLAIMS, record.namespace, name) is None:
            labels = dict((record.object["spec"]["selector"] or {}).get("matchLabels") or {})
            metadata = {"name": name, "labels": {**(template["metadata"].get("labels") or {}), **labels}}
            self._registry.create(CLAIMS, record.namespace, {"metadata": metadata, "spec": dict(template["spec"])})
            about = f"create Claim {name} Pod {pod_name} in StatefulSet {record.name} success"
            self._recorder.normal(record.object, "SuccessfulCreate", about)
        return name

    def _update_status(self, key: OwnerKey) -> None:
        """Write counts and revisions; the current revision moves when all pods are updated and ready."""
        record = self._registry.store.get(STATEFUL_SETS, *key)
        if record is None:
            return
        revision = self._template_hash(record)
        pods = [one for one in self._pods.of(record.uid) if not pod_resources.has_ended(one.object)]
        updated = sum((one.object["metadata"].get("labels") or {}).get(REVISION) == revision for one in pods)
        ready = sum(pod_ready(one.object) for one in pods)
        before = record.object.get("status") or {}
        rolled_out = updated == len(pods) == ready == record.object["spec"]["replicas"]
        current = revision if rolled_out else before.get("currentRevision") or revision
        counts = {
            "readyReplicas": ready,
            "availableReplicas": ready,
            "currentReplicas": updated if current == revision else len(pods) - updated,
            "updatedReplicas": updated,
        }
        status: Object = {
            "observedGeneration": record.object["metadata"]["generation"],
            "replicas": len(pods),
            "currentRevision": current,
            "updateRevision": revision,
            "collisionCount": 0,
            "availableReplicas": 0,
        }
        status |= {name: count for name, count in counts.items() if count}
        self._registry.update_fields(STATEFUL_SETS, record, status=status)
