"""Results on their way from many pieces of work to the one call that waits for them, in batches.

A message on a stream costs as much as a binding itself, so the first result waits a moment for others. Nobody is kept
from anything by that: the pod is bound, and who watches it knows. The last result of a call waits for nothing.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

LINGER_SECONDS = 0.025

T = TypeVar("T")


class Busy(Exception):
    """Too much waits here already; nothing of the call was begun, and another replica may take it."""


class Results(Generic[T]):
    """Where the outcomes of one call arrive, by index. `gone`: nobody waits for them any more."""

    __slots__ = ("_arrived", "_new", "gone")

    def __init__(self) -> None:
        self._new: list[tuple[int, T]] = []
        self._arrived = asyncio.Event()
        self.gone = False

    def put(self, index: int, outcome: T) -> None:
        """One outcome."""
        self._new.append((index, outcome))
        self._arrived.set()

    async def batches(self, count: int) -> AsyncIterator[list[tuple[int, T]]]:
        """The outcomes as they come, until there were `count`."""
        while count:
            await self._arrived.wait()
            if len(self._new) < count:
                await asyncio.sleep(LINGER_SECONDS)
            new, self._new = self._new, []
            self._arrived.clear()
            count -= len(new)
            yield new
