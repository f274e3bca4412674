"""A work queue of keys for one controller or kubelet: each key at most once, some of them later.

Controllers never look through all objects on a timer: an event puts the key of what it concerns here, and one task
works the keys off, a few at a time, so that a burst of thousands does not stop the server from answering. A key whose
work fails is tried again after a while, and the others go on.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_LOG = logging.getLogger(__name__)
_AT_ONCE = 32
_RETRY_SECONDS = 1.0


class WorkQueue(Generic[K]):
    """Keys to be worked off by `work`, which is called with one key at a time and must not block."""

    def __init__(self, name: str, work: Callable[[K], None], clock: Callable[[], float]) -> None:
        """`clock` tells the seconds that delays are measured in."""
        self._name = name
        self._work = work
        self._clock = clock
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._order = itertools.count()
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due)

    @property
    def due(self) -> bool:
        """Whether a key waits that may be worked off now."""
        wait = self._until_next()
        return wait is not None and wait <= 0

    def add(self, key: K, delay: float = 0.0) -> None:
        """Has the key worked off after `delay` seconds, or when it is due already, whichever comes first."""
        due = self._clock() + delay
        if self._due.get(key, float("inf")) <= due:
            return
        self._due[key] = due
        heapq.heappush(self._heap, (due, next(self._order), key))
        self._wake.set()

    def work_off(self) -> float | None:
        """Works off some keys that are due; answers the seconds until the next one is, None where there is none."""
        for _ in range(_AT_ONCE):
            wait = self._until_next()
            if wait is None or wait > 0:
                return wait
            _, _, key = heapq.heappop(self._heap)
            del self._due[key]
            try:
                self._work(key)
            except Exception:
                # One object that a controller cannot digest must not stop it for all others.
                _LOG.exception("%s: %s failed, will be tried again", self._name, key)
                self.add(key, _RETRY_SECONDS)
        return self._until_next()

    def _until_next(self) -> float | None:
        while self._heap:
            due, _, key = self._heap[0]
            if self._due.get(key) == due:
                return max(due - self._clock(), 0.0)
            heapq.heappop(self._heap)  # the key was moved to an earlier time
        return None

    async def run(self) -> None:
        """Works until cancelled."""
        while True:
            self._wake.clear()
            wait = self.work_off()
            if wait is not None and wait <= 0:
                await asyncio.sleep(0)
                continue
            try:
                async with asyncio.timeout(wait):
                    await self._wake.wait()
            except TimeoutError:
                continue
