"""Conditions and nominations on their way to bind, the newest for each pod, in batches.

An attempt does not wait for its condition to be written, and a pod that fails again before it is needs only the newest.
A pod for which room is being made will most likely be bound in a moment, and its binding makes its condition void: what
is to be written about it is held until then, but not for long. In a crowd of preemptors that spares one write in seven.
kube-scheduler has that too: a binding takes the place of a status patch that was not sent yet.
Source: pkg/scheduler/backend/api_dispatcher (relevance of calls).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from trireme.framework import status
from trireme.v1 import bind_pb2
from trireme.wire import status as wire_status

log = logging.getLogger(__name__)

BATCH = 128

# How long a pod's condition is held while its victims are evicted, and from when that is done until it is bound.
EVICTING_SECONDS = 10.0
EVICTED_SECONDS = 1.0

Apply = Callable[[Sequence[bind_pb2.Action]], Awaitable[list[bind_pb2.BindResult]]]


class StatusOutbox:
    """Actions that wait to be carried out; at most one a pod."""

    def __init__(self, apply: Apply) -> None:
        self._apply = apply
        self._waiting: dict[str, bind_pb2.Action] = {}
        self._held: dict[str, tuple[bind_pb2.Action, asyncio.TimerHandle]] = {}
        self._ready = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._held)

    def send(self, action: bind_pb2.Action) -> None:
        """Carry this out soon; it replaces what waits for the same pod, but for a nomination it says nothing of."""
        self._replace(action)
        self._waiting[action.pod.uid] = action
        self._ready.set()

    def send_unless_bound(self, action: bind_pb2.Action) -> None:
        """As `send`, but room is being made for the pod: there is time until it is bound, or `evicted`."""
        self._replace(action)
        self._hold(action, EVICTING_SECONDS)

    def evicted(self, uid: str) -> None:
        """There is room for the pod, or will not be: it should be bound in a moment."""
        held = self._held.get(uid)
        if held is not None:
            held[1].cancel()
            self._hold(held[0], EVICTED_SECONDS)

    def drop(self, uid: str) -> None:
        """The pod is gone, or being bound: nothing is to be written about it any more."""
        self._take(uid)

    async def run(self) -> None:
        """Carry out what comes, until cancelled."""
        while True:
            await self._ready.wait()
            batch = [self._waiting.pop(uid) for uid in list(self._waiting)[:BATCH]]
            if not self._waiting:
                self._ready.clear()
            if not batch:
                continue
            for action, result in zip(batch, await self._apply(batch), strict=True):
                said = wire_status.from_message(result.status)
                if said.code != status.Code.SUCCESS:
                    log.info("status of pod %s/%s: %s", action.pod.namespace, action.pod.name, said.message)

    def _replace(self, action: bind_pb2.Action) -> None:
        """Nothing else waits for the pod; what it was promised by that is to be written with what comes now."""
        before = self._take(action.pod.uid)
        if before is None or not before.set_condition.HasField("nominated_node_name"):
            return
        if action.HasField("set_condition") and not action.set_condition.HasField("nominated_node_name"):
            action.set_condition.nominated_node_name = before.set_condition.nominated_node_name

    def _take(self, uid: str) -> bind_pb2.Action | None:
        held = self._held.pop(uid, None)
        if held is not None:
            held[1].cancel()
            return held[0]
        return self._waiting.pop(uid, None)

    def _hold(self, action: bind_pb2.Action, seconds: float) -> None:
        timer = asyncio.get_running_loop().call_later(seconds, self._let_go, action.pod.uid)
        self._held[action.pod.uid] = action, timer

    def _let_go(self, uid: str) -> None:
        self._waiting[uid] = self._held.pop(uid)[0]
        self._ready.set()
