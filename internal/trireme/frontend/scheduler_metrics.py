"""The frontend's metrics of durations and events: kube-scheduler's, and our own.

Metrics of a state (queue lengths, cache sizes, replicas) are not here: `metrics_collector` reads those at each scrape.
Where possible a batch takes one call, with the number of pods; a bound pod costs about three microseconds.

How a batch counts: an attempt's duration is that of the whole batch up to the pod's own end, because that is how long
the pod waited. The durations of the algorithm and of an extension point are costs: the batch's, divided among its pods,
so that sums and counts compare with those of a scheduler that takes pods one by one.

Source: pkg/scheduler/metrics/metrics.go.

Tests: tests/unit/frontend/test_scheduler_metrics.py, tests/contract/test_serving_metrics.py,
tests/unit/frontend/test_state_machine_extenders.py.
"""

import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from trireme.config import commandline, scheduler_configuration
from trireme.framework import cluster_event, status
from trireme.framework.plugin_spec import ExtensionPoint, Role
from trireme.frontend import scheduler_instruments
from trireme.queueing import batch_key, pre_enqueue, queued_pod
from trireme.queueing.hints import queueing_hint_map
from trireme.registry.in_tree import IN_TREE, PREEMPTION_PLUGIN
from trireme.scheduling import ports
from trireme.v1 import filter_pb2, filter_phase_pb2
from trireme.wire.phase_answers import FilterAnswer, PlaceAnswer
from trireme.wire.post_filter_result import PostFilterResult

#: How an attempt ended that bound its pod.
SCHEDULED = "scheduled"

_VOLUMES_PLUGIN = IN_TREE.name_of(Role.VOLUMES)

# Attempts from this number on share a label.
_MANY_ATTEMPTS = 15


def of_configuration(
    completed: commandline.CompletedConfig,
    clock: Callable[[], float] = time.perf_counter,
    kind: "type[SchedulerMetrics] | None" = None,
) -> "SchedulerMetrics":
    """The metrics for this configuration; of a subclass, if `kind` names one."""
    groups = completed.gates.enabled("GenericWorkload")
    placements = groups and completed.gates.enabled("TopologyAwareWorkloadScheduling")
    return (kind or SchedulerMetrics)(completed.profiles, clock, groups=groups, placements=placements)


def attempts_label(pod: queued_pod.QueuedPodInfo) -> str:
    """How often the pod was tried, as a label: large numbers are one value."""
    return str(pod.attempts) if pod.attempts < _MANY_ATTEMPTS else f"{_MANY_ATTEMPTS}+"


class SchedulerMetrics:
    """Records what the frontend does in its instruments. Implements scheduling's Observer.

    Subclasses: trireme.frontend.tracing.traced_metrics.TracedMetrics.
    """

    def __init__(
        self,
        profiles: Sequence[scheduler_configuration.CompletedProfile] = (),
        clock: Callable[[], float] = time.perf_counter,
        *,
        groups: bool = False,
        placements: bool = False,
    ) -> None:
        """`groups`: there are groups of pods; `placements`: they may have to be in one domain.

        `profiles` name the plugins with a PreFilter and a PreScore, which the phases do not report separately, and
        those that preempt.
        """
        self.clock = clock
        self._with_groups = groups
        self.instruments = scheduler_instruments.SchedulerInstruments(groups=groups, placements=placements)
        self._preempting: frozenset[str] = frozenset()
        self._before: dict[tuple[str, str], frozenset[str]] = {}
        self.set_profiles(profiles)

    def set_profiles(self, profiles: Sequence[scheduler_configuration.CompletedProfile]) -> None:
        """Replace the profiles, which name the plugins that are counted."""
        self._preempting = frozenset(
            profile.scheduler_name
            for profile in profiles
            if PREEMPTION_PLUGIN in profile.names(ExtensionPoint.POST_FILTER)
        )
        self._before = {
            (profile.scheduler_name, point): frozenset(profile.names(before))
            for profile in profiles
            for point, before in (("Filter", ExtensionPoint.PRE_FILTER), ("Score", ExtensionPoint.PRE_SCORE))
        }

    # Attempts

    def on_batch_popped(self, profile: str, pods: Sequence[queued_pod.QueuedPodInfo]) -> None:
        """A batch was taken from the queue."""
        self.instruments.batch_size.observe(len(pods), (profile,))

    def on_group_popped(self, pods: Sequence[queued_pod.QueuedPodInfo]) -> None:
        """The members of a group are going to be tried: nothing is counted before the attempt ends."""

    def on_pods_placed(
        self,
        profile: str,
        pods: int,
        seconds: float,
        filtered: FilterAnswer,
        placed: PlaceAnswer,
        again: bool = False,
    ) -> None:
        """Record that one answer of filter and score placed `pods` pods (at least one) in so many seconds.

        `again`: the same answer had placed others before, so its timings are recorded already. The first pod of an
        answer counts as `no_hint` in scheduler_batch_attempts_total, all others as `hint_used`.
        """
        self.instruments.algorithm_seconds.observe(seconds / pods, (), pods)
        self.record_plugins(profile, "Filter", filtered.evaluated, pods)
        self.record_plugins(profile, "Score", placed.evaluated, pods)
        if not again:
            self.record_timings(profile, filtered.timings, pods)
            self.record_timings(profile, placed.timings, pods)
            self.instruments.batch_attempts.add((profile, "no_hint"))
            outcome = "pod_not_batchable" if filtered.max_batch == 1 else "stored"
            self.instruments.stored_results.add((profile, outcome))
        if pods > 1 or again:
            self.instruments.batch_attempts.add((profile, "hint_used"), pods - (not again))

    def on_pods_refused(self, profile: str, pods: int, seconds: float, filtered: FilterAnswer) -> None:
        """One answer of filter refused so many pods, at least one, on every node."""
        self.instruments.algorithm_seconds.observe(seconds / pods, (), pods)
        self.record_plugins(profile, "Filter", filtered.evaluated, pods)
        self.record_timings(profile, filtered.timings, pods)
        self.instruments.batch_attempts.add((profile, "no_hint"), pods)

    def on_attempt_failed(self, pod: queued_pod.QueuedPodInfo, result: str, message: str, now: float) -> None:
        """The pod's attempt ended without a node. `now` by the queue's clock."""
        values = (result, pod.record.profile)
        self.instruments.schedule_attempts.add(values)
        self.instruments.attempt_seconds.observe(now - pod.popped_at, values)

    def on_pod_bound(self, pod: queued_pod.QueuedPodInfo, now: float) -> None:
        """The pod is bound. `now` by the queue's clock."""
        values = (SCHEDULED, pod.record.profile)
        self.instruments.schedule_attempts.add(values)
        self.instruments.attempt_seconds.observe(now - pod.popped_at, values)
        self.instruments.attempts_of_bound.observe(pod.attempts)
        if pod.initial_attempt_timestamp:
            self.instruments.sli_seconds.observe(now - pod.initial_attempt_timestamp, (attempts_label(pod),))
        if pod.flushed:
            self.instruments.after_flush.add()
            self._add_missed_wake_ups(pod.rejectors, 1, "flush")

    def on_missed_wake_ups(self, plugins: Iterable[str], pods: int) -> None:
        """So many pods, which these plugins had refused, were found to fit while they waited. WakeUpCheck calls it."""
        self._add_missed_wake_ups(plugins, pods, "insight")

    def _add_missed_wake_ups(self, plugins: Iterable[str], pods: int, found_by: str) -> None:
        for plugin in plugins:
            self.instruments.missed_wake_ups.add((plugin, found_by), pods)

    # Groups of pods

    def on_group_attempted(self, profile: str, kind: str, result: str, seconds: float) -> None:
        """An attempt to schedule a group of this kind ended with this result."""
        self.instruments.group_attempts.add((result, profile, kind))
        self.instruments.group_attempt_seconds.observe(seconds, (result, profile, kind))

    def on_group_evaluated(self, profile: str, kind: str, seconds: float) -> None:
        """The search for the nodes of a group of this kind has ended."""
        self.instruments.group_algorithm_seconds.observe(seconds, (profile, kind))

    def on_placements_generated(self, profile: str, kind: str, placements: int) -> None:
        """Placements were generated for a group of this kind."""
        self.instruments.generated_placements.add((profile, kind), placements)

    def on_placement_evaluated(self, profile: str, kind: str, feasible: bool, seconds: float) -> None:
        """A group of this kind was tried in a placement."""
        values = ("feasible" if feasible else "infeasible", profile, kind)
        self.instruments.placement_evaluations.add(values)
        self.instruments.placement_seconds.observe(seconds, values)

    def on_group_preemption_evaluated(self, kind: str, code: status.Code, seconds: float) -> None:
        """The search for the victims of a group of this kind has ended."""
        self.instruments.evaluation_seconds.observe(seconds, (kind, code.label))

    def on_group_preemption_attempted(self, kind: str, code: status.Code) -> None:
        """An attempt to preempt for a group of this kind has ended."""
        self.instruments.group_preemption_attempts.add((kind, code.label))

    def on_group_disruption(self, kind: str, cost: filter_pb2.Disruption) -> None:
        """A group of this kind preempts."""
        self.instruments.group_preemption_victims.observe(cost.victims, (kind,))
        for victim, count in (
            (ports.POD, cost.single_pods),
            (batch_key.POD_GROUP.lower(), cost.of_groups),
            (batch_key.COMPOSITE_POD_GROUP.lower(), cost.of_composite_groups),
        ):
            if count:
                self.instruments.disruptions.observe(count, (kind, victim))
        if cost.violations:
            self.instruments.budget_violations.add((kind,), cost.violations)

    # Preemption

    def on_post_filter_run(self, profile: str, result: PostFilterResult, pods: int, seconds: float) -> None:
        """PostFilter was called, and its answer holds for so many pods."""
        self.on_extension_point_run("PostFilter", result.code, profile, seconds, pods)
        if profile not in self._preempting:
            return
        self.instruments.preemption_attempts.add((), pods)
        if result.disruption is not None:
            self.instruments.preemption_victims.observe(result.disruption.victims)
        if self._with_groups:
            self.instruments.evaluation_seconds.observe(seconds / pods, (ports.POD, result.code.label), pods)
            if result.disruption is not None and result.disruption.violations:
                self.instruments.budget_violations.add((ports.POD,), result.disruption.violations)

    def on_evictions_ended(self, kind: str, succeeded: bool, seconds: float) -> None:
        """The evictions for a pod, or for a group of this kind, were executed, or failed."""
        if self._with_groups:
            self.instruments.execution_seconds.observe(seconds, (kind, "success" if succeeded else "error"))

    def on_background_evictions_ended(self, kind: str, succeeded: bool, seconds: float) -> None:
        """As `on_evictions_ended`, while other pods are scheduled."""
        values = ("success" if succeeded else "error",)
        self.instruments.preemptions.add(values)
        self.instruments.preemption_seconds.observe(seconds, values)
        self.on_evictions_ended(kind, succeeded, seconds)

    # Phases and plugins

    def record_phase_call(self, phase: str, rpc: str, code: str, seconds: float) -> None:
        """Record a call of a phase and its duration; `code` is gRPC's name of the outcome."""
        self.instruments.rpc_seconds.observe(seconds, (phase, rpc, code))

    def on_extension_point_run(
        self, point: str, code: status.Code, profile: str, seconds: float, pods: int = 1
    ) -> None:
        """An extension point ran for so many pods at once."""
        self.instruments.point_seconds.observe(seconds / pods, (point, code.label, profile), pods)

    def on_plugin_run(self, point: str, plugin: str, code: status.Code, seconds: float) -> None:
        """A plugin ran at an extension point of the frontend's own."""
        self.instruments.plugin_seconds.observe(seconds, (plugin, point, code.label))

    def record_skipped_extension_points(
        self, points: Iterable[str], code: status.Code, profile: str, pods: int
    ) -> None:
        """Record runs that took no time: at these extension points no plugin applies to so many pods."""
        for point in points if pods else ():
            self.instruments.point_seconds.observe(0.0, (point, code.label, profile), pods)

    def on_volume_stage_ended(self, operation: str, result: status.Status) -> None:
        """A stage (assume or bind) ended with this result; errors of VolumeBinding are counted by stage."""
        if result.code is status.Code.ERROR and result.plugin == _VOLUMES_PLUGIN:
            self.instruments.volume_errors.add((operation,))

    def on_devices_prepared(self, profile: str, drivers: Iterable[str], result: status.Status, seconds: float) -> None:
        """The wait for devices of these drivers took so long, with this outcome."""
        outcome = "error"
        if result.code is status.Code.SUCCESS:
            outcome = "success"
        elif "device binding timeout" in result.message:
            outcome = "timeout"
        elif "device binding failed" in result.message:
            outcome = "failure"
        for driver in drivers:
            self.instruments.device_attempts.add((profile, driver, outcome))
            self.instruments.device_seconds.observe(seconds, (profile, driver, outcome))

    def on_event_handled(self, label: str, started: float) -> None:
        """The queue handled an informer's event."""
        self.instruments.event_seconds.observe(self.clock() - started, (label,))

    def on_event_ignored(self, label: str) -> None:
        """An event that can help no pod: it counts, and takes no time."""
        self.instruments.event_seconds.observe(0.0, (label,))

    def record_timings(self, profile: str, timings: Iterable[filter_phase_pb2.Timing], pods: int) -> None:
        """Record the durations that a phase reported with its answer, once for each of the pods."""
        for timing in timings:
            label = status.Code(timing.code).label
            seconds = timing.duration_us / 1_000_000
            if timing.plugin:
                self.instruments.plugin_seconds.observe(seconds, (timing.plugin, timing.extension_point, label))
            else:
                self.instruments.point_seconds.observe(seconds / pods, (timing.extension_point, label, profile), pods)

    def record_plugins(self, profile: str, point: str, names: Iterable[str], pods: int) -> None:
        """Count the plugins that took part in the attempts of so many pods at this point.

        They took part in the point before it, too, if they have it.
        """
        before = self._before.get((profile, point), frozenset())
        for name in names:
            self.instruments.plugin_evaluations.add((name, point, profile), pods)
            if name in before:
                self.instruments.plugin_evaluations.add((name, f"Pre{point}", profile), pods)

    def on_permit_wait_ended(self, code: status.Code, seconds: float) -> None:
        """A pod no longer waits on Permit."""
        self.instruments.permit_wait_seconds.observe(seconds, (code.label,))

    # Wrappers, so that the queue and its hints need no clock

    def with_timing_of_pre_enqueue(self, gate: pre_enqueue.PreEnqueue) -> pre_enqueue.PreEnqueue:
        """Wrap PreEnqueue so that its duration is recorded."""

        def timed(pod: queued_pod.QueuedPodInfo) -> str | pre_enqueue.PreEnqueueResult:
            started = self.clock()
            answer = gate(pod)
            refused = isinstance(answer, str)
            code = status.Code.UNSCHEDULABLE_AND_UNRESOLVABLE if refused else status.Code.SUCCESS
            self.on_extension_point_run("PreEnqueue", code, pod.record.profile, self.clock() - started)
            return answer

        return timed

    def with_timing_of_hints(
        self, registrations: Iterable[queueing_hint_map.EventRegistration]
    ) -> list[queueing_hint_map.EventRegistration]:
        """The same registrations, with the hints of in-tree plugins wrapped so that their duration is recorded."""
        return [
            entry if entry.remote else dataclasses.replace(entry, hint=self._with_timing_of_hint(entry))
            for entry in registrations
        ]

    def _with_timing_of_hint(self, registration: queueing_hint_map.EventRegistration) -> queueing_hint_map.HintFunction:
        """Wrap a registration's hint so that its duration is recorded, once for each pod with the pod's share.

        A registration without a hint answers QUEUE for every pod. If the hint raises, or returns anything but one
        answer for each pod, all its answers count as errors, as HintEvaluator counts them; what it raised or returned
        goes on to the caller.
        """
        plugin, hint = registration.plugin, registration.hint

        def timed(
            event: cluster_event.ClusterEvent, old: Any, new: Any, pods: Sequence[queued_pod.QueuedPodInfo]
        ) -> Sequence[queueing_hint_map.HintAnswer]:
            started = self.clock()
            answers: Sequence[queueing_hint_map.HintAnswer] | None = None
            errors = [queueing_hint_map.HintAnswer.ERROR] * len(pods)
            try:
                # Without a function every event helps.
                answers = (
                    [queueing_hint_map.HintAnswer.QUEUE] * len(pods) if hint is None else hint(event, old, new, pods)
                )
                return answers
            finally:
                share = (self.clock() - started) / max(len(pods), 1)
                # A broken plugin may return anything.
                valid = isinstance(answers, Sequence) and len(answers) == len(pods)
                for answer in answers if answers is not None and valid else errors:
                    self.instruments.hint_seconds.observe(share, (plugin, event.label, answer.value))

        return timed

    # The API server

    def request_observer(self, host: str) -> Callable[[str, int, float, float], None]:
        """Make what an ApiClient of this host calls after each request, to record it."""

        def record_request(method: str, code: int, seconds: float, waited: float) -> None:
            self.instruments.requests.add((str(code) if code else "<error>", method, host))
            self.instruments.request_seconds.observe(seconds, (method, host))
            self.instruments.throttle_seconds.observe(waited, (method, host))

        return record_request
