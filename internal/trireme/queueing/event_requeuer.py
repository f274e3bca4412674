"""EventRequeuer: moves the unschedulable pods that an event may help.

An event is evaluated once for the pods of one class that the same plugins refused (`unschedulable.RefusalGroup`), and
for a pod alone if its own object changed. Where the hint is that of a remote plugin, it is called, and the pods move on
its answer.

Tests: tests/unit/queueing/test_remote.py, tests/unit/queueing/test_scheduling_queue.py.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from trireme.framework import cluster_event
from trireme.framework.cluster_event import ClusterEvent
from trireme.queueing.event_audience import EventAudience
from trireme.queueing.hints.hint_evaluation import Decision, HintEvaluator
from trireme.queueing.hints.queueing_hint_map import HintAnswer
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.queueing.remote_calls import PodTarget, RefusalGroupTarget, RemoteCalls, Target
from trireme.queueing.states import Gated, Unschedulable
from trireme.queueing.transitions import Transitions
from trireme.queueing.unschedulable import RefusalGroup, UnschedulablePods


class EventRequeuer:
    """Moves refused and gated pods to the active or back-off queue when an event may help them.

    Remote hints are not waited for: their calls become instructions of `calls`.
    """

    __slots__ = ("_calls", "_hints", "_transitions", "_unschedulable")

    def __init__(
        self, transitions: Transitions, unschedulable: UnschedulablePods, hints: HintEvaluator, calls: RemoteCalls
    ) -> None:
        self._transitions = transitions
        self._unschedulable = unschedulable
        self._hints = hints
        self._calls = calls

    def on_cluster_event(self, event: ClusterEvent, old: Any, new: Any, now: float, audience: EventAudience) -> None:
        """Evaluates a change in the cluster for all pods; see `SchedulingQueue.on_event`."""
        for profile, registrations in self._hints.registrations.matching_by_profile(event).items():
            groups = [
                group
                for group in self._unschedulable.groups_refused_by(profile, (r.plugin for r in registrations))
                if (audience.max_priority is None or group.priority <= audience.max_priority)
                and (not group.key.gated_by or self._hints.registrations.has_registered(group.key.gated_by, event))
            ]
            if groups:
                self._evaluate_and_move_groups(profile, groups, (event, old, new), now, audience)

    def on_own_events(self, pod: QueuedPodInfo, events: Sequence[ClusterEvent], old: Any, new: Any, now: float) -> None:
        """Move an unschedulable or gated pod if a change of its own object helps: the first event that does moves it.

        Where a remote hint has to be called, the answer moves it; if too many calls are open, it moves at once, to back
        off.
        """
        profile = pod.record.profile
        for event in events:
            decisions, remote = self._hints.evaluate(profile, event, old, new, [pod])
            if decisions[0] is not Decision.SKIP:
                self._move_to_queue(pod, decisions[0], event, now, counted=False)
                return
            for registration, _ in remote:
                targets: list[list[Target]] = [[PodTarget(pod, pod.stamp)]]
                if self._calls.call_hint(profile, registration, (event, old, new), [pod], targets) is None:
                    self._move_to_queue(pod, Decision.AFTER_BACKOFF, event, now, counted=False)
                    return

    def on_hint_answered(self, call_id: int, hints: Sequence[HintAnswer] | None, now: float) -> None:
        """Moves the pods that the answer of a remote plugin concerns; see `SchedulingQueue.hint_answered`."""
        call = self._calls.close_hint(call_id, hints)
        if call is None or call.answers is None:
            return
        for targets, hint in zip(call.targets, call.answers, strict=True):
            self._hints.results[call.plugin, call.event.label, hint.value] += 1
            if hint is not HintAnswer.SKIP:
                for pod in [pod for target in targets for pod in self._unmoved_pods_of_target(target)]:
                    if not self._transitions.still_gated(pod):
                        pending = call.plugin in pod.pending_plugins
                        self._move_to_queue(
                            pod, Decision.IMMEDIATELY if pending else Decision.AFTER_BACKOFF, call.event, now
                        )

    def flush_unschedulable(self, before: float, now: float) -> None:
        """Moves the pods that have been unschedulable, or gated, since before that moment."""
        for pod in self._unschedulable.pods_since_before(before):
            pod.flushed = True
            pod.flushed_at = now
            self._move_to_queue(pod, Decision.AFTER_BACKOFF, cluster_event.UNSCHEDULABLE_TIMEOUT, now)

    def move_missed(self, pods: Iterable[QueuedPodInfo], now: float) -> None:
        """Moves those of the pods that are unschedulable: they fit, though no event has woken them."""
        for pod in pods:
            if isinstance(pod.state, Unschedulable):
                self._move_to_queue(pod, Decision.AFTER_BACKOFF, cluster_event.MISSED_WAKE_UP, now)

    def move_all(self, event: ClusterEvent, now: float) -> None:
        """Move all unschedulable and gated pods, whatever refused them."""
        for pod in list(self._unschedulable):
            self._move_to_queue(pod, Decision.AFTER_BACKOFF, event, now)

    def _move_to_queue(
        self, pod: QueuedPodInfo, decision: Decision, event: ClusterEvent, now: float, *, counted: bool = True
    ) -> None:
        """Moves an unschedulable pod. `counted`: as incoming, if a gate sends it back to where it was."""
        self._transitions.detach(pod)
        self._transitions.requeue(pod, decision, event.label, now, counted=counted)

    def _evaluate_and_move_groups(
        self,
        profile: str,
        groups: list[RefusalGroup],
        change: tuple[ClusterEvent, Any, Any],
        now: float,
        audience: EventAudience,
    ) -> None:
        """Evaluate hints for one pod of each group of equal refusals, and move the pods of those that it may help.

        Not moved are pods that are still gated, or not of the audience. If too many remote calls are open, the event
        counts as help.
        """
        event, old, new = change
        examples = [group.any_pod() for group in groups]
        decisions, remote = self._hints.evaluate(profile, event, old, new, examples)
        for registration, indexes in remote:
            pods = [examples[index] for index in indexes]
            targets: list[list[Target]] = [
                [RefusalGroupTarget(groups[index].key, self._transitions.stamp, audience)] for index in indexes
            ]
            if self._calls.call_hint(profile, registration, change, pods, targets) is None:
                for index in indexes:
                    decisions[index] = Decision.AFTER_BACKOFF
        for group, decision in zip(groups, decisions, strict=True):
            if decision is not Decision.SKIP:
                for pod in self._transitions.movable_pods(group):
                    if audience.includes(pod.record, pod.had_node) and not self._transitions.still_gated(pod):
                        self._move_to_queue(pod, decision, event, now)

    def _unmoved_pods_of_target(self, target: Target) -> list[QueuedPodInfo]:
        """The pods that the answer to a remote hint may move: those of its target that wait since before the call."""
        if isinstance(target, PodTarget):
            pod = target.pod
            waits = isinstance(pod.state, (Unschedulable, Gated))
            return [pod] if waits and pod.stamp == target.stamp else []
        group = self._unschedulable.get(target.group)
        if group is None:
            return []
        return [
            pod
            for pod in self._transitions.movable_pods(group)
            if pod.stamp <= target.stamp and target.audience.includes(pod.record, pod.had_node)
        ]
