"""Items on their way to bind, whose callers wait for the results: those of several callers share one call.

A call between processes costs as much as the write that it asks for. Items that arrive while a call is under way are
sent together a moment later. An item that arrives alone is sent at once, and no caller waits for the results of others.

Bind works on a limited number of items at once, in the order in which they came. So only as many are sent as keep it
busy; the others wait here, in order of rank, so that an important item is not behind hundreds of less important ones.
Of many preemptors the first is bound before the victims of the last one are deleted.
"""

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Protocol, TypeVar

# Items under way; a new call begins when half of them are done. Bind executes 64 actions at once.
MAX_UNDER_WAY = 192
LINGER_SECONDS = 0.01

Rank = tuple[int, int]
FIRST: Rank = (-(2**63), 0)

Item = TypeVar("Item")
Result = TypeVar("Result")
ItemContra = TypeVar("ItemContra", contravariant=True)
ResultCo = TypeVar("ResultCo", covariant=True)


class SendBatch(Protocol[ItemContra, ResultCo]):
    """Sends all items in one call, and passes each result on with its index as it is known.

    Implementers: trireme.scheduling.ports.Binder.apply, trireme.scheduling.ports.Binder.pre_bind,
    trireme.scheduling.ports.Binder.pre_bind_pre_flight.
    """

    def __call__(self, items: Sequence[ItemContra], on_result: Callable[[int, ResultCo], None], /) -> Awaitable[object]:
        """Ends when all have results."""


class ItemBatches(Generic[Item, Result]):
    """Gathers items of concurrent callers, and sends them by `send` in batches; each caller waits for its own result.

    So what is pending is bounded by the number of callers.
    """

    def __init__(
        self, send: SendBatch[Item, Result], max_under_way: int = MAX_UNDER_WAY, max_calls: int | None = None
    ) -> None:
        """At most `max_under_way` items are in at most `max_calls` calls (None: any number)."""
        self._send = send
        self._max = max_under_way
        self._max_calls = max_calls
        self._waiting: list[tuple[Rank, int, Item, asyncio.Future[Result]]] = []
        self._turns = itertools.count()  # of equal rank the first
        self._calls: set[asyncio.Task[None]] = set()
        self._under_way = 0
        self._gathering = False
        #: Items that have got their result, ever.
        self.answered = 0

    async def execute(self, items: Sequence[Item], rank: Rank = FIRST) -> list[Result]:
        """Send these items, those of the lowest rank first; answers a result for each, in order."""
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Result]] = []
        for item in items:
            futures.append(loop.create_future())
            heapq.heappush(self._waiting, (rank, next(self._turns), item, futures[-1]))
        self._start_call_if_due()
        return list(await asyncio.gather(*futures))

    async def close(self) -> None:
        """Cancel the calls under way, and the callers that wait for them."""
        for task in self._calls:
            task.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        for *_, future in self._waiting:
            future.cancel()
        self._waiting.clear()

    def _start_call_if_due(self) -> None:
        """Start the next call if items wait, few are under way, and no limit of calls is reached."""
        if self._gathering or not self._waiting or self._under_way > self._max // 2:
            return
        if self._max_calls is not None and len(self._calls) >= self._max_calls:
            return
        self._gathering = True
        task = asyncio.create_task(self._execute_next_batch(LINGER_SECONDS if self._calls else 0.0))
        self._calls.add(task)
        task.add_done_callback(self._on_call_ended)

    def _on_call_ended(self, task: asyncio.Task[None]) -> None:
        """Drop the task of a call that has ended; start the next call if it is due, unless this one was cancelled."""
        self._calls.discard(task)
        if not task.cancelled():
            self._start_call_if_due()

    async def _execute_next_batch(self, linger: float) -> None:
        """Send what has gathered after `linger` seconds, and let the next call begin.

        Each item gets its result; if the call fails, those without one get the error. Items that the call
        says nothing about are cancelled.
        """
        try:
            await asyncio.sleep(linger)
        finally:
            self._gathering = False
        batch = self._take_next_batch()
        if not batch:
            return

        def on_result(index: int, result: Result) -> None:
            future = batch[index][1]
            if not future.done():
                self.answered += 1
                future.set_result(result)

        try:
            await self._send([item for item, _ in batch], on_result)
        except Exception as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
        finally:
            for _, future in batch:
                future.cancel()

    def _take_next_batch(self) -> list[tuple[Item, asyncio.Future[Result]]]:
        """The items of one call. Each is under way until its future is done."""
        batch = []
        while self._waiting and self._under_way < self._max:
            _, _, item, future = heapq.heappop(self._waiting)
            # The callers of the others were cancelled.
            if not future.done():
                self._under_way += 1
                future.add_done_callback(self._on_item_ended)
                batch.append((item, future))
        return batch

    def _on_item_ended(self, _: "asyncio.Future[Result]") -> None:
        """Count one item fewer, which has its result or no caller any more; start the next call if it is due."""
        self._under_way -= 1
        self._start_call_if_due()
