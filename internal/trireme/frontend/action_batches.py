"""Actions on their way to bind whose results somebody waits for, those of several in one call.

A call between processes costs as much as the write that it asks for, and preemptors come in crowds: what is asked for
while a call is under way goes together a moment later. Who asks alone waits for nothing, and nobody waits for the
results of others.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from trireme.v1 import bind_pb2

BATCH = 128
MAX_CALLS = 8
LINGER_SECONDS = 0.01

Tell = Callable[[int, bind_pb2.BindResult], None]


class Apply(Protocol):
    """Carries out all actions, and tells each result, with its index, as it is known."""

    def __call__(self, actions: Sequence[bind_pb2.Action], tell: Tell) -> Awaitable[object]:
        """Ends when all are carried out."""


class ActionBatches:
    """Sends actions by `apply`. Its bound are those who ask: each waits until its results are there."""

    def __init__(self, apply: Apply) -> None:
        self._apply = apply
        self._waiting: list[tuple[bind_pb2.Action, asyncio.Future[bind_pb2.BindResult]]] = []
        self._calls: set[asyncio.Task[None]] = set()
        self._gathering = False

    async def carry_out(self, actions: Sequence[bind_pb2.Action]) -> list[bind_pb2.BindResult]:
        """Carry out these actions; answers a result for each, in order."""
        loop = asyncio.get_running_loop()
        asked = [(action, loop.create_future()) for action in actions]
        self._waiting += asked
        self._start()
        return list(await asyncio.gather(*(future for _, future in asked)))

    async def close(self) -> None:
        """Give up what is under way, and whoever waits for it."""
        for task in self._calls:
            task.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        for _, future in self._waiting:
            future.cancel()
        self._waiting.clear()

    def _start(self) -> None:
        if self._gathering or not self._waiting or len(self._calls) >= MAX_CALLS:
            return
        self._gathering = True
        task = asyncio.create_task(self._call(LINGER_SECONDS if self._calls else 0.0))
        self._calls.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            self._start()

    async def _call(self, linger: float) -> None:
        try:
            await asyncio.sleep(linger)
        finally:
            self._gathering = False
        batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
        # Of the others nobody waits any more.
        batch = [(action, future) for action, future in batch if not future.done()]
        self._start()
        if not batch:
            return

        def tell(index: int, result: bind_pb2.BindResult) -> None:
            if not batch[index][1].done():
                batch[index][1].set_result(result)

        try:
            await self._apply([action for action, _ in batch], tell)
        except Exception as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
        finally:
            for _, future in batch:
                future.cancel()
