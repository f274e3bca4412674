"""Turns: one simulation (or explanation that simulates) at a time, and of callers that wait one after the other.

So a caller with many questions waits for its own, and each of the others for at most one of them.
"""

import asyncio
import collections
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

MAX_WAITING = 32
MAX_WAITING_OF_CALLER = 8


class TooManyWaitingError(Exception):
    """As many wait as may; the text says who."""


class Turns:
    """Whose turn it is."""

    def __init__(
        self, max_waiting: int = MAX_WAITING, max_of_caller: int = MAX_WAITING_OF_CALLER, *, what: str = "simulations"
    ) -> None:
        """`what` takes turns, for errors."""
        self._what = what
        self._max_waiting = max_waiting
        self._max_of_caller = max_of_caller
        self._taken = False
        # By caller, those that wait; the caller whose turn is next is first.
        self._waiting: collections.OrderedDict[str, collections.deque[asyncio.Future[None]]] = collections.OrderedDict()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def turn_for(self, caller: str) -> AsyncIterator[None]:
        """Wait for the caller's turn, and keep it within the block. Raises: TooManyWaitingError."""
        await self._take(caller)
        try:
            yield
        finally:
            self._pass_on()

    async def _take(self, caller: str) -> None:
        """Return when it is the caller's turn."""
        if not self._taken:
            self._taken = True
            return
        own = self._waiting.get(caller, ())
        if len(own) >= self._max_of_caller:
            raise TooManyWaitingError(
                f"{len(own)} {self._what} of the same caller wait already: wait for their answers"
            )
        if self.waiting >= self._max_waiting:
            raise TooManyWaitingError(f"{self.waiting} {self._what} wait already: ask again later, or another replica")
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, collections.deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_on()
            else:
                self._drop(caller, turn)
            raise

    def _pass_on(self) -> None:
        """Let the next caller have its turn."""
        while self._waiting:
            caller, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[caller] = turns
            if not turn.done():
                turn.set_result(None)
                return
        self._taken = False

    def _drop(self, caller: str, turn: "asyncio.Future[None]") -> None:
        """Forget one that waits no more."""
        turns = self._waiting.get(caller)
        if turns is not None and turn in turns:
            turns.remove(turn)
            if not turns:
                del self._waiting[caller]
