"""Semantic versions as device attributes state them and selectors compare them.

Two versions that differ in their build metadata alone are equal.
Source: github.com/blang/semver/v4, whose error texts reach the events of pods.
"""

import functools
import json
import re
from dataclasses import dataclass, field

_UINT64_MAX = 2**64 - 1
_ALPHANUMERIC = re.compile(r"[0-9A-Za-z-]*")
_DIGITS = re.compile(r"[0-9]+")

Prerelease = tuple[int | str, ...]


@functools.total_ordering
@dataclass(frozen=True, slots=True)
class Version:
    """One version, ordered by precedence."""

    major: int
    minor: int
    patch: int
    prerelease: Prerelease = ()
    build: str = field(default="", compare=False)

    def __lt__(self, other: "Version") -> bool:
        return self._precedence_key() < other._precedence_key()

    def _precedence_key(self) -> tuple[object, ...]:
        """Return the sort key: a pre-release comes before its release, and numbers before texts."""
        # A release comes after all its prereleases; numbers come before words, and fewer parts before more.
        parts = tuple((0, part, "") if isinstance(part, int) else (1, 0, part) for part in self.prerelease)
        return self.major, self.minor, self.patch, not self.prerelease, parts

    def __str__(self) -> str:
        """As it is written."""
        suffix = "-" + ".".join(map(str, self.prerelease)) if self.prerelease else ""
        build = f"+{self.build}" if self.build else ""
        return f"{self.major}.{self.minor}.{self.patch}{suffix}{build}"


@functools.lru_cache(maxsize=4096)
def parse(text: str) -> Version:
    """Parse a version. Raises: ValueError with the library's message."""
    if not text:
        raise ValueError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise ValueError("No Major.Minor.Patch elements found")
    major, minor = _parse_number(parts[0], "Major"), _parse_number(parts[1], "Minor")
    rest, plus, build = parts[2].partition("+")
    rest, dash, prerelease = rest.partition("-")
    patch = _parse_number(rest, "Patch")
    identifiers = tuple(_parse_identifier(part) for part in prerelease.split(".")) if dash else ()
    for part in build.split(".") if plus else ():
        if not part:
            raise ValueError("Build meta data is empty")
        if _ALPHANUMERIC.fullmatch(part) is None:
            raise ValueError(f"Invalid character(s) found in build meta data {json.dumps(part, ensure_ascii=False)}")
    return Version(major, minor, patch, identifiers, build)


def normalized(text: str) -> str:
    """Normalize a version's text: remove a leading v and leading zeros, add missing parts.

    Raises: ValueError.
    """
    parts = text.removeprefix("v").split(".", 2)
    for at, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[at] = stripped if stripped[:1].isdigit() else "0" + stripped
    if len(parts) < 3 and set("+-") & set(parts[-1]):
        raise ValueError("short version cannot contain PreRelease/Build meta data")
    return ".".join([*parts, "0", "0"][: max(3, len(parts))])


def _parse_number(text: str, what: str) -> int:
    """Parse a part of the version. Raises: ValueError with the library's message; `what` is the part's name."""
    if not text:
        raise ValueError('strconv.ParseUint: parsing "": invalid syntax')
    if _DIGITS.fullmatch(text) is None:
        raise ValueError(f"Invalid character(s) found in {what.lower()} number {json.dumps(text, ensure_ascii=False)}")
    if len(text) > 1 and text[0] == "0":
        raise ValueError(f"{what} number must not contain leading zeroes {json.dumps(text, ensure_ascii=False)}")
    return _parse_uint64(text)


def _parse_uint64(text: str) -> int:
    """Parse digits. Raises: ValueError beyond 64 bits, with Go's message."""
    if len(text) > 20 or int(text) > _UINT64_MAX:
        raise ValueError(f"strconv.ParseUint: parsing {json.dumps(text, ensure_ascii=False)}: value out of range")
    return int(text)


def _parse_identifier(text: str) -> int | str:
    """Parse an identifier of a pre-release: an integer if it is all digits. Raises: ValueError."""
    if not text:
        raise ValueError("Prerelease is empty")
    if _DIGITS.fullmatch(text) is not None:
        if len(text) > 1 and text[0] == "0":
            raise ValueError(
                f"Numeric PreRelease version must not contain leading zeroes {json.dumps(text, ensure_ascii=False)}"
            )
        return _parse_uint64(text)
    if _ALPHANUMERIC.fullmatch(text) is None:
        raise ValueError(f"Invalid character(s) found in prerelease {json.dumps(text, ensure_ascii=False)}")
    return text
