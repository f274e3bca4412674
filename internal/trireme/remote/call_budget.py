"""How long a plugin's calls may keep a process waiting: a plugin that is slow and does not fail opens no breaker.

The budget is a rate, seconds of calls in each second of time, and a burst of ten seconds' worth. Calls that overlap
count each. Once it is used up no call is made until half of the burst has come back, so that a plugin is left out for a
while and not for every second call.
"""

from collections.abc import Callable

BURST_SECONDS = 10.0


class CallBudget:
    """The budget of one plugin in one process. Pure."""

    __slots__ = ("_at", "_clock", "_left", "_rate", "bypassed", "exhausted")

    def __init__(self, rate: float, clock: Callable[[], float]) -> None:
        """`rate` is seconds of calls in each second; 0: there is no limit."""
        self._rate = rate
        self._clock = clock
        self._left = rate * BURST_SECONDS
        self._at = clock()
        #: Calls that were not made.
        self.bypassed = 0
        #: Whether no call is made now.
        self.exhausted = False

    def admits(self) -> bool:
        """Whether a call may be made now; one that may not is counted."""
        self._refill()
        if self._left >= self._rate * BURST_SECONDS / 2:
            self.exhausted = False
        if self.exhausted:
            self.bypassed += 1
            return False
        return True

    def spend(self, seconds: float) -> None:
        """A call took so long."""
        if not self._rate:
            return
        self._refill()
        self._left -= seconds
        if self._left < 0:
            self.exhausted = True
            # However long the call was: after the time for half of the burst it is called again.
            self._left = 0.0

    def _refill(self) -> None:
        """Add what the time since the last look brings."""
        now = self._clock()
        self._left = min(self._left + (now - self._at) * self._rate, self._rate * BURST_SECONDS)
        self._at = now
