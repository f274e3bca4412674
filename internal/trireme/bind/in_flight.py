"""What is under way, by epoch: what a new leader waits for before it trusts that its predecessor writes nothing more.

Pure bookkeeping around one event. Invariant: a piece of work is listed from before its first write until nothing it did
can take effect any more, or its `until` has passed.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Work:
    """One piece of work; `until` is when its writes can have no effect any more, on the clock of the register."""

    __slots__ = ("epoch", "until")

    def __init__(self, epoch: int, until: float) -> None:
        self.epoch = epoch
        self.until = until


class InFlight:
    """The register of work under way."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._works: set[Work] = set()
        self._waiters: list[asyncio.Event] = []

    def __len__(self) -> int:
        return len(self._works)

    @contextmanager
    def under(self, epoch: int, until: float) -> Iterator[Work]:
        """Lists work for as long as the block runs."""
        work = Work(epoch, until)
        self._works.add(work)
        try:
            yield work
        finally:
            self._works.discard(work)
            for waiter in self._waiters:
                waiter.set()

    async def drained(self, epoch: int, patience: float) -> float:
        """Waits until nothing of a lower epoch is under way, but at most `patience` seconds.

        Answers for how many seconds what is left may still take effect: 0 when nothing is.
        """
        event = asyncio.Event()
        self._waiters.append(event)
        try:
            async with asyncio.timeout(max(patience, 0.0)):
                while self._below(epoch):
                    event.clear()
                    await event.wait()
        except TimeoutError:
            pass
        finally:
            self._waiters.remove(event)
        latest = max((work.until for work in self._below(epoch)), default=0.0)
        return max(latest - self._clock(), 0.0)

    def _below(self, epoch: int) -> list[Work]:
        return [work for work in self._works if work.epoch < epoch]
