"""Jobs: creates pods until enough have succeeded or too many have failed.

The count of a finished pod is recorded by its uid, so that deleting finished pods does not run them again.

Source: k8s.io/kubernetes, pkg/controller/job.

Also change: internal/trireme/simulation/submission/workload_pods.py,
internal/trireme_kube/embedded/controllers/stateful_sets.py (pods that controllers make).
Also change: internal/trireme_kube/embedded/controllers/replica_sets.py,
internal/trireme_kube/embedded/controllers/daemon_sets.py (pods of controllers).

Tests: tests/unit/embedded/controllers/test_workloads.py.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from trireme_kube.embedded.api.resources import BY_KEY, Object
from trireme_kube.embedded.api.timestamps import parse_timestamp
from trireme_kube.embedded.controllers.controller_ref_manager import ControllerRefManager
from trireme_kube.embedded.controllers.owner_index import OwnerIndex, OwnerKey, is_active, pod_from_template
from trireme_kube.embedded.controllers.pod_control import PodControl
from trireme_kube.embedded.controllers.work_queue import WorkQueue
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.registry.subresources import pod_ready, with_condition
from trireme_kube.embedded.storage.store import DELETED, Event, Record

JOBS = BY_KEY["jobs.batch"]
INDEX = "batch.kubernetes.io/job-completion-index"
_AT_ONCE = 50
_BACKOFF_SECONDS, _BACKOFF_LIMIT_SECONDS = 1.0, 60.0


@dataclass(slots=True)
class _FinishedPods:
    """The counts of a Job's finished pods, by uid."""

    succeeded: dict[str, str] = field(default_factory=dict)
    """Uid, and completion index or empty."""
    failed: dict[str, str] = field(default_factory=dict)
    retry_at: float = 0.0


def index_text(indexes: set[int]) -> str:
    """Indexes as ranges: `0-2,5`."""
    parts: list[str] = []
    ordered = sorted(indexes)
    start = 0
    for position, index in enumerate(ordered):
        if position + 1 < len(ordered) and ordered[position + 1] == index + 1:
            continue
        first = ordered[start]
        parts.append(str(first) if first == index else f"{first}-{index}")
        start = position + 1
    return ",".join(parts)


def job_outcome(job: Object) -> str:
    """Complete or Failed; empty while it runs."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    ended = (one["type"] for one in conditions if one["type"] in ("Complete", "Failed") and one["status"] == "True")
    return next(ended, "")


def _completion_index(pod: Object) -> str:
    """The pod's completion index in an indexed Job; empty if it has none."""
    return str((pod["metadata"].get("annotations") or {}).get(INDEX, ""))


class JobController:
    """Runs Jobs."""

    def __init__(self, registry: Registry, pods: OwnerIndex, monotonic: Callable[[], float]) -> None:
        self._registry = registry
        self._pods = pods
        self._monotonic = monotonic
        self._tallies: dict[str, _FinishedPods] = {}
        self._queue: WorkQueue[OwnerKey] = WorkQueue("jobs", self._sync_job, monotonic)
        self.queues = (self._queue,)
        self._ref_manager = ControllerRefManager(registry, JOBS, pods, self._queue, lambda owner, pod: True)
        self._control = PodControl(registry, "job-controller")
        registry.store.listen(JOBS, self._on_job)
        pods.queue_owner_on_change(JOBS.kind, self._queue)

    def _on_job(self, event: Event) -> None:
        """Queue a Job that was created or changed; forget the counts of a deleted one."""
        if event.type == DELETED:
            self._tallies.pop(event.record.uid, None)
        else:
            self._queue.add(event.record.key)

    def _sync_job(self, key: OwnerKey) -> None:
        """Create or delete pods of a Job, find out whether it is complete or failed, and write its status."""
        record = self._registry.store.get(JOBS, *key)
        if record is None or "deletionTimestamp" in record.object["metadata"]:
            return
        if job_outcome(record.object):
            self._delete_after_ttl(record)
            return
        self._ref_manager.claim_objects(record)
        tally = self._count_finished_pods(record)
        spec = record.object["spec"]
        active = [pod for pod in self._pods.of(record.uid) if is_active(pod.object)]
        succeeded, completions = self._count_succeeded(record, tally), spec.get("completions")
        failed = len(tally.failed) > spec["backoffLimit"]
        complete = succeeded >= completions if completions is not None else bool(succeeded) and not active
        if failed or complete or spec.get("suspend"):
            for pod in active:
                self._control.delete(record, pod)
        else:
            self._scale_pods(key, record, tally, active, succeeded)
        self._update_status(record, tally, "Failed" if failed else "Complete" if complete else "")

    def _count_finished_pods(self, record: Record) -> _FinishedPods:
        """Count the Job's pods that succeeded and failed, also those deleted since; a failure sets the back-off."""
        tally = self._tallies.setdefault(record.uid, _FinishedPods())
        for pod in self._pods.of(record.uid):
            phase = (pod.object.get("status") or {}).get("phase")
            if phase == "Succeeded":
                tally.succeeded[pod.uid] = _completion_index(pod.object)
            elif phase == "Failed" and pod.uid not in tally.failed:
                tally.failed[pod.uid] = _completion_index(pod.object)
                backoff = _BACKOFF_SECONDS * 2 ** (len(tally.failed) - 1)
                tally.retry_at = self._monotonic() + min(backoff, _BACKOFF_LIMIT_SECONDS)
        return tally

    @staticmethod
    def _count_succeeded(record: Record, tally: _FinishedPods) -> int:
        """Return how many completions succeeded: of an indexed Job each index once."""
        if record.object["spec"].get("completionMode") == "Indexed":
            return len(set(tally.succeeded.values()))
        return len(tally.succeeded)

    def _scale_pods(
        self, key: OwnerKey, record: Record, tally: _FinishedPods, active: list[Record], succeeded: int
    ) -> None:
        """Delete surplus pods at once, or create missing ones: `_AT_ONCE` now, and none before the back-off ends."""
        spec = record.object["spec"]
        target = spec["parallelism"]
        if spec.get("completions") is not None:
            target = min(target, spec["completions"] - succeeded)
        elif succeeded:
            target = len(active)  # without completions, the first success ends the creation of pods
        missing = target - len(active)
        for pod in active[: max(-missing, 0)]:
            self._control.delete(record, pod)
        wait = tally.retry_at - self._monotonic()
        if missing > 0 and wait > 0:
            self._queue.add(key, wait)
            return
        indexes = self._missing_indexes(record, tally, active)
        for position in range(min(missing, _AT_ONCE)):
            self._create_pod(record, indexes[position] if indexes else None)
        if missing > _AT_ONCE:
            self._queue.add(key)

    @staticmethod
    def _missing_indexes(record: Record, tally: _FinishedPods, active: list[Record]) -> list[int]:
        """Return the indexes without a pod that runs or succeeded; none for a Job without indexes."""
        spec = record.object["spec"]
        if spec.get("completionMode") != "Indexed":
            return []
        used = set(tally.succeeded.values()) | {_completion_index(pod.object) for pod in active}
        return [index for index in range(spec["completions"]) if str(index) not in used]

    def _create_pod(self, record: Record, index: int | None) -> None:
        """Create a pod of the Job; with an index, which its name, labels and environment have."""
        template = record.object["spec"]["template"]
        if index is None:
            self._control.create(record, pod_from_template(template, record, generate_name=f"{record.name}-"))
            return
        pod = pod_from_template(template, record, generate_name=f"{record.name}-{index}-")
        for part in ("annotations", "labels"):
            pod["metadata"].setdefault(part, {})[INDEX] = str(index)
        for container in pod["spec"]["containers"]:
            path = f"metadata.labels['{INDEX}']"
            variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": path}}}
            container.setdefault("env", []).append(variable)
        self._control.create(record, pod)

    def _update_status(self, record: Record, tally: _FinishedPods, outcome: str) -> None:
        """Write the counts and, with an `outcome` of Complete or Failed, the conditions and the time of completion."""
        record = self._registry.get(JOBS, *record.key)
        job, now = record.object, self._registry.clock_and_ids.now()
        active = [pod.object for pod in self._pods.of(record.uid) if is_active(pod.object)]
        before = job.get("status") or {}
        suspended = bool(job["spec"].get("suspend"))
        counts = {
            "active": len(active),
            "ready": sum(pod_ready(pod) for pod in active),
            "succeeded": self._count_succeeded(record, tally),
            "failed": len(tally.failed),
            "terminating": 0,
        }
        status: Object = {name: count for name, count in counts.items() if count or name in ("ready", "terminating")}
        if not suspended:
            status["startTime"] = before.get("startTime") or now
        if job["spec"].get("completionMode") == "Indexed" and tally.succeeded:
            status["completedIndexes"] = index_text({int(one) for one in tally.succeeded.values()})
        status["uncountedTerminatedPods"] = {}
        conditions = before.get("conditions")
        for condition in _outcome_conditions(outcome, suspended, bool(conditions)):
            self._record_condition_event(job, before, condition)
            if not _has_condition(conditions, condition):
                conditions = with_condition(conditions, {"lastProbeTime": now, **condition}, now)
        if conditions:
            status["conditions"] = conditions
        if outcome == "Complete":
            status["completionTime"] = before.get("completionTime") or now
        self._registry.update_fields(JOBS, record, status=status)

    def _record_condition_event(self, job: Object, before: Object, condition: Object) -> None:
        """Record an event about a changed condition."""
        kind = condition["type"]
        if kind == "Suspended" and any(
            (one["type"], one["status"]) == (kind, condition["status"]) for one in before.get("conditions") or ()
        ):
            return
        recorder = self._control.recorder
        if kind == "Complete":
            recorder.normal(job, "Completed", "Job completed")
        elif kind == "Failed":
            recorder.warning(job, condition["reason"], condition["message"])
        elif kind == "Suspended":
            recorder.normal(job, "Suspended" if condition["status"] == "True" else "Resumed", condition["message"])

    def _delete_after_ttl(self, record: Record) -> None:
        """Delete a finished Job after its ttlSecondsAfterFinished."""
        seconds = record.object["spec"].get("ttlSecondsAfterFinished")
        if seconds is None:
            return
        conditions = record.object["status"]["conditions"]
        ended = max(parse_timestamp(one["lastTransitionTime"]) for one in conditions)
        wait = ended + seconds - self._registry.clock_and_ids.clock()
        if wait > 0:
            self._queue.add(record.key, wait)
        else:
            self._registry.delete(JOBS, *record.key, {"propagationPolicy": "Background"})


def _has_condition(conditions: list[Object] | None, condition: Object) -> bool:
    return any(condition.items() <= one.items() for one in conditions or ())


def _outcome_conditions(outcome: str, suspended: bool, had_any: bool) -> list[Object]:
    """Return the conditions to set for an outcome or a suspension; `had_any`: the Job was suspended before."""
    if outcome == "Complete":
        why = {"reason": "CompletionsReached", "message": "Reached expected number of succeeded pods"}
        return [{"type": kind, "status": "True", **why} for kind in ("SuccessCriteriaMet", "Complete")]
    if outcome == "Failed":
        why = {"reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit"}
        return [{"type": kind, "status": "True", **why} for kind in ("FailureTarget", "Failed")]
    if suspended:
        return [{"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": "Job suspended"}]
    if had_any:
        return [{"type": "Suspended", "status": "False", "reason": "JobResumed", "message": "Job resumed"}]
    return []
