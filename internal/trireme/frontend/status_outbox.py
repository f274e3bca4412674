"""Conditions and nominations on their way to bind, the newest for each pod, in batches.

An attempt does not wait for its condition to be written, and a pod that fails again before it is needs only the newest.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from trireme.framework import status
from trireme.v1 import bind_pb2
from trireme.wire import status as wire_status

log = logging.getLogger(__name__)

BATCH = 128

Apply = Callable[[Sequence[bind_pb2.Action]], Awaitable[list[bind_pb2.BindResult]]]


class StatusOutbox:
    """Actions that wait to be carried out; at most one a pod."""

    def __init__(self, apply: Apply) -> None:
        self._apply = apply
        self._waiting: dict[str, bind_pb2.Action] = {}
        self._ready = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def send(self, action: bind_pb2.Action) -> None:
        """Carry this out soon; it replaces what waits for the same pod."""
        self._waiting.pop(action.pod.uid, None)
        self._waiting[action.pod.uid] = action
        self._ready.set()

    def drop(self, uid: str) -> None:
        """The pod is gone, or bound: nothing is to be written about it any more."""
        self._waiting.pop(uid, None)

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
