"""Turns for work that writes: how much of it is under way at once.

A client with a rate limit sends its requests in the order in which they came. Work that is begun while many requests
wait for the limit makes all of them later, until their deadlines pass and they are sent again. So no work begins while
a request would wait for longer than `MAX_DELAY_SECONDS`, and with a low limit little is under way at once: the work
waits here, without a deadline, and what has begun ends soon.

Tests: tests/unit/bind/test_waiting_for_rate_limit.py.
"""

import asyncio
import math
from collections.abc import Callable
from types import TracebackType

CONCURRENCY = 64
"""Pieces of work under way at once. More do not make an API server faster; they only make each of them slower."""

MAX_DELAY_SECONDS = 0.5
"""Work begins only if a request sent now would wait for the rate limit for no longer than this."""

LEAST_SECONDS = 0.001
"""Less is not waited for: rounding errors are no delay."""


class RateLimit:
    """The rate limit of the client that writes."""

    def __init__(self, qps: float, delay: Callable[[], float]) -> None:
        """`qps` in requests a second, negative or zero: none. `delay`: seconds that a request sent now would wait."""
        self._delay = delay
        self._order = asyncio.Lock()
        self.concurrency = CONCURRENCY if qps <= 0 else min(CONCURRENCY, max(1, math.ceil(qps)))

    def delay_seconds(self) -> float:
        """How long work has to wait for the rate limit; 0: it may begin now. Units: seconds."""
        delay = self._delay() - MAX_DELAY_SECONDS
        return delay if delay > LEAST_SECONDS else 0.0

    async def wait(self) -> None:
        """Return when work may begin, in order of arrival. What follows without a wait is not overtaken."""
        if not self._order.locked() and not self.delay_seconds():
            return
        async with self._order:  # one waits for the limit, so that many do not wake up in vain
            delay = self.delay_seconds()
            while delay > 0:
                await asyncio.sleep(delay)
                delay = self.delay_seconds()


UNLIMITED = RateLimit(0.0, lambda: 0.0)


class WriteTurns:
    """An asynchronous context manager: the block is one piece of work. Waits for its turn, in order of arrival."""

    def __init__(self, limit: RateLimit) -> None:
        self._limit = limit
        self._slots = asyncio.Semaphore(limit.concurrency)

    async def __aenter__(self) -> None:
        await self._slots.acquire()
        try:
            await self._limit.wait()
        except BaseException:
            self._slots.release()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._slots.release()
