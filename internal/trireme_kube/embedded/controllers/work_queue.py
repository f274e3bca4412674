"""A work queue of keys for one controller or kubelet: each key at most once, some of them delayed.

Controllers never scan all objects on a timer: an event adds the key of the affected object here, and one task processes
the keys, a few at a time, so that a burst of thousands does not block the server. A key whose processing fails is
retried later, while the others continue.

Tests: tests/unit/embedded/test_parts.py.
"""

import asyncio
import heapq
import itertools
import logging
import traceback
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from trireme_kube.embedded.api import api_errors
from trireme_kube.embedded.storage.store import DELETED, Event

K = TypeVar("K", bound=Hashable)

_LOG = logging.getLogger(__name__)
_AT_ONCE = 32
_RETRY_SECONDS, _RETRY_LIMIT_SECONDS = 1.0, 60.0
_FOLDER = Path(__file__).parent


@dataclass(slots=True)
class _ConsecutiveFailures:
    """The consecutive failures of one key."""

    count: int = 0
    quiet_until: float = float("-inf")


def _error_in_one_line(error: Exception) -> str:
    """The error in one line; with its place unless it is a refusal."""
    if isinstance(error, api_errors.ApiError):
        return " ".join(error.message.split())
    frames = traceback.extract_tb(error.__traceback__)
    place = next((one for one in reversed(frames) if Path(one.filename).is_relative_to(_FOLDER)), frames[-1])
    where = f"{Path(place.filename).name}:{place.lineno}"
    return " ".join(f"{type(error).__name__}: {error} ({where})".split())


class WorkQueue(Generic[K]):
    """Keys that `work` processes one at a time, when they are due, and again later if it fails.

    It must not block.
    """

    def __init__(self, name: str, work: Callable[[K], None], clock: Callable[[], float]) -> None:
        """`clock` returns the seconds in which delays are measured."""
        self._name = name
        self._work = work
        self._clock = clock
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._order = itertools.count()
        self._wake = asyncio.Event()
        self._failures: dict[K, _ConsecutiveFailures] = {}

    def __len__(self) -> int:
        return len(self._due)

    @property
    def due(self) -> bool:
        """Whether a key is due."""
        wait = self._seconds_until_next()
        return wait is not None and wait <= 0

    def add(self, key: K, delay: float = 0.0) -> None:
        """Process the key after `delay` seconds, or when it is due already, whichever is first."""
        due = self._clock() + delay
        if self._due.get(key, float("inf")) <= due:
            return
        self._due[key] = due
        heapq.heappush(self._heap, (due, next(self._order), key))
        self._wake.set()

    def process_due_keys(self) -> float | None:
        """Process some due keys; return the seconds until the next one is due, None if there is none."""
        for _ in range(_AT_ONCE):
            wait = self._seconds_until_next()
            if wait is None or wait > 0:
                return wait
            _, _, key = heapq.heappop(self._heap)
            del self._due[key]
            try:
                self._work(key)
            except Exception as error:
                # One object that a controller cannot process must not stop it for all others.
                self._retry_later(key, error)
            else:
                self._failures.pop(key, None)
        return self._seconds_until_next()

    def _retry_later(self, key: K, error: Exception) -> None:
        """Retry the key, with a growing delay, and log each delay once."""
        now = self._clock()
        failure = self._failures.setdefault(key, _ConsecutiveFailures())
        if now >= failure.quiet_until:
            wait = min(_RETRY_SECONDS * 2**failure.count, _RETRY_LIMIT_SECONDS)
            failure.count, failure.quiet_until = failure.count + 1, now + wait
            named = "/".join(str(part) for part in key if part) if isinstance(key, tuple) else key
            _LOG.warning("%s: %s: %s; again in %.0f s", self._name, named, _error_in_one_line(error), wait)
        # An event may add the key before that.
        self.add(key, failure.quiet_until - now)

    def _seconds_until_next(self) -> float | None:
        """Return the seconds until the next key is due, None if there is none."""
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
            wait = self.process_due_keys()
            if wait is not None and wait <= 0:
                await asyncio.sleep(0)
                continue
            try:
                async with asyncio.timeout(wait):
                    await self._wake.wait()
            except TimeoutError:
                continue


def queue_written(queue: WorkQueue[tuple[str, str]]) -> Callable[[Event], None]:
    """A listener that adds the key of each object that is created or changed."""

    def add(event: Event) -> None:
        if event.type != DELETED:
            queue.add(event.record.key)

    return add
