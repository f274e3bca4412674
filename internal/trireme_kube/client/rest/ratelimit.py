"""The client-side rate limit: a token bucket, as every Kubernetes client has one.

The bucket holds up to `burst` tokens and gains `qps` a second. A request takes one; if none is left it takes a future
one and learns how long to wait for it, so requests are served in order of arrival without polling. The arithmetic is
pure (the time is an argument); the caller does the waiting.
Source: golang.org/x/time/rate, as client-go's flowcontrol uses it.

Tests: tests/unit/client/rest/test_ratelimit.py, tests/unit/bind/test_waiting_for_rate_limit.py.
"""


class TokenBucket:
    """How long each request waits. Units: seconds, on any monotonic clock."""

    __slots__ = ("_burst", "_qps", "_stamp", "_tokens")

    def __init__(self, qps: float, burst: int) -> None:
        """A negative or zero `qps` disables the limit; a burst under one counts as one."""
        self._qps = qps
        self._burst = float(max(burst, 1))
        self._tokens = self._burst
        self._stamp = 0.0

    def take(self, now: float) -> float:
        """Take a token and return in how many seconds from `now` it is valid (0: at once)."""
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
        """Return an unused token, for example after the request was cancelled."""
        if self._qps > 0:
            self._tokens = min(self._burst, self._tokens + 1.0)
