"""Time by which recordings age: the wall clock's, without its steps.

A clock that is set forward by mistake, for a second, would make everything look older than any limit of age.

Tests: tests/unit/recording/test_segment_writer.py.
"""

import logging
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

# The wall clock is adjusted all the time, by some milliseconds; more than this between two looks is a step.
STEP_SECONDS = 60.0
_NS = 1_000_000_000


def boot_seconds() -> float:
    """Seconds since the machine started, those in which it was suspended included; nobody sets this clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SteadyTime:
    """Wall time from when it was first read on. Where the wall clock steps, what `steady` counts goes on."""

    def __init__(self, steady: Callable[[], float] = boot_seconds) -> None:
        """`steady` returns seconds."""
        self._steady = steady
        self._last: tuple[int, float] | None = None
        self._now_ns = 0

    def at(self, wall_ns: int) -> int:
        """The time now, where the wall clock says `wall_ns`. Units: nanoseconds since 1970."""
        steady = self._steady()
        if self._last is None:
            self._now_ns = wall_ns
        else:
            by_wall, by_steady = wall_ns - self._last[0], int((steady - self._last[1]) * _NS)
            step = (by_wall - by_steady) / _NS
            is_step = abs(step) > STEP_SECONDS
            if is_step:
                log.warning(
                    "the wall clock was set by %+.0f s; recordings age as if it were not, check the host's clock", step
                )
            self._now_ns += by_steady if is_step else by_wall
        self._last = wall_ns, steady
        return self._now_ns
