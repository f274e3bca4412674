"""Collects the results of many pieces of work for the one call that waits for them, in batches.

A message on a stream costs as much as a binding itself, so the first result waits a moment for others. That delays
nothing: the pod is bound, and its watchers know. The last result of a call does not wait.

Tests: tests/unit/bind/test_binding_writer.py.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

LINGER_SECONDS = 0.025

WAITING_LIMIT = 20_000
"""Once so many pods wait, for bindings, PreBind or actions each, a call is refused and goes to another replica.

While fewer wait a call of any size is taken: one that was refused for its own size would be refused forever.
"""

T = TypeVar("T")


class BusyError(Exception):
    """Too much is queued here; nothing of the call was begun, and another replica may take it."""


def check_not_busy(waiting: int, text: str) -> None:
    """Raise BusyError with a text about so many that wait, if they are too many."""
    if waiting >= WAITING_LIMIT:
        raise BusyError(f"{text.format(waiting)} already")


class CallResults(Generic[T]):
    """The results of one call, by index, as they come. `gone`: the caller does not wait any more."""

    __slots__ = ("_arrived", "_new", "gone")

    def __init__(self) -> None:
        self._new: list[tuple[int, T]] = []
        self._arrived = asyncio.Event()
        self.gone = False

    def put(self, index: int, outcome: T) -> None:
        """Add the outcome of the piece of work with this index."""
        self._new.append((index, outcome))
        self._arrived.set()

    async def batches(self, count: int) -> AsyncIterator[list[tuple[int, T]]]:
        """Yield the outcomes in batches as they come, until there were `count` in all."""
        while count:
            await self._arrived.wait()
            if len(self._new) < count:
                await asyncio.sleep(LINGER_SECONDS)
            new, self._new = self._new, []
            self._arrived.clear()
            count -= len(new)
            yield new
