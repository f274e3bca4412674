"""Durations as `kubectl` shows them: two units at most, fewer the longer they are.

Source: k8s.io/apimachinery, pkg/util/duration.
"""

from trireme_kube.embedded.api.timestamps import parse_timestamp

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 31_536_000


def _text_of_two_units(first: int, unit: str, second: int, smaller: str) -> str:
    return f"{first}{unit}{second}{smaller}" if second else f"{first}{unit}"


def human_duration(seconds: float) -> str:
    """A duration in the short form of the AGE column."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    minutes, hours = whole // _MINUTE, whole // _HOUR
    if minutes < 10:
        return _text_of_two_units(minutes, "m", whole % _MINUTE, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _text_of_two_units(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _text_of_two_units(hours // 24, "d", hours % 24, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _text_of_two_units(whole // _YEAR, "y", whole // _DAY % 365, "d")
    return f"{whole // _YEAR}y"


def age_text(moment: object, now: float) -> str:
    """How long ago an RFC 3339 time was."""
    if not isinstance(moment, str) or not moment:
        return "<unknown>"
    try:
        return human_duration(now - parse_timestamp(moment))
    except ValueError:
        return "<unknown>"
