"""The circuit breaker of a remote plugin. Pure.

Without it, a plugin that is down would cost every pod its deadline before the failure policy applies. After a number of
consecutive failures the breaker opens and calls fail at once; when its time is over, it admits one call as a probe,
whose result closes it or opens it again.

Invariant: between two responses of the plugin, at most one call is admitted each time the open period ends. The caller
decides what a failure is: a plugin that refuses a pod, or rejects the request as invalid, has responded.
"""

import enum
from collections.abc import Callable


class State(enum.StrEnum):
    """The breaker's state; the values appear in metrics and in readiness."""

    #: Calls are admitted.
    CLOSED = "closed"
    #: Calls fail at once.
    OPEN = "open"
    #: One call probes the plugin; others fail as if the breaker were open.
    HALF_OPEN = "half-open"


class Breaker:
    """One plugin's breaker. With `failures` 0 it never opens."""

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
        """The current state."""
        return self._state

    @property
    def failures_in_a_row(self) -> int:
        """Failures since the last response."""
        return self._in_a_row

    @property
    def opened(self) -> int:
        """How often it has opened."""
        return self._opened

    def admit(self) -> bool:
        """Whether a call may go to the plugin now. An admitted caller must report its result."""
        if self._state is State.CLOSED:
            return True
        if self._state is State.OPEN and self._clock() >= self._reopens_at:
            self._state = State.HALF_OPEN
            return True
        return False

    def record_answer(self) -> None:
        """Report a response."""
        self._state = State.CLOSED
        self._in_a_row = 0

    def record_failure(self) -> None:
        """Report a failure: no response, or an unusable one."""
        self._in_a_row += 1
        if self._state is State.HALF_OPEN or (self._state is State.CLOSED and 0 < self._limit <= self._in_a_row):
            self._open()

    def record_abandoned(self) -> None:
        """Report a cancelled call: it proved nothing, and the next caller may probe."""
        if self._state is State.HALF_OPEN:
            self._state = State.OPEN

    def _open(self) -> None:
        self._state = State.OPEN
        self._reopens_at = self._clock() + self._open_seconds
        self._opened += 1
