"""Conditions and nominations on their way to bind, the newest for each pod, in batches.

It compares nothing: `attempt_reporter` sends only what changed.

An attempt does not wait for its condition to be written, and a pod that fails again before it is needs only the newest.
But a pod is not bound before the conditions of its earlier attempts are written: kube-scheduler writes both in this
order, others look for the nomination, and a condition that arrives after the binding would call a bound pod
unschedulable. With many preemptors that costs one write for each. A pod that is to be bound does not wait for what is
still to be sent about others: thousands of conditions take minutes at a low rate limit. It does wait for those that
were sent before, at most `MAX_UNDER_WAY`, because bind executes actions in the order in which they come.
Source: pkg/scheduler/schedule_one.go handleSchedulingFailure, updatePod (without the gate SchedulerAsyncAPICalls).
"""

import asyncio
import heapq
import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trireme.framework import status
from trireme.scheduling import item_batches
from trireme.v1 import bind_pb2
from trireme.wire import status as wire_status

log = logging.getLogger(__name__)

BATCH = 128
# Actions under way; the others wait here, where a newer one can take their place.
MAX_UNDER_WAY = 256


@dataclass(slots=True)
class _UnsentAction:
    """A condition or nomination that is still to be sent."""

    action: bind_pb2.Action
    #: Whether no caller waits for it, the pod's priority negated, and its turn among equals.
    rank: tuple[bool, int, int]


class StatusOutbox:
    """Actions to execute: for each pod at most one waits, and at most one is under way.

    First come those that a caller waits for, as their pods have a node, then those of pods of the highest priority.
    """

    def __init__(self, apply: item_batches.SendBatch[bind_pb2.Action, bind_pb2.BindResult]) -> None:
        self._apply = apply
        self._waiting: dict[str, _UnsentAction] = {}  # by the pod's UID
        # Rank and UID of what waits and may be sent; an entry whose rank is not that of the action is out of date.
        self._order: list[tuple[tuple[bool, int, int], str]] = []
        self._turns = itertools.count()
        self._under_way: set[str] = set()
        self._written: dict[str, asyncio.Event] = {}  # by the UID of pods that a caller waits for
        self._ready = asyncio.Event()
        #: Called with the UID of a pod when a write about it failed, unless a newer one waits.
        self.on_failed: Callable[[str], None] = lambda uid: None

    def __len__(self) -> int:
        return len(self._waiting)

    def send(self, action: bind_pb2.Action, priority: int = 0) -> None:
        """Execute this soon. It replaces what waits for the same pod, except a nomination if it has none itself."""
        uid = action.pod.uid
        before = self._waiting.get(uid)
        if before is None:
            self._waiting[uid] = _UnsentAction(action, (uid not in self._written, -priority, next(self._turns)))
            self._queue_unless_under_way(uid)
        else:
            if _has_nomination(before.action) and not _has_nomination(action):
                action.set_condition.nominated_node_name = before.action.set_condition.nominated_node_name
            before.action = action
        self._ready.set()

    def drop(self, uid: str) -> None:
        """Drop what waits for a pod that is gone, or bound: nothing more is to be written about it."""
        self._waiting.pop(uid, None)
        self._wake_waiting_callers(uid)

    def has_unwritten(self, uid: str) -> bool:
        """Whether something about the pod is still to be written, or being written."""
        return uid in self._waiting or uid in self._under_way

    async def wait_until_written(self, uid: str) -> None:
        """Return when nothing about the pod waits or is under way. What waits is next."""
        while self.has_unwritten(uid):
            written = self._written.setdefault(uid, asyncio.Event())
            waiting = self._waiting.get(uid)
            if waiting is not None and waiting.rank[0]:
                waiting.rank = (False, *waiting.rank[1:])
                self._queue_unless_under_way(uid)
            await written.wait()

    async def run(self) -> None:
        """Execute actions until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._ready.wait()
                self._ready.clear()
                while batch := self._take_next_batch():
                    group.create_task(self._send_batch(batch))

    def _take_next_batch(self) -> list[bind_pb2.Action]:
        """The actions that can be sent now: of each pod one at a time."""
        room = min(BATCH, MAX_UNDER_WAY - len(self._under_way))
        actions: list[bind_pb2.Action] = []
        while self._order and len(actions) < room:
            rank, uid = heapq.heappop(self._order)
            waiting = self._waiting.get(uid)
            if waiting is not None and waiting.rank == rank:
                del self._waiting[uid]
                self._under_way.add(uid)
                actions.append(waiting.action)
        return actions

    def _queue_unless_under_way(self, uid: str) -> None:
        """Queue the pod's waiting action by rank, unless one of the pod is under way, whose end will queue it."""
        if uid in self._under_way:
            return
        if len(self._order) > 2 * len(self._waiting) + BATCH:  # most entries are out of date
            self._order = [
                (waiting.rank, each) for each, waiting in self._waiting.items() if each not in self._under_way
            ]
            heapq.heapify(self._order)
        else:
            heapq.heappush(self._order, (self._waiting[uid].rank, uid))

    async def _send_batch(self, batch: Sequence[bind_pb2.Action]) -> None:
        """Have bind execute the actions; failures are logged. After each result the pod's next action may be sent."""

        def on_action_result(index: int, result: bind_pb2.BindResult) -> None:
            action, answer = batch[index], wire_status.from_message(result.status)
            if answer.code != status.Code.SUCCESS:
                log.info("status of pod %s/%s: %s", action.pod.namespace, action.pod.name, answer.message)
                if action.pod.uid not in self._waiting:
                    self.on_failed(action.pod.uid)
            self._under_way.discard(action.pod.uid)
            if action.pod.uid in self._waiting:
                self._queue_unless_under_way(action.pod.uid)
            self._wake_waiting_callers(action.pod.uid)
            if self._waiting:
                self._ready.set()

        await self._apply(batch, on_action_result)

    def _wake_waiting_callers(self, uid: str) -> None:
        """Wake the callers that wait for the pod, if nothing about it is left."""
        if not self.has_unwritten(uid) and (event := self._written.pop(uid, None)) is not None:
            event.set()


def _has_nomination(action: bind_pb2.Action) -> bool:
    return action.HasField("set_condition") and action.set_condition.HasField("nominated_node_name")
