"""The clocks, and which of them is for what. Only this module reads the wall clock (`make lint` checks it).

The wall clock may be set back or forward at any time. It is for what is written (conditions, events, Leases), for what
people are shown, and for what is compared with times that others wrote into API objects. Everything else (delays,
deadlines, ages, the order of things) goes by a clock that only time moves: `time.monotonic`, or `steady` where Unix
seconds are wanted.
"""

import time
from datetime import UTC, datetime

_BEGINNING = time.time() - time.monotonic()


def wall() -> float:
    """The wall clock. Units: Unix seconds."""
    return time.time()


def wall_ns() -> int:
    """The wall clock. Units: nanoseconds since 1970."""
    return time.time_ns()


def utc_now() -> datetime:
    """The wall clock."""
    return datetime.now(UTC)


def steady() -> float:
    """Unix seconds as the wall clock had them when this process began, plus the time that has passed since."""
    return _BEGINNING + time.monotonic()


def to_wall(moment: float, steady_now: float, wall_now: float) -> float:
    """A moment of the steady clock by the wall clock as it is now. Units: Unix seconds."""
    return moment - steady_now + wall_now
