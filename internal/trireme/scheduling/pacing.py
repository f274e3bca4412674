"""When the next batch is taken: at once while there is little to do, and under load once it has grown.

A batch costs a few calls however many pods it has, so under load it pays to let one grow for a moment. For how long
follows from the arrival rate: until a batch of the target size has come together, and never beyond a limit. When pods
stop arriving there is nothing to wait for. While no pod is being bound there is no load either, however fast pods
arrive: a client creates each pod when the one before is bound, and waits for the scheduler.
"""

from collections.abc import Callable

from trireme.scheduling import batch_limit

# Pods per second above which batches are let grow: below, a batch for each pod costs less than half a core.
BUSY_RATE = 80.0
# The arrival rate is a mean over about so long, in seconds.
_RATE_SECONDS = 0.5


class Pacer:
    """Decides how long the next batch may grow, from the rate at which pods arrive. Times in seconds."""

    def __init__(self, clock: Callable[[], float], linger: float, limit: batch_limit.BatchLimit) -> None:
        """No pod waits longer than `linger` for its batch to grow."""
        self._clock = clock
        self._limit = limit
        #: The longest that a pod waits for its batch to grow; a reload of the configuration may change it.
        self.linger_seconds = linger
        self._rate = 0.0
        self._rate_at = clock()
        self._last_arrival = 0.0

    @property
    def rate(self) -> float:
        """Pods that arrived per second, lately."""
        return self._rate * self._decay_factor(self._clock())

    def record_arrivals(self, pods: int) -> None:
        """Count pods that became active just now."""
        now = self._clock()
        self._rate = self._rate * self._decay_factor(now) + pods / _RATE_SECONDS
        self._rate_at = self._last_arrival = now

    def batch_delay(self, waiting: int, classes: int, oldest: float, binding: int) -> float:
        """Return how long to wait before taking the next batch; 0: take it now.

        It is 0 unless the load is high, bindings are under way and the batch is not full. Never more than 10 ms: the
        caller asks again. `waiting` pods of the next class wait, the oldest one for `oldest` seconds; `classes` classes
        wait in all, and `binding` pods are being bound and are not yet seen as bound.
        """
        rate = self.rate
        if not binding or waiting >= self._limit.growth_target or rate < BUSY_RATE:
            return 0.0
        patience = min(self.linger_seconds, self._limit.growth_target * classes / rate) - oldest
        quiet = self._clock() - self._last_arrival
        # No pod arrived for several times the usual gap between pods: the load is over.
        if patience <= 0 or quiet > max(0.02, 4 / rate):
            return 0.0
        return min(patience, 0.01)

    def _decay_factor(self, now: float) -> float:
        """How much of the last known rate counts still, from 1 down to 0 as time passes."""
        return float(max(0.0, 1.0 - (now - self._rate_at) / _RATE_SECONDS))
