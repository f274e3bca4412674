"""Sends what changes in the scheduling queue to insight.

Changes are collected for a moment, and a pod that waits for its turn is sent only if that takes long: a pod that is
scheduled soon costs an entry in a dictionary, and is never sent.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence

from trireme.frontend.phase_clients import insight_replicas
from trireme.queueing import queue_contents, queued_pod, transition_log
from trireme.queueing.states import (
    Active,
    BackOff,
    Done,
    Gated,
    Gone,
    GroupInFlight,
    InFlight,
    PreEnqueuePending,
    QueueState,
    Unschedulable,
    WaitingForGroup,
)
from trireme.v1 import scheduler_status_pb2, snapshot_pb2

# How often changes are sent.
PERIOD_SECONDS = 0.25
# For how long a pod may wait for its turn, or be tried, before it is sent. Under load pods wait for others to share
# their batch, and sending each of them would cost a few per cent of scheduling it.
SETTLE_SECONDS = 2.0
# So many of them are sent each time, while more pods than that change: where thousands wait for their turn, each would
# cost the frontend some 45 us, and is bound soon. Where little changes, a whole message of them is sent. How many wait
# is part of the scheduler's state, which is sent anyway.
MAX_SETTLED_PODS = 25
# Pods in one message, some 200 bytes each.
PODS_PER_MESSAGE = 2_000
# Transitions of a pod in one message: one attempt and what woke the pod. Earlier ones were in earlier messages.
TRANSITIONS_PER_POD = 4
# The next message waits a period where a replica has so much left to read.
MAX_BACKLOG_BYTES = 1 << 20

_STATES: dict[type[QueueState], snapshot_pb2.QueuedPodState.ValueType] = {
    Active: snapshot_pb2.QUEUED_POD_STATE_ACTIVE,
    BackOff: snapshot_pb2.QUEUED_POD_STATE_BACKOFF,
    Unschedulable: snapshot_pb2.QUEUED_POD_STATE_UNSCHEDULABLE,
    Gated: snapshot_pb2.QUEUED_POD_STATE_GATED,
    PreEnqueuePending: snapshot_pb2.QUEUED_POD_STATE_PRE_ENQUEUE_PENDING,
    WaitingForGroup: snapshot_pb2.QUEUED_POD_STATE_WAITING_FOR_GROUP,
    GroupInFlight: snapshot_pb2.QUEUED_POD_STATE_GROUP_IN_FLIGHT,
    InFlight: snapshot_pb2.QUEUED_POD_STATE_IN_FLIGHT,
}


class InsightQueueFeed:
    """Keeps the replicas of insight up to date about the queue; `run` does so until cancelled."""

    def __init__(
        self,
        insight: insight_replicas.InsightReplicas,
        queue: queue_contents.QueueContents,
        generation: Callable[[], int],
        now: Callable[[], float],
        to_wall: Callable[[float], float],
    ) -> None:
        """`generation` returns that of the last delta; `to_wall` converts times of `now`, the queue's clock."""
        self._insight = insight
        self._queue = queue
        self._generation = generation
        self._now = now
        self._to_wall = to_wall
        # UID to key of changed pods that may soon be scheduled, and from when each is looked at again: (time, UID).
        self._deferred: dict[str, str] = {}
        self._due: list[tuple[float, str]] = []
        # UIDs of the pods that the replicas know of.
        self._sent: set[str] = set()

    async def run(self) -> None:
        """Send the queue, and what changes in it, until cancelled."""
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            if not self._insight.replicas.followed:
                self._queue.ignore_changes()
                continue
            for delta in self.take_deltas():
                if self._insight.backlog_bytes > MAX_BACKLOG_BYTES:
                    await asyncio.sleep(PERIOD_SECONDS)
                self._insight.publish_queue(delta, self._generation())
            self._insight.publish_waiting_decisions(self._generation())

    def take_deltas(self) -> Iterator[snapshot_pb2.QueueDelta]:
        """What changed since the last call; all of the queue if a stream began."""
        changed = self._queue.take_changed_pods()
        if self._insight.take_new_stream() or changed is None:
            self._sent.clear()
            self._deferred, self._due = {}, []
            return self._delta_messages(self._queue.pods(), (), reset=True)
        most = MAX_SETTLED_PODS if len(changed) > MAX_SETTLED_PODS else PODS_PER_MESSAGE
        found = [*self._changes_to_send(changed), *self._settled_pods(most)]
        gone = [uid for uid, pod in found if (pod is None or not _is_queued(pod)) and uid in self._sent]
        self._sent.difference_update(gone)
        return self._delta_messages([pod for _, pod in found if pod is not None], gone, reset=False)

    def _changes_to_send(self, changed: dict[str, str]) -> Iterator[tuple[str, queued_pod.QueuedPodInfo | None]]:
        """UID and pod of those whose changes are to be sent now.

        The others are tried, or wait for their turn and the replicas do not know of them: these are deferred.
        """
        for uid, key in changed.items():
            pod = self._queue.with_uid(key, uid)
            settled = None if pod is None else self._settles_at(pod)
            if settled is None:
                self._deferred.pop(uid, None)
                yield uid, pod
                continue
            if uid not in self._deferred:
                heapq.heappush(self._due, (settled, uid))
            self._deferred[uid] = key

    def _settles_at(self, pod: queued_pod.QueuedPodInfo) -> float | None:
        """When the pod is to be sent unless it moves on; None: at once."""
        if isinstance(pod.state, InFlight):
            return pod.popped_at + SETTLE_SECONDS
        if isinstance(pod.state, Active) and pod.uid not in self._sent:
            return pod.timestamp + SETTLE_SECONDS
        return None

    def _settled_pods(self, most: int) -> Iterator[tuple[str, queued_pod.QueuedPodInfo | None]]:
        """UID and pod of deferred ones that are to be sent now, `most` at most, those that wait longest first."""
        now, left = self._now(), most
        while left and self._due and self._due[0][0] <= now:
            uid = heapq.heappop(self._due)[1]
            key = self._deferred.pop(uid, None)
            if key is None:
                continue
            pod = self._queue.with_uid(key, uid)
            settled = None if pod is None else self._settles_at(pod)
            if settled is not None and settled > now:  # it was tried meanwhile
                heapq.heappush(self._due, (settled, uid))
                self._deferred[uid] = key
                continue
            left -= 1
            yield uid, pod

    def _delta_messages(
        self, pods: Iterable[queued_pod.QueuedPodInfo], removed: Sequence[str], *, reset: bool
    ) -> Iterator[snapshot_pb2.QueueDelta]:
        """Messages of a bounded size; none if nothing changed."""
        queued = [pod for pod in pods if _is_queued(pod)]
        for start in range(0, len(queued), PODS_PER_MESSAGE):
            part = queued[start : start + PODS_PER_MESSAGE]
            uids = {pod.uid for pod in part}
            self._sent.update(uids)
            moves = self._queue.last_transitions(uids, TRANSITIONS_PER_POD)
            messages = [self._pod_message(pod, moves.get(pod.uid, ())) for pod in part]
            yield snapshot_pb2.QueueDelta(reset=reset, pods=messages, removed_pods=removed)
            reset, removed = False, ()
        if reset or removed:
            yield snapshot_pb2.QueueDelta(reset=reset, removed_pods=removed)

    def _pod_message(
        self, pod: queued_pod.QueuedPodInfo, moves: Sequence[transition_log.Transition]
    ) -> snapshot_pb2.QueuedPod:
        """Describe a queued pod for insight: its state, who holds it back or refused it, why it waits, its last moves.

        A member of a group also names the plugin that gates the group. The reason of a pod that cannot be scheduled as
        it is written (`invalid`) comes before that of its state.
        """
        record, state = pod.latest, pod.state
        parsed = record.pod.parsed
        message = snapshot_pb2.QueuedPod(
            pod_class=record.class_id,
            profile=record.profile,
            state=_STATES.get(type(state), snapshot_pb2.QUEUED_POD_STATE_UNSPECIFIED),
            attempts=pod.attempts,
            # The plugin that holds back a group is none of its members' own.
            plugins=sorted({*pod.rejectors, pod.gated_by} - {""}),
            pod_group=parsed.group,
            queued_since_ms=round(pod.waiting_since(self._to_wall) * 1000),
            transitions=[
                scheduler_status_pb2.QueueTransition(
                    at_ms=self._milliseconds(move.at), to=move.to.label, cause=move.cause
                )
                for move in moves
            ],
        )
        message.pod.namespace, message.pod.name, message.pod.uid = parsed.namespace, parsed.name, record.uid
        if isinstance(state, BackOff):
            message.backoff_until_ms = self._milliseconds(state.until)
        message.reason = record.pod.invalid or _reason_for_waiting(state)
        return message

    def _milliseconds(self, moment: float) -> int:
        """A moment of the queue's clock in milliseconds since 1970."""
        return round(self._to_wall(moment) * 1000)


def _is_queued(pod: queued_pod.QueuedPodInfo) -> bool:
    """Whether it waits or is being tried; a pod that is being bound is on its node, as far as insight is concerned."""
    state = pod.state
    return not (isinstance(state, (Done, Gone)) or (isinstance(state, InFlight) and state.deleted))


def _reason_for_waiting(state: QueueState) -> str:
    """What the state itself says about why the pod waits; empty: nothing."""
    match state:
        case Gated(reason=reason):
            return reason
        case WaitingForGroup(missing=missing):
            return f"waits {missing}"
        case _:
            return ""
