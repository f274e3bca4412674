"""The two forms in which Kubernetes writes times, and how they are read.

Tests: tests/unit/embedded/test_parts.py.
"""

import datetime
import time


def timestamp(seconds: float) -> str:
    """RFC 3339 with whole seconds, as metav1.Time."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def micro_timestamp(seconds: float) -> str:
    """RFC 3339 with microseconds, as metav1.MicroTime."""
    moment = datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_timestamp(text: str) -> float:
    """Seconds since the epoch of an RFC 3339 time."""
    return datetime.datetime.fromisoformat(text).timestamp()
