"""The durations of the last calls of each RPC, and how long most of them take: when to hedge a call.

Also change: docs/operating-plugins.md (how many calls are enough).

Tests: tests/unit/remote/test_hedging.py, tests/contract/test_plugin_replicas.py.
"""

import collections

# Calls that are remembered for an RPC, and how many must have ended before their 95th percentile means something.
REMEMBERED = 200
ENOUGH = 20
# After how many calls the percentile is computed again; at most ENOUGH.
RECOMPUTE = 10


class RecentDurations:
    """The durations of the last calls of one RPC."""

    __slots__ = ("_durations", "_p95", "_since")

    def __init__(self) -> None:
        self._durations: collections.deque[float] = collections.deque(maxlen=REMEMBERED)
        self._p95: float | None = None
        self._since = 0

    def add(self, seconds: float) -> None:
        """Add the duration of a call that was answered."""
        self._durations.append(seconds)
        self._since += 1
        if len(self._durations) >= ENOUGH and self._since >= RECOMPUTE:
            self._since = 0
            self._p95 = sorted(self._durations)[len(self._durations) * 95 // 100]

    @property
    def p95(self) -> float | None:
        """Nineteen of twenty calls took less, in seconds; None: too few calls have ended."""
        return self._p95
