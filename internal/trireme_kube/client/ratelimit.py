"""The client-side rate limit: a token bucket, as every Kubernetes client has one.

The bucket holds up to `burst` tokens and gains `qps` a second. A request takes one; if none is left it takes one of
the future and is told how long to wait for it, so requests are served in the order in which they came and nobody
polls. The arithmetic is pure (the time comes in as an argument); the waiting is the caller's.
Source: golang.org/x/time/rate, as client-go's flowcontrol uses it.
"""

from __future__ import annotations


class TokenBucket:
    """How long each request waits. Units: seconds, on any monotonic clock."""

    __slots__ = ("_burst", "_qps", "_stamp", "_tokens")

    def __init__(self, qps: float, burst: int) -> None:
        """A negative or zero `qps` switches the limit off; a burst under one counts as one."""
        self._qps = qps
        self._burst = float(max(burst, 1))
        self._tokens = self._burst
        self._stamp = 0.0

    def take(self, now: float) -> float:
        """Takes a token and answers how many seconds from `now` it is valid (0: at once)."""
        if self._qps <= 0:
            return 0.0
        if now > self._stamp:
            self._tokens = min(self._burst, self._tokens + (now - self._stamp) * self._qps)
            self._stamp = now
        self._tokens -= 1.0
        return 0.0 if self._tokens >= 0 else -self._tokens / self._qps

    def delay(self, now: float) -> float:
        """How many seconds after `now` a token taken now would be valid; takes none."""
        if self._qps <= 0:
            return 0.0
        tokens = min(self._burst, self._tokens + max(now - self._stamp, 0.0) * self._qps)
        return max(1.0 - tokens, 0.0) / self._qps

    def give_back(self) -> None:
        """Returns a token that was taken and not used: who waited for it gave up."""
        if self._qps > 0:
            self._tokens = min(self._burst, self._tokens + 1.0)
