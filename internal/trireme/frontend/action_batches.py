"""Actions on their way to bind whose results somebody waits for, those of several in one call.

A call between processes costs as much as the write that it asks for, and preemptors come in crowds: what is asked for
while a call is under way goes together a moment later. Who asks alone waits for nothing, and nobody waits for the
results of others.

Bind carries out so many actions at once, and what comes first is done first. So no more are sent than keep it busy:
the others wait here, in order of rank, and whatever matters more is not behind hundreds that matter less. With it a
crowd gets its room one after the other, and the first is bound while the last is not even begun.
"""

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from trireme.v1 import bind_pb2

# Actions under way, and from how few on there are to be more. Bind carries out 64 at once.
MAX_UNDER_WAY = 192
FEW_UNDER_WAY = 96
LINGER_SECONDS = 0.01

Rank = tuple[int, int]
FIRST: Rank = (-(2**63), 0)

Tell = Callable[[int, bind_pb2.BindResult], None]


class Apply(Protocol):
    """Carries out all actions, and tells each result, with its index, as it is known."""

    def __call__(self, actions: Sequence[bind_pb2.Action], tell: Tell) -> Awaitable[object]:
        """Ends when all are carried out."""


class ActionBatches:
    """Sends actions by `apply`. Its bound are those who ask: each waits until its results are there."""

    def __init__(self, apply: Apply) -> None:
        self._apply = apply
        self._waiting: list[tuple[Rank, int, bind_pb2.Action, asyncio.Future[bind_pb2.BindResult]]] = []
        self._turns = itertools.count()  # of equal rank the first
        self._calls: set[asyncio.Task[None]] = set()
        self._under_way = 0
        self._gathering = False

    async def carry_out(self, actions: Sequence[bind_pb2.Action], rank: Rank = FIRST) -> list[bind_pb2.BindResult]:
        """Carry out these actions, those of the lowest rank first; answers a result for each, in order."""
        loop = asyncio.get_running_loop()
        futures = []
        for action in actions:
            futures.append(loop.create_future())
            heapq.heappush(self._waiting, (rank, next(self._turns), action, futures[-1]))
        self._start()
        return list(await asyncio.gather(*futures))

    async def close(self) -> None:
        """Give up what is under way, and whoever waits for it."""
        for task in self._calls:
            task.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        for *_, future in self._waiting:
            future.cancel()
        self._waiting.clear()

    def _start(self) -> None:
        if self._gathering or not self._waiting or self._under_way > FEW_UNDER_WAY:
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
        batch = self._next()
        self._start()
        if not batch:
            return

        def tell(index: int, result: bind_pb2.BindResult) -> None:
            future = batch[index][1]
            if not future.done():
                future.set_result(result)

        try:
            await self._apply([action for action, _ in batch], tell)
        except Exception as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
        finally:
            for _, future in batch:
                future.cancel()

    def _next(self) -> list[tuple[bind_pb2.Action, asyncio.Future[bind_pb2.BindResult]]]:
        """What goes with one call. It is under way until its future is done."""
        batch = []
        while self._waiting and self._under_way < MAX_UNDER_WAY:
            _, _, action, future = heapq.heappop(self._waiting)
            # Of the others nobody waits any more.
            if not future.done():
                self._under_way += 1
                future.add_done_callback(self._answered)
                batch.append((action, future))
        return batch

    def _answered(self, _: "asyncio.Future[bind_pb2.BindResult]") -> None:
        self._under_way -= 1
        self._start()
