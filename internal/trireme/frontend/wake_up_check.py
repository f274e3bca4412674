"""WakeUpCheck: finds waiting pods that fit by now and that no event has woken, twice a minute, and wakes them.

An event wakes the pods that it may help. Where an event is lost, not registered, or judged wrongly by a hint, a pod
waits until the flush, though a node would take it. Insight evaluates one pod of each group of equal refusals again, the
groups in turn, as many as its share of a processor allows.

A finding is exact, and not a matter of time. Between two scheduling cycles the cluster and the queue agree: each change
that the cache has was passed to the queue. What is published then has this state or a later one, and a pod that has
not moved when the answer is there was woken by no event up to the answer's state. Calls that may still wake a pod
(hints of remote plugins), and what is undone after a failure, get a moment: a pod is reported if it also fits then.

Left out are pods whose verdict is not Filter's alone: those with a node that a later step refused, those that an HTTP
extender filters or scores, running pods whose resize is deferred, and members of pod groups, which are tried again
anyway.

Also change: protos/trireme/v1/scheduler_status.proto (the messages).
Also change: docs/requeueing.md.

Tests: tests/unit/frontend/test_wake_up_check.py, tests/contract/test_missed_wake_ups.py.
"""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from trireme.cache import pod_projection
from trireme.extenders import extenders
from trireme.frontend.frontend_parts import FrontendContext, Scheduling
from trireme.frontend.phase_clients import insight_replicas
from trireme.queueing import queued_pod, unschedulable
from trireme.queueing.states import Unschedulable
from trireme.v1 import cycle_pb2, insight_pb2, scheduler_status_pb2
from trireme_kube.componentbase import documents

log = logging.getLogger(__name__)

PERIOD_SECONDS = 30.0
#: The processor time that insight may take for it.
CPU_SHARE = 0.005
#: Before a finding is confirmed.
CONFIRM_SECONDS = 2.0
#: Of one request, some 100 bytes each.
MAX_GROUPS = 1000
#: Events named of a finding, and findings that are remembered.
MAX_EVENTS, LENGTH = 100, 20


class _Candidate(NamedTuple):
    """A pod that stands for its group. It, and others with a stamp up to this one, were in the group when it began."""

    group: unschedulable.RefusalKey
    pod: queued_pod.QueuedPodInfo
    stamp: int


class _Finding(NamedTuple):
    candidate: _Candidate
    fitting: insight_pb2.FittingPod


class WakeUpCheck:
    """Checks the waiting pods of a leader; `run` does so until cancelled. Nothing waits for it."""

    def __init__(
        self,
        context: FrontendContext,
        scheduling: Scheduling,
        insight: insight_replicas.InsightReplicas,
        publish: Callable[[], int],
        http_extenders: extenders.Extenders | None,
        to_wall: Callable[[float], float],
        *,
        wakes: bool,
    ) -> None:
        """`publish` sends the cache's changes and returns their generation; `wakes`: found pods are woken."""
        self._context = context
        self._scheduling = scheduling
        self._queue = scheduling.queue
        self._insight = insight
        self._publish = publish
        self._extenders = http_extenders
        self._to_wall = to_wall
        self._wakes = wakes
        self._now = context.clocks.now
        # In seconds of processor time; negative after a check that took more.
        self._credit = 0.0
        # When each group was evaluated, by the number of the evaluation; 0: not yet.
        self._turns: dict[unschedulable.RefusalKey, int] = {}
        self._turn = 0
        # UIDs of found pods, and when: they are not reported again until the flush has had its turn.
        self._found: dict[str, float] = {}
        self._missed = 0
        #: The last findings, the oldest first.
        self.history: deque[scheduler_status_pb2.MissedWakeUp] = deque(maxlen=LENGTH)
        self._status = scheduler_status_pb2.WakeUpCheck()

    async def run(self) -> None:
        """Check twice a minute, until cancelled."""
        most = PERIOD_SECONDS * CPU_SHARE
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            self._credit = min(self._credit + most, most)
            if self._credit > 0:
                self._credit -= await self.check(self._credit)

    def status(self) -> scheduler_status_pb2.WakeUpCheck:
        """How far the last check came."""
        out = scheduler_status_pb2.WakeUpCheck()
        out.CopyFrom(self._status)
        out.missed_total = self._missed
        return out

    async def check(self, cpu_seconds: float) -> float:
        """Check the groups whose turn it is, within so much processor time; returns how much it took, in seconds."""
        status = scheduler_status_pb2.WakeUpCheck()
        used = 0.0
        try:
            candidates, answer = await self._evaluate(lambda: self._candidates(status), cpu_seconds)
            status.checked_groups, used = answer.evaluated_count, _seconds(answer.cpu_ms)
            self._turn += 1
            for candidate in candidates[: answer.evaluated_count]:
                self._turns[candidate.group] = self._turn
            if answer.fitting:
                await asyncio.sleep(CONFIRM_SECONDS)
                fitting = [candidates[each.index] for each in answer.fitting]
                candidates, answer = await self._evaluate(lambda: list(filter(self._still_waits, fitting)), cpu_seconds)
                used += _seconds(answer.cpu_ms)
                self._report([_Finding(candidates[each.index], each) for each in answer.fitting])
        except (insight_replicas.InsightUnavailable, insight_replicas.InsightRefusal) as error:
            status.problem = str(error)
        status.checked_at_ms = round(self._context.clocks.wall() * 1000)
        self._status = status
        return used

    async def _evaluate(
        self, choose: Callable[[], list[_Candidate]], cpu_seconds: float
    ) -> tuple[list[_Candidate], insight_pb2.FindFittingPodsResponse]:
        """Choose candidates between two scheduling cycles, and have insight evaluate them on that state or a later one.

        Raises: InsightUnavailable, InsightRefusal.
        """
        async with self._scheduling.scheduler.between_cycles():
            candidates, generation = choose(), self._publish()
        if not candidates:
            return candidates, insight_pb2.FindFittingPodsResponse()
        settings, leader = self._context.settings, self._context.leader
        cycle = cycle_pb2.Cycle(fence=leader.fence(), config_hash=settings.config_hash(), generation=generation)
        request = insight_pb2.FindFittingPodsRequest(
            cycle=cycle, pods=map(_refused_pod, candidates), max_cpu_ms=max(round(cpu_seconds * 1000), 1)
        )
        answer = await self._insight.find_fitting_pods(request)
        if any(each.index >= len(candidates) for each in answer.fitting):
            raise insight_replicas.InsightUnavailable("insight named a pod that is not in the request")
        return candidates, answer

    def _candidates(self, status: scheduler_status_pb2.WakeUpCheck) -> list[_Candidate]:
        """A pod of each group that has any to check, those groups first that were not evaluated for longest."""
        forgotten = self._now() - self._queue.max_in_unschedulable_seconds
        self._found = {uid: at for uid, at in self._found.items() if at > forgotten}
        found = []
        for group in self._queue.contents.refused_groups():
            pod = next(self._pods_to_check(group), None)
            if pod is not None:
                found.append(_Candidate(group.key, pod, self._queue.contents.stamp))
        status.groups = len(found)
        self._turns = {each.group: self._turns.get(each.group, 0) for each in found}
        return sorted(found, key=lambda each: self._turns[each.group])[:MAX_GROUPS]

    def _pods_to_check(self, group: unschedulable.RefusalGroup) -> Iterator[queued_pod.QueuedPodInfo]:
        """The pods of the group whose verdict is Filter's, and that were not found lately."""
        class_id = group.key.class_id
        if class_id <= 0 or (self._extenders is not None and self._extenders.schedules_one_by_one(class_id)):
            return
        for pod in group.pods.values():
            pending = pod.record.pod
            terminating = pending.parsed.flags & pod_projection.TERMINATING
            if not (pod.had_node or pod.uid in self._found or pending.has_deferred_resize or terminating):
                yield pod

    def _still_waits(self, candidate: _Candidate) -> bool:
        """Whether the pod has not moved, and no answer of a remote plugin may wake it soon."""
        pod = candidate.pod
        return (
            isinstance(pod.state, Unschedulable)
            and pod.stamp <= candidate.stamp
            and not self._queue.contents.awaits_hint(pod)
        )

    def _report(self, findings: Iterable[_Finding]) -> None:
        """Count, remember and log each finding that still holds, and wake its pods."""
        for candidate, fitting in findings:
            group = candidate.pod.container
            if not self._still_waits(candidate) or not isinstance(group, unschedulable.RefusalGroup):
                continue
            alike = [pod for pod in self._pods_to_check(group) if pod.stamp <= candidate.stamp]
            pods = [candidate.pod, *(pod for pod in alike if pod is not candidate.pod)][: fitting.capacity]
            self._remember(candidate.pod, len(pods), fitting)
            self._found |= dict.fromkeys((pod.uid for pod in pods), self._now())
            if self._wakes:
                self._scheduling.queue_executor.execute(self._queue.wake_missed(pods, self._now()))

    def _remember(self, pod: queued_pod.QueuedPodInfo, count: int, fitting: insight_pb2.FittingPod) -> None:
        """Count and log a finding before its pods are woken, with the events since the pod was refused."""
        plugins = sorted(pod.rejectors)
        self._missed += count
        self._context.metrics.on_missed_wake_ups(plugins, count)
        events = self._queue.recent_events.since(pod.timestamp)
        self.history.append(
            scheduler_status_pb2.MissedWakeUp(
                number=self.history[-1].number + 1 if self.history else 1,
                at_ms=self._milliseconds(self._now()),
                pod=_identity(pod),
                pod_count=count,
                plugins=plugins,
                refused_at_ms=self._milliseconds(pod.timestamp),
                node_name=fitting.node_name,
                woken=self._wakes,
                events=[
                    scheduler_status_pb2.QueueEvent(
                        at_ms=self._milliseconds(each.at), label=each.label, object_name=each.object_name
                    )
                    for each in events[-MAX_EVENTS:]
                ],
                event_count=len(events),
            )
        )
        log.warning(
            "missed wake-up: pod %s fits on node %s, and no event has woken it since %s refused it %.0f s ago; %s; "
            "events since then: %d, which `trireme status` lists; do as the runbook says (%s)",
            pod.key,
            fitting.node_name,
            ", ".join(plugins),
            self._now() - pod.timestamp,
            "it is woken now" if self._wakes else "it waits on",
            len(events),
            documents.MISSED_WAKE_UPS,
        )

    def _milliseconds(self, moment: float) -> int:
        """A moment of the queue's clock in milliseconds since 1970."""
        return round(self._to_wall(moment) * 1000)


def _seconds(cpu_ms: float) -> float:
    """Processor time that insight names, in seconds; a whole check's where it is none."""
    return cpu_ms / 1000 if 0 <= cpu_ms < math.inf else PERIOD_SECONDS * CPU_SHARE


def _identity(pod: queued_pod.QueuedPodInfo) -> cycle_pb2.PodIdentity:
    namespace, _, name = pod.key.partition("/")
    return cycle_pb2.PodIdentity(namespace=namespace, name=name, uid=pod.uid)


def _refused_pod(candidate: _Candidate) -> insight_pb2.RefusedPod:
    record = candidate.pod.record
    return insight_pb2.RefusedPod(pod=_identity(candidate.pod), pod_class=record.class_id, profile=record.profile)
