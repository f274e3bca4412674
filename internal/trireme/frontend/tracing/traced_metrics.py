"""TracedMetrics: the frontend's metrics, which also begin and end the traces of pods, and name traces as exemplars.

Tests: tests/contract/test_trace_propagation.py, tests/unit/frontend/test_pod_traces.py.
"""

from collections.abc import Sequence

from trireme.config import commandline
from trireme.frontend import scheduler_metrics
from trireme.frontend.tracing import pod_traces
from trireme.queueing import queued_pod
from trireme.scheduling import ports
from trireme.tracing import spans
from trireme_kube.componentbase import clocks


def of_configuration(completed: commandline.CompletedConfig) -> scheduler_metrics.SchedulerMetrics:
    """The metrics for this configuration; while tracing is on, with the traces of pods."""
    if spans.recorder is None:
        return scheduler_metrics.of_configuration(completed)
    metrics = scheduler_metrics.of_configuration(completed, kind=TracedMetrics)
    assert isinstance(metrics, TracedMetrics)
    metrics.traces = pod_traces.PodTraces(spans.recorder, completed.trireme.tracing.slow_attempt.seconds, clocks.steady)
    return metrics


class TracedMetrics(scheduler_metrics.SchedulerMetrics):
    """Metrics that tell `traces` which pods are tried, and how attempts end."""

    traces: pod_traces.PodTraces

    def on_batch_popped(self, profile: str, pods: Sequence[queued_pod.QueuedPodInfo]) -> None:
        """A batch was taken from the queue."""
        super().on_batch_popped(profile, pods)
        self.traces.begin(pods)

    def on_group_popped(self, pods: Sequence[queued_pod.QueuedPodInfo]) -> None:
        """The members of a group are going to be tried."""
        self.traces.begin(pods)

    def on_attempt_failed(self, pod: queued_pod.QueuedPodInfo, result: str, message: str, now: float) -> None:
        """The pod's attempt ended without a node. `now` by the queue's clock."""
        super().on_attempt_failed(pod, result, message, now)
        if trace_id := self.traces.end(pod, now, message or result):
            self._note_trace(pod, result, trace_id, now)

    def on_pod_bound(self, pod: queued_pod.QueuedPodInfo, now: float) -> None:
        """The pod is bound. `now` by the queue's clock."""
        super().on_pod_bound(pod, now)
        if trace_id := self.traces.end(pod, now):
            self._note_trace(pod, scheduler_metrics.SCHEDULED, trace_id, now)
            if pod.initial_attempt_timestamp:
                seconds, label = now - pod.initial_attempt_timestamp, scheduler_metrics.attempts_label(pod)
                self.instruments.sli_seconds.note_trace(seconds, (label,), f"{trace_id:032x}", now)

    def _note_trace(self, pod: queued_pod.QueuedPodInfo, result: str, trace_id: int, now: float) -> None:
        """Name the trace as an exemplar of the attempt's duration."""
        values = (result, pod.record.profile)
        self.instruments.attempt_seconds.note_trace(now - pod.popped_at, values, f"{trace_id:032x}", now)


def traces_of(metrics: scheduler_metrics.SchedulerMetrics) -> pod_traces.PodTraces | None:
    """The traces of pods; None while tracing is off."""
    return metrics.traces if isinstance(metrics, TracedMetrics) else None


class TracedBindingLog(ports.BindingLog):
    """A binding log that also tells `traces` when pods are assumed, and how long they waited on Permit."""

    def __init__(self, log: ports.BindingLog, traces: pod_traces.PodTraces) -> None:
        self._log = log
        self._traces = traces

    def add_placed(self, class_key: ports.ClassKey, generation: int, pods: Sequence[tuple[str, int]]) -> None:
        """These pods (UID, slot) are assumed."""
        self._log.add_placed(class_key, generation, pods)
        self._traces.note_assumed(uid for uid, _ in pods)

    def add_bound(
        self,
        pod: queued_pod.QueuedPodInfo,
        now: float,
        *,
        permit_seconds: float,
        pre_bind_seconds: float,
        bind_seconds: float,
    ) -> None:
        """The pod is bound."""
        self._log.add_bound(
            pod,
            now,
            permit_seconds=permit_seconds,
            pre_bind_seconds=pre_bind_seconds,
            bind_seconds=bind_seconds,
        )
        if permit_seconds:
            self._traces.note_permit_wait(pod.uid, permit_seconds)
