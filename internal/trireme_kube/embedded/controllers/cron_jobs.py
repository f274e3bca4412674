"""CronJobs: a Job whenever the schedule says so.

Source: k8s.io/kubernetes, pkg/controller/cronjob.
"""

from collections.abc import Callable

import orjson

from trireme_kube.embedded.api import api_errors, cron
from trireme_kube.embedded.api.resources import BY_KEY, Object
from trireme_kube.embedded.api.timestamps import parse_timestamp, timestamp
from trireme_kube.embedded.controllers.event_recorder import EventRecorder
from trireme_kube.embedded.controllers.jobs import JOBS, job_outcome
from trireme_kube.embedded.controllers.owner_index import OwnerIndex, OwnerKey, owner_reference
from trireme_kube.embedded.controllers.work_queue import WorkQueue, queue_written
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.storage.store import Record

CRON_JOBS = BY_KEY["cronjobs.batch"]
SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class CronJobController:
    """Starts the Jobs of CronJobs when they are due, and deletes old ones."""

    def __init__(self, registry: Registry, monotonic: Callable[[], float]) -> None:
        self._registry = registry
        self._jobs = OwnerIndex(registry.store, JOBS)
        self._recorder = EventRecorder(registry, "cronjob-controller")
        self._queue: WorkQueue[OwnerKey] = WorkQueue("cronjobs", self._sync_cron_job, monotonic)
        self.queues = (self._queue,)
        registry.store.listen(CRON_JOBS, queue_written(self._queue))
        self._jobs.queue_owner_on_change(CRON_JOBS.kind, self._queue)

    def _sync_cron_job(self, key: OwnerKey) -> None:
        """Start what is due of a CronJob, delete old Jobs, and write its status; a suspended one starts nothing."""
        record = self._registry.store.get(CRON_JOBS, *key)
        if record is None or "deletionTimestamp" in record.object["metadata"]:
            return
        self._delete_old_jobs(record)
        spec = record.object["spec"]
        last = (record.object.get("status") or {}).get("lastScheduleTime")
        if not spec.get("suspend"):
            try:
                schedule = cron.parse(spec["schedule"], cron.zone_of(spec.get("timeZone")))
            except cron.ScheduleError as error:  # stored before the text was checked
                about = f'unparseable schedule: "{spec["schedule"]}" : {error}'
                self._recorder.warning(record.object, "UnparseableSchedule", about)
                return
            last = self._start_due_job(record, schedule) or last
        self._update_status(key, last)

    def _owned_jobs(self, record: Record) -> list[Record]:
        """Return the CronJob's Jobs, the oldest first."""
        return sorted(
            self._jobs.of(record.uid), key=lambda one: (one.object["metadata"]["creationTimestamp"], one.name)
        )

    def _active_jobs(self, record: Record) -> list[Record]:
        """Return the CronJob's Jobs that have not ended."""
        return [one for one in self._owned_jobs(record) if not job_outcome(one.object)]

    def _start_due_job(self, record: Record, schedule: cron.Schedule) -> str | None:
        """Start what is due; return the time that it was due at."""
        now = self._registry.clock_and_ids.clock()
        due = self._latest_due_time(record, schedule, now)
        following = schedule.next(now)
        if following is not None:
            self._queue.add(record.key, following - now)
        if due is None:
            return None
        spec = record.object["spec"]
        deadline = spec.get("startingDeadlineSeconds")
        if deadline is not None and due + deadline < now:
            about = f"Missed scheduled time to start a job: {timestamp(due)}"
            self._recorder.warning(record.object, "MissSchedule", about)
            return None
        active = self._active_jobs(record)
        if spec["concurrencyPolicy"] == "Forbid" and active:
            about = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self._recorder.normal(record.object, "JobAlreadyActive", about)
            return None
        if spec["concurrencyPolicy"] == "Replace":
            for job in active:
                self._delete_job(record, job)
        self._create_job(record, due)
        return timestamp(due)

    def _latest_due_time(self, record: Record, schedule: cron.Schedule, now: float) -> float | None:
        """The latest due time without a run."""
        earliest = parse_timestamp(record.object["metadata"]["creationTimestamp"])
        if last := (record.object.get("status") or {}).get("lastScheduleTime"):
            earliest = parse_timestamp(last)
        deadline = record.object["spec"].get("startingDeadlineSeconds")
        if deadline is not None:
            earliest = max(earliest, now - deadline)
        due, candidate = None, schedule.next(earliest)
        while candidate is not None and candidate <= now:
            due, candidate = candidate, schedule.next(candidate)
        return due

    def _create_job(self, record: Record, due: float) -> None:
        """Create the Job of a due time. Its name has the minute, so that no time starts two Jobs."""
        template = orjson.loads(orjson.dumps(record.object["spec"]["jobTemplate"]))
        metadata = template.get("metadata") or {}
        annotations = {**(metadata.get("annotations") or {}), SCHEDULED_AT: timestamp(due)}
        body: Object = {
            "metadata": {
                "name": f"{record.name}-{int(due) // 60}",
                "labels": metadata.get("labels") or {},
                "annotations": annotations,
                "ownerReferences": [owner_reference(record)],
            },
            "spec": template["spec"],
        }
        try:
            job = self._registry.create(JOBS, record.namespace, body)
        except api_errors.ApiError as error:
            if error.reason == "AlreadyExists":
                return  # started before its time was recorded
            self._recorder.warning(record.object, "FailedCreate", f"Error creating job: {error}")
            raise
        self._recorder.normal(record.object, "SuccessfulCreate", f"Created job {job.name}")

    def _delete_job(self, record: Record, job: Record) -> None:
        self._registry.delete(JOBS, *job.key, {"propagationPolicy": "Background"})
        self._recorder.normal(record.object, "SuccessfulDelete", f"Deleted job {job.name}")

    def _delete_old_jobs(self, record: Record) -> None:
        """Delete the oldest finished Jobs beyond the limits."""
        spec = record.object["spec"]
        finished = {
            "Complete": spec.get("successfulJobsHistoryLimit"),
            "Failed": spec.get("failedJobsHistoryLimit"),
        }
        for outcome, limit in finished.items():
            jobs = [one for one in self._owned_jobs(record) if job_outcome(one.object) == outcome]
            for job in jobs[: max(len(jobs) - limit, 0)] if limit is not None else ():
                self._delete_job(record, job)

    def _update_status(self, key: OwnerKey, last: str | None) -> None:
        """Write the active Jobs and the times of a CronJob; `last`: when the last one was due, None: never."""
        record = self._registry.get(CRON_JOBS, *key)
        before = record.object.get("status") or {}
        active = self._active_jobs(record)
        status: Object = {}
        if active:
            status["active"] = [_job_reference(job) for job in active]
        if last:
            status["lastScheduleTime"] = last
        ended = [one.object["status"].get("completionTime") for one in self._owned_jobs(record) if one not in active]
        times = [one for one in (*ended, before.get("lastSuccessfulTime")) if one]
        if times:
            status["lastSuccessfulTime"] = max(times)
        self._record_ended_jobs(record, before)
        self._registry.update_fields(CRON_JOBS, record, status=status)

    def _record_ended_jobs(self, record: Record, before: Object) -> None:
        """Record an event for each Job that was active in the status `before` and has ended."""
        for reference in before.get("active") or ():
            job = self._registry.store.get(JOBS, record.namespace, reference["name"])
            if job is not None and (outcome := job_outcome(job.object)):
                about = f"Saw completed job: {job.name}, condition: {outcome}"
                self._recorder.normal(record.object, "SawCompletedJob", about)


def _job_reference(job: Record) -> Object:
    """Return the reference to a Job in a CronJob's status."""
    return {
        "kind": JOBS.kind,
        "namespace": job.namespace,
        "name": job.name,
        "uid": job.uid,
        "apiVersion": JOBS.api_version,
        "resourceVersion": str(job.revision),
    }
