"""The circuit breaker of one RPC of a remote plugin. Pure.

Without it, a plugin that is down would cost every pod its deadline before the failure policy applies. After a number of
consecutive failures the breaker opens and calls fail at once; when its time is over, it admits one call as a probe,
whose result closes it or opens it again.

Invariant: between two responses to the RPC, one call at a time is admitted once the open period has ended; a probe that
ends without a result, because its caller gave up, lets the next call probe. The caller decides what a failure is: a
plugin that refuses a pod, or rejects the request as invalid, has responded.

Each change of the state begins a new period. A call belongs to the period in which it was admitted, and its failure
counts in that period alone: one that was sent before the breaker opened says nothing of the probe. A response counts
always.

Also change: console/src/views/components.tsx (states of a circuit breaker).
Also change: docs/operating-plugins.md.

Tests: tests/unit/remote/test_breaker.py.
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


BEST_TO_WORST = (State.CLOSED, State.HALF_OPEN, State.OPEN)


class Breaker:
    """The breaker of one RPC. With `failures` 0 it never opens."""

    __slots__ = ("_clock", "_in_a_row", "_limit", "_open_seconds", "_opened", "_period", "_probe_from", "_state")

    def __init__(self, failures: int, open_seconds: float, clock: Callable[[], float]) -> None:
        self._limit = failures
        self._open_seconds = open_seconds
        self._clock = clock
        self._state = State.CLOSED
        self._period = 0
        self._in_a_row = 0
        self._probe_from = 0.0
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

    @property
    def is_probe_due(self) -> bool:
        """Whether the next call that is admitted is a probe."""
        return self._state is State.OPEN and self._clock() >= self._probe_from

    def admit(self) -> int | None:
        """Admit a call to the plugin, or None. The caller reports its result, and then its end, with this period."""
        if self._state is State.OPEN and self._clock() >= self._probe_from:
            self._enter(State.HALF_OPEN)
            return self._period
        return self._period if self._state is State.CLOSED else None

    def record_answer(self) -> None:
        """Report a response."""
        self._in_a_row = 0
        if self._state is not State.CLOSED:
            self._enter(State.CLOSED)

    def record_failure(self, period: int) -> None:
        """Report that a call of the period failed: no response, or an unusable one."""
        if period != self._period:
            return
        self._in_a_row += 1
        if self._state is State.HALF_OPEN or 0 < self._limit <= self._in_a_row:
            self._enter(State.OPEN)
            self._probe_from = self._clock() + self._open_seconds
            self._opened += 1

    def release(self, period: int) -> None:
        """Report that a call of the period ended. If it was a probe without a result, the next call probes."""
        if self._state is State.HALF_OPEN and period == self._period:
            self._enter(State.OPEN)

    def _enter(self, state: State) -> None:
        """Change the state; a new period begins, so that calls of the last one count no more."""
        self._state = state
        self._period += 1
