"""Resource versions as numbers: an API server counts its writes.

Tests: tests/unit/apimachinery/test_resource_versions.py.
"""

# Kubernetes compares versions of any length; `int` takes so many digits, and a few more.
_MAX_DIGITS = 4_000


def number_of(version: str) -> int | None:
    """The version as a number; None if it is none, and cannot be compared with others."""
    # `str.isdigit` alone is true of "²" and of digits without end, which `int` refuses.
    if not (version.isascii() and version.isdigit()) or len(version) > _MAX_DIGITS:
        return None
    return int(version)
