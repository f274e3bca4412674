"""The work in flight, by leader: a new leader waits until that of its predecessors can write nothing more.

Pure bookkeeping around one event. Invariant: a piece of work is listed from before its first write until nothing it did
can take effect any more, or its `until` has passed. So work that was interrupted stays listed after its end: the API
server, or a plugin, may still execute its last request.

Tests: tests/unit/bind/test_leadership.py.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from typing import Any

from trireme.rpc.fencing import Leader

CANCEL_SECONDS = 1.0
"""How long work that was cancelled is waited for."""


class Work:
    """One piece of work; `until` is when its writes can have no effect any more, on the clock of the register."""

    __slots__ = ("broken_off", "leader", "until")

    def __init__(self, leader: Leader, until: float) -> None:
        self.leader = leader
        self.until = until
        self.broken_off = False


class WorkInFlight:
    """The calls that may still write, by the leader they are for: a new leader waits for its predecessor's."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._works: set[Work] = set()
        self._waiters: list[asyncio.Event] = []

    def __len__(self) -> int:
        self._forget_ineffective()
        return len(self._works)

    @contextmanager
    def track(self, leader: Leader, until: float, settle: float = float("inf")) -> Iterator[Work]:
        """List work while the block runs.

        If the block ends by an exception or a cancellation, the work stays listed until its `until`, but no longer than
        `settle` seconds more.
        """
        self._forget_ineffective()
        work = Work(leader, until)
        self._works.add(work)
        try:
            yield work
        except BaseException:
            work.broken_off = True
            work.until = min(work.until, self._clock() + settle)
            raise
        else:
            self._works.discard(work)
        finally:
            for waiter in self._waiters:
                waiter.set()

    async def until_drained(self, leader: Leader, patience: float) -> float:
        """Waits until nothing of another leader is under way, but at most `patience` seconds.

        Returns for how many seconds the remaining work may still take effect: 0 when none is left.
        """
        event = asyncio.Event()
        self._waiters.append(event)
        end = self._clock() + patience
        try:
            while (works := self._work_of_other_leaders(leader)) and (now := self._clock()) < end:
                # Nothing signals the end of interrupted work.
                wake = min(end, *(work.until for work in works if work.broken_off), end)
                event.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wake - now):
                        await event.wait()
        finally:
            self._waiters.remove(event)
        latest = max((work.until for work in self._work_of_other_leaders(leader)), default=0.0)
        return max(latest - self._clock(), 0.0)

    def _work_of_other_leaders(self, leader: Leader) -> list[Work]:
        """The listed work of all leaders but this one whose writes may still take effect."""
        self._forget_ineffective()
        return [work for work in self._works if work.leader != leader]

    def _forget_ineffective(self) -> None:
        """Drop work that was broken off and whose writes can have no effect any more."""
        now = self._clock()
        self._works -= {work for work in self._works if work.broken_off and work.until <= now}


async def end_tasks(tasks: Set[asyncio.Task[Any]], patience: float) -> None:
    """Wait `patience` seconds for the tasks, then cancel the rest, and wait for those for a moment."""
    late = tasks
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=patience)
    if late:
        for task in late:
            task.cancel()
        await asyncio.wait(late, timeout=CANCEL_SECONDS)
