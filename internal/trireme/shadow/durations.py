"""Durations: quantiles of many durations in a fixed amount of memory."""

import bisect
import itertools

# Upper bounds of the buckets: 1 ms to some 28 hours, each 15 % more than the one before. Units: seconds.
_BOUNDS = tuple(itertools.accumulate([0.001] + [1.15] * 132, lambda bound, factor: bound * factor))


class Durations:
    """Counts durations in buckets: a quantile is the bucket's upper bound, at most 15 % too high. Units: seconds."""

    def __init__(self) -> None:
        self._counts = [0] * (len(_BOUNDS) + 1)
        self.count = 0
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self._counts[bisect.bisect_left(_BOUNDS, seconds)] += 1
        self.count += 1
        self.total += seconds

    @property
    def mean(self) -> float:
        """The mean; 0 before the first."""
        return self.total / self.count if self.count else 0.0

    def quantile(self, share: float) -> float:
        """The duration that this share of all does not exceed; 0 before the first."""
        if not self.count:
            return 0.0
        rank = share * self.count
        for number, passed in enumerate(itertools.accumulate(self._counts)):
            if passed >= rank:
                return _BOUNDS[min(number, len(_BOUNDS) - 1)]
        return _BOUNDS[-1]
