"""Turns: so many simulations or explanations at a time, and of callers that wait one after the other.

So a caller with many questions waits for its own, and each of the others for at most one of them.
"""

import asyncio
import collections
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

MAX_WAITING = 32
MAX_WAITING_OF_CALLER = 8
# While calls are refused, the most that a turn begins later for them. Units: seconds.
MAX_PAUSE_SECONDS = 0.3
# And so many times as long as the turn before took.
PAUSE_PART = 3


class TooManyWaitingError(Exception):
    """As many wait as may; the text says who."""


class Turns:
    """Whose turn it is."""

    def __init__(
        self,
        max_waiting: int = MAX_WAITING,
        max_of_caller: int = MAX_WAITING_OF_CALLER,
        *,
        at_once: int = 1,
        what: str = "simulations",
    ) -> None:
        """`what` takes turns, for errors; `at_once` of them have theirs at the same time."""
        self._what = what
        self._max_waiting = max_waiting
        self._max_of_caller = max_of_caller
        self._free = at_once
        self._refused = 0  # since the last pause
        self._last_seconds = 0.0
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
        clock = asyncio.get_running_loop().time
        try:
            await self._let_calls_in()
            began = clock()
            try:
                yield
            finally:
                self._last_seconds = clock() - began
        finally:
            self._pass_on()

    async def _let_calls_in(self) -> None:
        """Have calls that have come meanwhile read before a turn begins.

        What has its turn may wait for nothing, and then their callers would not be among those that wait until all
        that came before them is answered. While there are more calls than may wait, these have three quarters of the
        time: gRPC takes a call in each iteration of the loop, and the last of ten thousand would wait for as many parts
        of turns.
        """
        refused, self._refused = self._refused, 0
        await asyncio.sleep(min(self._last_seconds * PAUSE_PART, MAX_PAUSE_SECONDS) if refused else 0)

    async def _take(self, caller: str) -> None:
        """Return when it is the caller's turn."""
        if self._free:
            self._free -= 1
            return
        own = self._waiting.get(caller, ())
        if len(own) >= self._max_of_caller:
            self._refused += 1
            raise TooManyWaitingError(
                f"{len(own)} {self._what} of the same caller wait already: wait for their answers"
            )
        if self.waiting >= self._max_waiting:
            self._refused += 1
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
        self._free += 1

    def _drop(self, caller: str, turn: "asyncio.Future[None]") -> None:
        """Forget one that waits no more."""
        turns = self._waiting.get(caller)
        if turns is not None and turn in turns:
            turns.remove(turn)
            if not turns:
                del self._waiting[caller]
