"""Reports how a pod's attempt ends: the pod is requeued, with an event and a condition, or it is bound, with an event.

Source: pkg/scheduler/schedule_one.go handleSchedulingFailure.

Also change: tools/bench/limit/main.go, internal/trireme_kube/client/events/event_recorder.py,
internal/trireme/framework/pod_conditions.py (how the scheduler's writes look).
Also change: tests/helpers/pod_group_cluster.py (the fakes of a cycle).

Tests: tests/unit/scheduling/test_attempt_reporter.py, tests/unit/scheduling/test_assembly.py.
"""

import logging
from collections.abc import Callable, Iterable, Sequence

from trireme.cache import pod_projection
from trireme.framework import cluster_event, pod_conditions, status
from trireme.queueing import pending_pod, queued_entity, queued_pod, remote_calls, scheduling_queue
from trireme.scheduling import condition_message, fit_error, ports, status_outbox
from trireme.scheduling.failure import UNSCHEDULABLE_REASON, Failure, LastFailure, RefusedPlacement
from trireme.v1 import bind_pb2, core_pb2, cycle_pb2
from trireme_kube.apimachinery import json_values
from trireme_kube.client.events.event_recorder import NORMAL, WARNING
from trireme_kube.client.events.event_series import ObjectReference, pod_reference
from trireme_kube.componentbase.logs import klog

log = logging.getLogger(__name__)

_NO_FAILURE = LastFailure()


class AttemptReporter:
    """Reports how attempts end: to the queue, as events and, through `outbox`, as conditions."""

    def __init__(
        self,
        queue: scheduling_queue.SchedulingQueue,
        events: ports.Events,
        *,
        pending: Callable[[str], pending_pod.PendingPod | None],
        execute: Callable[[remote_calls.Instructions], None],
        outbox: status_outbox.StatusOutbox,
        now: Callable[[], float],
        wall: Callable[[], float],
        observer: ports.Observer,
        json_conditions: bool = False,
    ) -> None:
        """`json_conditions`: messages of conditions are JSON, with the codes of reasons."""
        self._json_conditions = json_conditions
        self._queue = queue
        self._events = events
        self._pending = pending
        self._execute = execute
        self._outbox = outbox
        self._now = now
        self._wall = wall
        # The condition sent last, by UID of the pod: reason, message, since (Unix s).
        self._sent: dict[str, tuple[str, str, int]] = {}
        # UIDs of pods whose condition was sent last and not written.
        self._failed: set[str] = set()
        self._refused: dict[str, RefusedPlacement] = {}  # by UID, of its last attempt
        self._failures: dict[str, LastFailure] = {}  # by UID, of its last attempt
        # The failure that was reported last, what is kept of it, and the condition's message: many pods share one.
        self._reported: tuple[Failure | None, LastFailure, str] = None, _NO_FAILURE, ""
        self._expected: dict[str, str] = {}  # UID → node, as written into the pod's status
        self._observer = observer
        outbox.on_failed = self._on_write_failed

    def report_failure(self, pod: queued_pod.QueuedPodInfo, failure: Failure) -> None:
        """Requeue a pod whose attempt failed, record an event and send its condition.

        A failure with other reasons than Unschedulable counts as an error. A pod that is deleted, or has a node by now,
        gets neither event nor condition.
        """
        refused = failure.reason == UNSCHEDULABLE_REASON
        self._observer.on_attempt_failed(
            pod, ports.RESULT_UNSCHEDULABLE if refused else ports.RESULT_ERROR, failure.message, self._now()
        )
        _log_failure(pod.key, failure)
        uid = pod.uid
        pending = self._pending(uid)
        self._execute(
            self._queue.requeue(
                pod,
                self._now(),
                rejectors=failure.rejectors,
                pending_plugins=failure.pending_plugins,
                nominated_node=failure.nominated_node,
                had_node=failure.placement is not None,
            )
        )
        if klog.enabled(log, 3):
            _log_queue_of_requeued_pod(pod)
        if failure.placement is None or pending is None:
            self._refused.pop(uid, None)
        else:
            self._refused[uid] = failure.placement
        if pending is None:
            self._expected.pop(uid, None)
            self._failures.pop(uid, None)
            return
        if self._reported[0] is not failure:
            self._reported = failure, failure.to_keep(), condition_message.of(failure, self._json_conditions)
        _, self._failures[uid], message = self._reported
        parsed = pending.parsed
        regarding = _object_reference(parsed)
        self._events.record(regarding, WARNING, "FailedScheduling", "Scheduling", failure.message, pod.record.profile)
        self._send_condition_if_changed(pending, failure, message, pod.record.priority)

    def report_failures(self, pods: Iterable[queued_pod.QueuedPodInfo], failure: Failure) -> None:
        """Report the same failure for each of the pods, as `report_failure` does."""
        for pod in pods:
            self.report_failure(pod, failure)

    def refused_placement(self, uid: str) -> RefusedPlacement | None:
        """Who refused the node that the pod's last attempt had chosen; None: that attempt failed in another way."""
        return self._refused.get(uid)

    def last_failure(self, uid: str) -> str:
        """The message of the pod's last failed attempt, written or not; empty: none of this frontend's failed."""
        return self._failures.get(uid, _NO_FAILURE).message

    def last_statuses(self, uid: str) -> Sequence[tuple[status.Status, int]]:
        """The statuses of the pod's last failed attempt, with how many nodes have each, as `Failure.statuses` has them.

        Some at most; empty: as `last_failure`.
        """
        return self._failures.get(uid, _NO_FAILURE).statuses

    def note_nomination_written(self, pod: queued_pod.QueuedPodInfo, node_name: str) -> None:
        """Remember that the pod's status names the node by now, whether or not its object shows it."""
        self._expected[pod.uid] = node_name

    def report_devices_pending(self, pod: queued_pod.QueuedPodInfo, node_name: str) -> None:
        """Record an event: the pod waits for its devices to be prepared for the node."""
        pending = pod.record.pod
        text = f"waiting for binding conditions for device on node {node_name}"
        regarding = _object_reference(pending.parsed)
        self._events.record(regarding, NORMAL, "BindingConditionsPending", "Scheduling", text, pod.record.profile)

    def report_skipped(self, pod: queued_pod.QueuedPodInfo) -> None:
        """End the attempt of a pod that is not tried because it is being deleted; an event says so."""
        self._queue.done(pod.uid, self._now())
        pending = pod.record.pod if pod.record.pod.has_deferred_resize else self._pending(pod.uid)
        if pending is not None:
            text = f"skip schedule deleting pod: {pending.parsed.key}"
            regarding = _object_reference(pending.parsed)
            self._events.record(regarding, WARNING, "FailedScheduling", "Scheduling", text, pod.record.profile)

    def has_unwritten(self, uid: str) -> bool:
        """Whether the condition or nomination of an earlier attempt of the pod is still to be written."""
        return self._outbox.has_unwritten(uid)

    async def wait_until_written(self, uid: str) -> None:
        """Return when condition and nomination of the pod's earlier attempts are written."""
        await self._outbox.wait_until_written(uid)

    def report_bound(self, pod: queued_pod.QueuedPodInfo, node_name: str, node_counts: tuple[int, int]) -> None:
        """Record that the pod was bound to the node: metric, log, event Scheduled; forget its earlier failures.

        `node_counts`: the number of nodes, and of feasible ones, for the log.
        """
        self._observer.on_pod_bound(pod, self._now())
        if klog.enabled(log, 2):
            evaluated, feasible = node_counts
            klog.info(
                log,
                2,
                "Successfully bound pod to node",
                pod=klog.Ref(pod.key),
                node=node_name,
                evaluatedNodes=evaluated,
                feasibleNodes=feasible,
            )
        self.forget(pod.uid)
        pending = pod.record.pod
        self._events.record_scheduled(_object_reference(pending.parsed), node_name, pod.record.profile)

    def forget(self, uid: str) -> None:
        """Drop what is known of a pod that is deleted or bound: its attempts need no condition any more."""
        self._outbox.drop(uid)
        self._sent.pop(uid, None)
        self._refused.pop(uid, None)
        self._failures.pop(uid, None)
        self._failed.discard(uid)
        self._expected.pop(uid, None)

    def report_preempted(self, victim: ObjectReference, message: str, profile: str) -> None:
        """Record the event of a victim that is deleted to make room."""
        self._events.record(victim, NORMAL, "Preempted", "Preempting", message, profile)

    def report_not_preempted(
        self, pod: queued_entity.QueuedEntity, victim: ObjectReference, node_name: str, failure: str
    ) -> None:
        """Record an event: the victim could not be deleted for the pod.

        It regards the preemptor, or the victim if the preemptor is a group.
        """
        pending = self._pending(pod.uid)
        regarding = victim if pending is None else _object_reference(pending.parsed)
        text = f"cannot preempt pod {victim.namespace}/{victim.name} on node {node_name}: {failure}"
        self._events.record(regarding, WARNING, "PreemptionFailed", "Preempting", text, pod.record.profile)

    def _send_condition_if_changed(
        self, pending: pending_pod.PendingPod, failure: Failure, message: str, priority: int
    ) -> None:
        """Send the condition PodScheduled=False, and the nomination, if either differs from what was written last.

        Nothing is sent otherwise, unless the last write failed.

        The condition's time is that of the first failure, whatever its reason.
        """
        parsed = pending.parsed
        last = self._last_condition(parsed)
        nominated = failure.nominated_node
        written_node = self._expected.pop(parsed.uid, parsed.nominated_node)
        renominated = nominated is not None and nominated != written_node
        unchanged = last is not None and last[:2] == (failure.reason, message) and not renominated
        if unchanged and parsed.uid not in self._failed:
            return
        self._failed.discard(parsed.uid)
        since = last[2] if last is not None and last[2] else int(self._wall())
        self._sent[parsed.uid] = (failure.reason, message, since)
        condition = core_pb2.PodCondition(
            type=pod_conditions.POD_SCHEDULED,
            status="False",
            reason=failure.reason,
            message=message,
            observed_generation=parsed.generation,
        )
        condition.last_transition_time.seconds = since
        action = bind_pb2.Action(
            pod=cycle_pb2.PodIdentity(namespace=parsed.namespace, name=parsed.name, uid=parsed.uid),
            set_condition=bind_pb2.SetCondition(condition=condition),
        )
        if renominated and nominated is not None:
            action.set_condition.nominated_node_name = nominated
        if klog.enabled(log, 3):
            _log_condition(parsed.key, condition, nominated or "")
        self._outbox.send(action, priority)

    def _on_write_failed(self, uid: str) -> None:
        """Note that the pod's condition could not be written: the next failure sends one even if it says the same."""
        if uid in self._sent:
            self._failed.add(uid)

    def _last_condition(self, parsed: pod_projection.ParsedPod) -> tuple[str, str, int] | None:
        """Reason, message and time (Unix s) of the condition that was sent, or that the object shows; None: none."""
        sent = self._sent.get(parsed.uid)
        if sent is None and parsed.condition and parsed.condition[0] == "False":
            return parsed.condition[1], parsed.condition[2], _unix_seconds(parsed.condition[3])
        return sent


def _log_condition(key: str, condition: core_pb2.PodCondition, nominated_node: str) -> None:
    """Log the condition and nomination that are being written, as kube-scheduler does."""
    klog.info(
        log,
        3,
        "Updating pod condition and nominated node name",
        pod=klog.Ref(key),
        conditionType=condition.type,
        conditionStatus=condition.status,
        conditionReason=condition.reason,
        nominatedNodeName=nominated_node,
    )


def _log_failure(key: str, failure: Failure) -> None:
    """Log the failure in kube-scheduler's words: as an error, that there are no nodes, or that none fits."""
    pod = klog.Ref(key)
    if failure.reason != UNSCHEDULABLE_REASON:
        text = "Error scheduling pod; retrying"
        klog.error(log, text, err=failure.message, logger="UnhandledError", pod=pod)
    elif failure.message == fit_error.NO_NODES:
        klog.info(log, 2, "Unable to schedule pod; no nodes are registered to the cluster; waiting", pod=pod)
    else:
        klog.info(log, 2, "Unable to schedule pod; no fit; waiting", pod=pod, err=failure.message)


def _log_queue_of_requeued_pod(pod: queued_pod.QueuedPodInfo) -> None:
    """Log the structure of the queue that a pod whose attempt failed is in now, as kube-scheduler does."""
    klog.info(
        log,
        3,
        "Pod moved to an internal scheduling queue",
        **{
            "pod": klog.Ref(pod.key),
            "event": cluster_event.SCHEDULE_ATTEMPT_FAILURE,
            "queue": pod.state.label.capitalize(),
            "unschedulable plugins": {name: {} for name in sorted(pod.rejectors)},
        },
    )


def _object_reference(parsed: pod_projection.ParsedPod) -> ObjectReference:
    return pod_reference(parsed.namespace, parsed.name, parsed.uid, str(parsed.resource_version))


def _unix_seconds(text: str) -> int:
    """The time of a condition, in Unix seconds; 0 if it cannot be read."""
    try:
        return json_values.parse_time(text)[0]
    except ValueError:
        return 0
