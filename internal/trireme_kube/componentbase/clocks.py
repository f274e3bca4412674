"""The clocks, and the use of each. Only this module reads the wall clock (`make lint` checks it).

The wall clock may be set back or forward at any time. It is for what is written (conditions, events, Leases), for what
people are shown, and for comparisons with times that others wrote into API objects. Everything else (delays, deadlines,
ages, the order of things) uses a monotonic clock: `time.monotonic`, or `steady` if Unix seconds are needed.
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
    return datetime.fromtimestamp(wall(), UTC)


def steady() -> float:
    """The wall clock at the start of this process, plus the time that has passed since. Units: Unix seconds."""
    return _BEGINNING + time.monotonic()


def to_wall(moment: float, steady_now: float, wall_now: float) -> float:
    """Convert a moment of the steady clock to the wall clock. Units: Unix seconds."""
    return moment - steady_now + wall_now
