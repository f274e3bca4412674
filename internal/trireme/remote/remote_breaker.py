"""The circuit breaker of a remote plugin, as a pure core.

A plugin that is down costs every pod its deadline before the failure policy says what becomes of the pod. The breaker
spends that once: after so many failures in a row it is open and nobody is asked; when its time is over one caller is
let through to try, and what happens to that one closes it or opens it again.

Invariant: between two answers of the plugin at most one call is let through each time the breaker's time is over. What
a failure is, the caller says: a plugin that refuses a pod, or cannot make sense of one, has answered.
"""

import enum
from collections.abc import Callable


class State(enum.StrEnum):
    """Whether the plugin is asked; the values stand in metrics and in readiness."""

    #: It is asked.
    CLOSED = "closed"
    #: It is not asked: the failure is known beforehand.
    OPEN = "open"
    #: One call tries it; the others are answered as if it were open.
    HALF_OPEN = "half-open"


class Breaker:
    """One plugin's breaker. `failures` 0: it never opens."""

    __slots__ = ("_clock", "_in_a_row", "_limit", "_open_seconds", "_opened", "_reopens_at", "_state")

    def __init__(self, failures: int, open_seconds: float, clock: Callable[[], float]) -> None:
        self._limit = failures
        self._open_seconds = open_seconds
        self._clock = clock
        self._state = State.CLOSED
        self._in_a_row = 0
        self._reopens_at = 0.0
        self._opened = 0

    @property
    def state(self) -> State:
        """Whether the plugin is asked."""
        return self._state

    @property
    def failures_in_a_row(self) -> int:
        """Failures since the last answer."""
        return self._in_a_row

    @property
    def opened(self) -> int:
        """How often it has opened."""
        return self._opened

    def admit(self) -> bool:
        """Whether the plugin may be asked now. Who was admitted says afterwards how it went."""
        if self._state is State.CLOSED:
            return True
        if self._state is State.OPEN and self._clock() >= self._reopens_at:
            self._state = State.HALF_OPEN
            return True
        return False

    def answered(self) -> None:
        """The plugin answered."""
        self._state = State.CLOSED
        self._in_a_row = 0

    def failed(self) -> None:
        """The plugin did not answer, or nothing that could be used."""
        self._in_a_row += 1
        if self._state is State.HALF_OPEN or (self._state is State.CLOSED and 0 < self._limit <= self._in_a_row):
            self._open()

    def abandoned(self) -> None:
        """The caller went away before there was an answer: nothing was learnt, and the next caller may try."""
        if self._state is State.HALF_OPEN:
            self._state = State.OPEN

    def _open(self) -> None:
        self._state = State.OPEN
        self._reopens_at = self._clock() + self._open_seconds
        self._opened += 1
