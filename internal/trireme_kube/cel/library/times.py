"""Durations and timestamps: parsing, formatting and functions.

Source: time of Go, github.com/google/cel-go/common/types (duration, timestamp).

Tests: tests/conformance/test_selectors.py.
"""

import datetime
import re
import zoneinfo
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from trireme_kube.cel import values
from trireme_kube.cel.values import Duration, EvaluationError, Timestamp

SECOND: Final = 10**9
_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
# Go takes hours of one digit.
_STAMP = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_OFFSET = re.compile(r"([+-]?[0-9]+):([+-]?[0-9]+)")
_FIRST: Final = -62135596800
_LAST: Final = 253402300799
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MINUTES: Final = 60


def duration(nanos: int) -> Duration:
    """Make a duration. Raises: EvaluationError beyond 64 bits of nanoseconds."""
    if not values.MIN_INT <= nanos <= values.MAX_INT:
        raise EvaluationError("duration overflow")
    return Duration(nanos)


def timestamp(nanos: int, offset: int = 0) -> Timestamp:
    """Make a timestamp. Raises: EvaluationError beyond the years 1 to 9999."""
    if not _FIRST <= nanos // SECOND <= _LAST:
        raise EvaluationError("timestamp overflow")
    return Timestamp(nanos, offset)


def add_nanos(start: Timestamp, nanos: int) -> Timestamp:
    """Add nanoseconds to a timestamp."""
    return timestamp(start.nanos + nanos, start.offset)


def parse_duration(text: str) -> int | None:
    """Parse a duration as Go does; None if it is invalid."""
    sign, bare = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    if bare == "0":
        return 0
    at, total = 0, 0
    while at < len(bare):
        part = _PART.match(bare, at)
        if part is None or len(part.group(1)) > 400:
            return None
        total += int(Fraction(part.group(1).rstrip(".")) * _UNITS[part.group(2)])
        at = part.end()
    return sign * total if bare and values.MIN_INT <= sign * total <= values.MAX_INT else None


def parse_timestamp(text: str) -> Timestamp | None:
    """Parse an RFC 3339 time; None if it is invalid. Raises: EvaluationError if it is out of range."""
    match = _STAMP.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    fraction, sign, hours, minutes = match.groups()[6:]
    offset = (int(hours) * 3600 + int(minutes) * 60) * (-1 if sign == "-" else 1) if sign else 0
    if sign and (int(hours) > 24 or int(minutes) > _MINUTES):
        return None
    try:
        # There is no year zero here; of that, only what is too early remains to be said.
        moment = datetime.datetime(year or 4, month, day, hour, minute, second, tzinfo=datetime.UTC)
    except ValueError:
        return None
    if not year:
        raise EvaluationError("timestamp overflow")
    whole = moment - _EPOCH
    nanos = int(((fraction or "") + "000000000")[:9])
    return timestamp((whole.days * 86400 + whole.seconds - offset) * SECOND + nanos, offset)


def duration_text(value: Duration) -> str:
    """CEL's string(duration): seconds."""
    return values.plain_float(value.nanos // SECOND + value.nanos % SECOND / SECOND) + "s"


def timestamp_text(value: Timestamp) -> str:
    """CEL's string(timestamp)."""
    moment = _in_zone(value, datetime.timezone(datetime.timedelta(seconds=value.offset)))
    nanos = value.nanos % SECOND
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    sign, minutes = ("-" if value.offset < 0 else "+"), abs(value.offset) // 60
    zone = f"{sign}{minutes // 60:02d}:{minutes % 60:02d}" if value.offset else "Z"
    return f"{moment.year:04d}-{moment.month:02d}-{moment.day:02d}T{moment:%H:%M:%S}{fraction}{zone}"


_PARTS: Final[dict[str, Callable[[datetime.datetime], int]]] = {
    "getFullYear": lambda moment: moment.year,
    "getMonth": lambda moment: moment.month - 1,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDate": lambda moment: moment.day,
    "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
    "getHours": lambda moment: moment.hour,
    "getMinutes": lambda moment: moment.minute,
    "getSeconds": lambda moment: moment.second,
    "getMilliseconds": lambda moment: moment.microsecond // 1000,
}
_LENGTHS: Final = {
    "getHours": 3600 * SECOND,
    "getMinutes": 60 * SECOND,
    "getSeconds": SECOND,
    "getMilliseconds": 10**6,
}
PARTS: Final = tuple(_PARTS)
LENGTHS: Final = tuple(_LENGTHS)


def timestamp_part(name: str, value: Timestamp, zone: str = "UTC") -> int:
    """CEL's timestamp.getHours() and its like: the part that the function `name` returns. Raises: EvaluationError."""
    return _PARTS[name](_in_zone(value, _time_zone(zone)))


def duration_length(name: str, value: Duration) -> int:
    """CEL's duration.getHours() and its like: all of it in the unit of the function `name`, cut off towards zero."""
    whole = abs(value.nanos) // _LENGTHS[name]
    return whole if value.nanos >= 0 else -whole


def _in_zone(value: Timestamp, zone: datetime.tzinfo) -> datetime.datetime:
    """Return the time in a zone. Raises: EvaluationError beyond the years 1 to 9999."""
    seconds, nanos = divmod(value.nanos, SECOND)
    try:
        return (_EPOCH + datetime.timedelta(seconds=seconds, microseconds=nanos // 1000)).astimezone(zone)
    except OverflowError:
        raise EvaluationError("timestamp overflow") from None


def _time_zone(name: str) -> datetime.tzinfo:
    """The zone of an IANA name or an offset (`+02:00`). Raises: EvaluationError with cel-go's message."""
    if name in ("", "UTC"):
        return datetime.UTC
    if ":" not in name:
        try:
            return zoneinfo.ZoneInfo(name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            raise EvaluationError(f"unknown time zone {name}") from None
    match = _OFFSET.fullmatch(name)
    if match is None:
        wrong = next(part for part in name.split(":", 1) if re.fullmatch(r"[+-]?[0-9]+", part) is None)
        raise EvaluationError(f"strconv.Atoi: parsing {values.quoted(wrong)}: invalid syntax")
    hours, minutes = int(match.group(1)), int(match.group(2))
    if not 0 <= minutes < _MINUTES:
        raise EvaluationError(f"timezone offset minutes out of range [0, 59]: {name}")
    offset = hours * 60 - minutes if name.startswith("-") else hours * 60 + minutes
    try:
        return datetime.timezone(datetime.timedelta(minutes=offset))
    except ValueError:
        raise EvaluationError(f"timezone offset out of range: {name}") from None
