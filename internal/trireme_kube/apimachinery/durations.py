"""Parses validated durations in canonical text, such as `10m0s` or `1.5s`."""

import re

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9.]+)(ns|us|µs|ms|s|m|h)")


def parse_seconds(text: str) -> float:
    """Parse the duration. Raises: ValueError. Units: seconds."""
    sign = -1.0 if text.startswith("-") else 1.0
    bare = text.removeprefix("-")
    if bare == "0":
        return 0.0
    parts = _PART.findall(bare)
    if not parts or "".join(number + unit for number, unit in parts) != bare:
        raise ValueError(f"not a duration: {text!r}")
    return sign * sum(float(number) * _UNITS[unit] for number, unit in parts)
