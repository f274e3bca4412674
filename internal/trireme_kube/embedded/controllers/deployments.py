"""Deployments: one ReplicaSet per version of the template, and rolling updates between them.

A rolling update keeps both limits of its strategy at every step: never more than `replicas + maxSurge` pods requested,
never fewer than `replicas - maxUnavailable` available. Each step is taken when an event shows that the previous one has
had its effect.

Source: k8s.io/kubernetes, pkg/controller/deployment.

Tests: tests/unit/embedded/controllers/test_workloads.py.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from trireme_kube.embedded.api import api_errors
from trireme_kube.embedded.api.resources import BY_KEY, Object, Resource
from trireme_kube.embedded.controllers.controller_ref_manager import ControllerRefManager
from trireme_kube.embedded.controllers.event_recorder import EventRecorder
from trireme_kube.embedded.controllers.owner_index import OwnerIndex, OwnerKey, owner_reference, template_hash
from trireme_kube.embedded.controllers.work_queue import WorkQueue, queue_written
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.registry.subresources import with_condition
from trireme_kube.embedded.storage.store import Record

DEPLOYMENTS, REPLICA_SETS = BY_KEY["deployments.apps"], BY_KEY["replicasets.apps"]
_HASH = "pod-template-hash"
_REVISION = "deployment.kubernetes.io/revision"


def resolve_number_or_percentage(value: Any, total: int, *, up: bool) -> int:
    """A number, or a percentage of `total`, rounded up or down."""
    if isinstance(value, str) and value.endswith("%"):
        exact = int(value[:-1]) * total / 100
        return math.ceil(exact) if up else math.floor(exact)
    return int(value)


def rolling_update_bounds(spec: Object) -> tuple[int, int]:
    """The most surplus pods, and the most unavailable ones, during a rolling update."""
    if spec["strategy"]["type"] != "RollingUpdate":
        return 0, 0
    rolling, replicas = spec["strategy"]["rollingUpdate"], spec["replicas"]
    surge = resolve_number_or_percentage(rolling["maxSurge"], replicas, up=True)
    unavailable = resolve_number_or_percentage(rolling["maxUnavailable"], replicas, up=False)
    return (surge, unavailable) if surge or unavailable else (0, 1)


def _without_template_hash(template: Object) -> Object:
    """Return a copy of a pod template without the label that ReplicaSets add."""
    metadata = dict(template.get("metadata") or {})
    metadata["labels"] = {key: value for key, value in (metadata.get("labels") or {}).items() if key != _HASH}
    return {**template, "metadata": metadata}


def _desired_replicas(record: Record) -> int:
    return int(record.object["spec"]["replicas"])


def _available_replicas(record: Record) -> int:
    return int((record.object.get("status") or {}).get("availableReplicas", 0))


def _pods_with_terminating(record: Record) -> int:
    status = record.object.get("status") or {}
    return int(status.get("replicas", 0)) + int(status.get("terminatingReplicas", 0))


def _revision_of(obj: Object) -> int:
    """The revision in the object's annotations; 0 without one."""
    return int((obj["metadata"].get("annotations") or {}).get(_REVISION, "0"))


def scale_down_plan(old: Sequence[Record], new: Record | None, replicas: int, unavailable: int) -> dict[str, int]:
    """The next replicas of each old ReplicaSet (by name) that changes."""
    everything = [*old, *([new] if new else [])]
    least = replicas - unavailable
    new_unavailable = _desired_replicas(new) - _available_replicas(new) if new else 0
    spare = sum(map(_desired_replicas, everything)) - least - max(new_unavailable, 0)
    spare_available = sum(map(_available_replicas, everything)) - least
    plan: dict[str, int] = {}
    for one in sorted(old, key=lambda record: record.object["metadata"]["creationTimestamp"]):
        target = _desired_replicas(one)
        broken = min(max(target - _available_replicas(one), 0), max(spare, 0))
        healthy = min(target - broken, max(spare - broken, 0), max(spare_available, 0))
        spare -= broken + healthy
        spare_available -= healthy
        if broken + healthy:
            plan[one.name] = target - broken - healthy
    return plan


class DeploymentController:
    """Rolls Deployments out: makes a ReplicaSet for each template, and scales it up as others are scaled down."""

    def __init__(self, registry: Registry, monotonic: Callable[[], float]) -> None:
        self._registry = registry
        self._sets = OwnerIndex(registry.store, REPLICA_SETS)
        self._queue: WorkQueue[OwnerKey] = WorkQueue("deployments", self._sync_deployment, monotonic)
        self.queues = (self._queue,)
        self._ref_manager = ControllerRefManager(
            registry, DEPLOYMENTS, self._sets, self._queue, lambda owner, child: True
        )
        self._recorder = EventRecorder(registry, "deployment-controller")
        registry.store.listen(DEPLOYMENTS, queue_written(self._queue))
        self._sets.queue_owner_on_change(DEPLOYMENTS.kind, self._queue)

    def _sync_deployment(self, key: OwnerKey) -> None:
        """Take the next step of a rollout: make the current ReplicaSet, scale all, and write the status.

        A paused Deployment is scaled, but not rolled out.
        """
        record = self._registry.store.get(DEPLOYMENTS, *key)
        if record is None or "deletionTimestamp" in record.object["metadata"]:
            return
        self._ref_manager.claim_objects(record)
        template = _without_template_hash(record.object["spec"]["template"])
        new = self._current_replica_set(record, template)
        paused = bool(record.object["spec"].get("paused"))
        if new is None and not paused:
            new = self._create_replica_set(record, template)
        if new is not None and not paused:
            self._write_highest_revision(record, new)
        self._scale_replica_sets(record, template)
        self._delete_oldest_replica_sets(record, template)
        self._update_status(key, template)

    def _current_replica_set(self, deployment: Record, template: Object) -> Record | None:
        sets = self._sets.of(deployment.uid)
        return next((one for one in sets if _without_template_hash(one.object["spec"]["template"]) == template), None)

    def _old_replica_sets(self, deployment: Record, template: Object) -> list[Record]:
        new = self._current_replica_set(deployment, template)
        return [one for one in self._sets.of(deployment.uid) if new is None or one.name != new.name]

    def _create_replica_set(self, deployment: Record, template: Object) -> Record:
        """Create the ReplicaSet of the template, with 0 replicas; if the name is another's, with a new hash.

        Raises: ApiError, after an event about it.
        """
        collisions = int((deployment.object.get("status") or {}).get("collisionCount", 0))
        while True:
            body = self._replica_set_body(deployment, template, template_hash(template, collisions))
            try:
                created = self._registry.create(REPLICA_SETS, deployment.namespace, body)
            except api_errors.ApiError as error:
                if error.reason != "AlreadyExists":
                    name = body["metadata"]["name"]
                    about = f'Failed to create new replica set "{name}": {error}'
                    self._recorder.warning(deployment.object, "ReplicaSetCreateError", about)
                    raise
                collisions += 1  # another owner's ReplicaSet has the name
                self._count_collisions(deployment, collisions)
            else:
                return created

    def _count_collisions(self, deployment: Record, collisions: int) -> None:
        """Write how often the name of a new ReplicaSet was taken; it goes into the next hash."""
        fresh = self._registry.get(DEPLOYMENTS, *deployment.key)
        status = {**(fresh.object.get("status") or {}), "collisionCount": collisions}
        self._registry.update_fields(DEPLOYMENTS, fresh, status=status)

    @staticmethod
    def _replica_set_body(deployment: Record, template: Object, suffix: str) -> Object:
        """Make the body of a ReplicaSet whose name, selector and pods have the template's hash."""
        labels = {**(template["metadata"].get("labels") or {}), _HASH: suffix}
        spec = deployment.object["spec"]
        selector = {**spec["selector"], "matchLabels": {**(spec["selector"].get("matchLabels") or {}), _HASH: suffix}}
        return {
            "metadata": {
                "name": f"{deployment.name}-{suffix}",
                "labels": labels,
                "ownerReferences": [owner_reference(deployment)],
            },
            "spec": {
                "replicas": 0,
                "selector": selector,
                "template": {**template, "metadata": {**template["metadata"], "labels": labels}},
            },
        }

    def _write_highest_revision(self, deployment: Record, new: Record) -> None:
        """Give the current ReplicaSet and the Deployment the highest revision."""
        others = [_revision_of(one.object) for one in self._sets.of(deployment.uid) if one.name != new.name]
        revision = max([*others, 0]) + 1
        if _revision_of(new.object) < revision:
            self._annotate_revision(REPLICA_SETS, new, revision)
        revision = max(revision, _revision_of(new.object))
        if _revision_of(deployment.object) != revision:
            self._annotate_revision(DEPLOYMENTS, deployment, revision)

    def _annotate_revision(self, resource: Resource, record: Record, revision: int) -> None:
        """Write the revision into an object's annotations."""
        fresh = self._registry.get(resource, *record.key)
        annotations = {**(fresh.object["metadata"].get("annotations") or {}), _REVISION: str(revision)}
        self._registry.update_metadata(resource, fresh, "annotations", annotations)

    def _scale_replica_sets(self, deployment: Record, template: Object) -> None:
        """Resize the ReplicaSets by one step of the strategy; later events cause the next steps.

        Recreate grows the new one once no pod of old ones is left. Without a ReplicaSet for the template nothing
        changes.
        """
        spec = deployment.object["spec"]
        replicas = spec["replicas"]
        new, old = self._current_replica_set(deployment, template), self._old_replica_sets(deployment, template)
        if new is None:
            return
        if spec["strategy"]["type"] == "Recreate" and any(map(_desired_replicas, old)):
            for one in old:
                self._resize_replica_set(deployment, one, 0)
            return
        if spec["strategy"]["type"] == "Recreate":
            if not any(map(_pods_with_terminating, old)):
                self._resize_replica_set(deployment, new, replicas)
            return
        surge, unavailable = rolling_update_bounds(spec)
        room = replicas + surge - sum(map(_desired_replicas, old)) - _desired_replicas(new)
        grown = min(replicas, _desired_replicas(new) + max(room, 0))
        self._resize_replica_set(deployment, new, grown)
        for name, target in scale_down_plan(
            old, self._current_replica_set(deployment, template), replicas, unavailable
        ).items():
            self._resize_replica_set(deployment, next(one for one in old if one.name == name), target)

    def _resize_replica_set(self, deployment: Record, record: Record, replicas: int) -> None:
        """Scale a ReplicaSet, with an event about it; nothing if it has so many replicas."""
        fresh = self._registry.get(REPLICA_SETS, *record.key)
        if (before := fresh.object["spec"]["replicas"]) != replicas:
            way = "up" if replicas > before else "down"
            message = f"Scaled {way} replica set {record.name} from {before} to {replicas}"
            self._recorder.normal(deployment.object, "ScalingReplicaSet", message)
            spec = {**fresh.object["spec"], "replicas": replicas}
            self._registry.update_fields(REPLICA_SETS, fresh, spec=spec)

    def _delete_oldest_replica_sets(self, deployment: Record, template: Object) -> None:
        """Delete old ReplicaSets without pods beyond the history limit, the oldest first."""
        limit = deployment.object["spec"]["revisionHistoryLimit"]
        idle = [
            one
            for one in self._old_replica_sets(deployment, template)
            if not _desired_replicas(one) and not (one.object.get("status") or {}).get("replicas")
        ]
        idle.sort(key=lambda one: _revision_of(one.object))
        for one in idle[: max(len(idle) - limit, 0)]:
            self._registry.delete(REPLICA_SETS, *one.key)

    def _update_status(self, key: OwnerKey, template: Object) -> None:
        """Write the counts of a Deployment's ReplicaSets together, and its conditions."""
        record = self._registry.get(DEPLOYMENTS, *key)
        new = self._current_replica_set(record, template)
        statuses = [one.object.get("status") or {} for one in self._sets.of(record.uid)]
        updated = int(((new.object.get("status") or {}) if new else {}).get("replicas", 0))
        total, ready, available = (
            sum(int(one.get(part, 0)) for one in statuses)
            for part in ("replicas", "readyReplicas", "availableReplicas")
        )
        counts = {
            "replicas": total,
            "updatedReplicas": updated,
            "readyReplicas": ready,
            "availableReplicas": available,
            "unavailableReplicas": max(record.object["spec"]["replicas"] - available, 0),
        }
        status: Object = {"observedGeneration": record.object["metadata"]["generation"]}
        status |= {name: count for name, count in counts.items() if count}
        if collisions := (record.object.get("status") or {}).get("collisionCount"):
            status["collisionCount"] = collisions
        status["conditions"] = self._status_conditions(record, new, counts)
        self._registry.update_fields(DEPLOYMENTS, record, status=status)

    def _status_conditions(self, record: Record, new: Record | None, counts: dict[str, int]) -> list[Object]:
        """Return the conditions Available and Progressing, with their times where they change."""
        spec, now = record.object["spec"], self._registry.clock_and_ids.now()
        conditions = (record.object.get("status") or {}).get("conditions")
        enough = counts["availableReplicas"] >= spec["replicas"] - rolling_update_bounds(spec)[1]
        available: Object = {"type": "Available", "status": "True" if enough else "False"}
        available["reason"] = "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable"
        available["message"] = f"Deployment {'has' if enough else 'does not have'} minimum availability."
        complete = counts["updatedReplicas"] == counts["replicas"] == counts["availableReplicas"] == spec["replicas"]
        name = new.name if new else ""
        progressing: Object = {"type": "Progressing", "status": "True"}
        progressing["reason"] = "NewReplicaSetAvailable" if complete else "ReplicaSetUpdated"
        outcome = "has successfully progressed" if complete else "is progressing"
        progressing["message"] = f'ReplicaSet "{name}" {outcome}.'
        for condition in (available, progressing):
            old: Object = next((one for one in conditions or () if one["type"] == condition["type"]), {})
            same = all(old.get(part) == condition[part] for part in ("status", "reason", "message"))
            condition["lastUpdateTime"] = old["lastUpdateTime"] if same else now
            conditions = with_condition(conditions, condition, now)
        return conditions or []
