"""How long calls took, as a histogram that processes can add up: quantiles of the sum are as good as of one.

A bucket's upper bound is a fifth above the one before it, so a quantile is at most that much too high.

Also change: protos/trireme/v1/plugin.proto (the histogram).

Tests: tests/contract/test_plugin_client.py, tests/contract/test_plugin_calls.py.
"""

import bisect
from collections.abc import Sequence

_FIRST_SECONDS = 0.0001
_BUCKETS = 88
#: Upper bounds of the buckets, 0.1 ms to six minutes.
BOUNDS_SECONDS: Sequence[float] = tuple(_FIRST_SECONDS * 2 ** (at / 4) for at in range(_BUCKETS))


class CallDurations:
    """Counts of calls by duration, in buckets, from which quantiles are estimated."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS

    def observe(self, seconds: float) -> None:
        """Count one call."""
        self._counts[min(bisect.bisect_left(BOUNDS_SECONDS, seconds), _BUCKETS - 1)] += 1

    def add(self, counts: Sequence[int]) -> None:
        """Add the counts of another process, without trailing zeros."""
        for at, count in enumerate(counts[:_BUCKETS]):
            self._counts[at] += count

    def counts(self) -> list[int]:
        """Return the counts by bucket, without trailing zeros."""
        last = max((at for at, count in enumerate(self._counts) if count), default=-1)
        return self._counts[: last + 1]

    def quantile(self, share: float) -> float | None:
        """Return the duration that `share` (0 to 1) of the calls did not exceed; None before the first call."""
        total = sum(self._counts)
        if not total:
            return None
        reached = 0
        for bound, count in zip(BOUNDS_SECONDS, self._counts, strict=True):
            reached += count
            if reached >= share * total:
                return bound
        return BOUNDS_SECONDS[-1]
