"""The two forms in which Kubernetes writes times, from nanoseconds since the epoch.

`seconds` is metav1.Time, `micro` metav1.MicroTime. The second's text is cached: a burst of events shares it.
"""

import functools
import time


def rfc3339_seconds(nanoseconds: int) -> str:
    """Format nanoseconds since 1970 to the second: `2026-01-02T03:04:05Z`."""
    return f"{_format_whole_seconds(nanoseconds // 1_000_000_000)}Z"


def rfc3339_micros(nanoseconds: int) -> str:
    """Format nanoseconds since 1970 to the microsecond: `2026-01-02T03:04:05.123456Z`."""
    whole, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{_format_whole_seconds(whole)}.{rest // 1000:06d}Z"


@functools.lru_cache(maxsize=16)
def _format_whole_seconds(whole: int) -> str:
    """Format seconds since 1970, without the final Z; cached, since many times fall into one second."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
