"""Durations as `kubectl` shows them: two units at most, fewer the longer they are.

Source: k8s.io/apimachinery, pkg/util/duration.

Tests: tests/unit/embedded/printers/test_tables.py, tests/unit/cli/test_display.py.
"""

import math

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "y": 31_536_000}
# Durations below so many seconds are shown in this unit, and a smaller one.
_FORMS = (
    (2 * 60, "s", ""),
    (10 * 60, "m", "s"),
    (3 * 3600, "m", ""),
    (8 * 3600, "h", "m"),
    (48 * 3600, "h", ""),
    (8 * 86_400, "d", "h"),
    (2 * 31_536_000, "d", ""),
    (8 * 31_536_000, "y", "d"),
    (math.inf, "y", ""),
)


def human_duration(seconds: float) -> str:
    """A duration in the short form of the AGE column."""
    if seconds <= -2:
        return "<invalid>"
    whole = max(int(seconds), 0)
    unit, smaller = next((unit, smaller) for below, unit, smaller in _FORMS if whole < below)
    count, rest = divmod(whole, _SECONDS[unit])
    rest = rest // _SECONDS[smaller] if smaller else 0
    return f"{count}{unit}" + (f"{rest}{smaller}" if rest else "")
