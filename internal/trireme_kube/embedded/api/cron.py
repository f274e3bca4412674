"""Schedules of CronJobs, in Kubernetes' dialect: five fields, or @hourly, @every 1h30m and the like.

Source: github.com/robfig/cron, parser.go and spec.go; no Python library parses this dialect with its error messages.

Tests: tests/unit/embedded/controllers/test_cron_jobs.py.
"""

import datetime
import re
import zoneinfo
from dataclasses import dataclass

_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = dict(zip(_MONTH_NAMES, range(1, 13), strict=True))
_DAYS = dict(zip(("sun", "mon", "tue", "wed", "thu", "fri", "sat"), range(7), strict=True))
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(h|m|s|ms)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
# A schedule that is not due within so many years (February 30th) never is.
_YEARS = 5


class ScheduleError(ValueError):
    """The text is not a schedule."""


@dataclass(frozen=True, slots=True)
class _ScheduleField:
    """The values of one of the five fields of a schedule, and whether it was `*`."""

    values: frozenset[int]
    any: bool
    """Whether it was written as a star."""


def _parse_number(text: str, names: dict[str, int]) -> int:
    """Parse a number or a name such as `mon`. Raises: ScheduleError."""
    if text.lower() in names:
        return names[text.lower()]
    if not text.isdecimal():
        raise ScheduleError(f"failed to parse int from {text}")
    return int(text)


def _parse_range(text: str, least: int, most: int, names: dict[str, int]) -> tuple[set[int], bool]:
    """The values of one part of a field, such as `1-10/2`, and whether it is `*` without a step."""
    span, slash, step_text = text.partition("/")
    first_text, dash, last_text = span.partition("-")
    star = first_text in ("*", "?")
    first = least if star else _parse_number(first_text, names)
    last = most if star else _parse_number(last_text, names) if dash else first
    step = 1
    if slash:
        step = _parse_number(step_text, {})
        if not dash and not star:
            last = most
    if first < least:
        raise ScheduleError(f"beginning of range ({first}) below minimum ({least}): {text}")
    if last > most:
        raise ScheduleError(f"end of range ({last}) above maximum ({most}): {text}")
    if first > last:
        raise ScheduleError(f"beginning of range ({first}) beyond end of range ({last}): {text}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {text}")
    return set(range(first, last + 1, step)), star and step == 1


def _parse_field(text: str, least: int, most: int, names: dict[str, int]) -> _ScheduleField:
    """Parse one field of a schedule, a comma-separated list of ranges. Raises: ScheduleError."""
    values: set[int] = set()
    anything = False
    for part in text.split(","):
        some, star = _parse_range(part, least, most, names)
        values |= some
        anything = anything or star
    return _ScheduleField(frozenset(values), anything)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Times at which something is due."""

    zone: datetime.tzinfo
    fields: tuple[_ScheduleField, ...] = ()
    every: float = 0.0
    """Seconds between two times, for @every."""

    def next(self, after: float) -> float | None:
        """The first time after a moment, both in seconds since the epoch; None if there is none in `_YEARS` years.

        `@every` counts whole seconds from `after`. Otherwise it moves on by months, days, hours and minutes, until all
        five fields match the local time.
        """
        if self.every:
            return int(after) + self.every
        minute, hour, _, month, _ = self.fields
        at = (int(after) // 60 + 1) * 60
        end = after + _YEARS * 366 * 86400
        while at < end:
            local = datetime.datetime.fromtimestamp(at, self.zone)
            if local.month not in month.values:
                year, following = (local.year + 1, 1) if local.month == 12 else (local.year, local.month + 1)
                at = self._epoch_seconds(at, datetime.datetime(year, following, 1, tzinfo=self.zone))
            elif not self._matches_day(local):
                at = self._epoch_seconds(at, local.replace(hour=0, minute=0) + datetime.timedelta(days=1))
            elif local.hour not in hour.values:
                at += (60 - local.minute) * 60
            elif local.minute not in minute.values:
                at += 60
            else:
                return float(at)
        return None

    @staticmethod
    def _epoch_seconds(at: int, local: datetime.datetime) -> int:
        """A local time as seconds since the epoch; always later than `at`."""
        return max(int(local.timestamp()), at + 60)

    def _matches_day(self, local: datetime.datetime) -> bool:
        """Whether the day matches. If both kinds of day are given, one of them suffices."""
        month_day, week_day = self.fields[2], self.fields[4]
        by_month = local.day in month_day.values
        by_week = local.isoweekday() % 7 in week_day.values
        return by_month and by_week if month_day.any or week_day.any else by_month or by_week


def zone_of(name: str | None) -> datetime.tzinfo:
    """The time zone of that name; UTC for none. Raises: ScheduleError."""
    if not name:
        return datetime.UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ScheduleError(f"unknown time zone {name}") from error


def parse(text: str, zone: datetime.tzinfo = datetime.UTC) -> Schedule:
    """A schedule in a time zone. Raises: ScheduleError with Kubernetes' message."""
    if text.startswith("@every "):
        return Schedule(zone, every=max(_interval_seconds(text.removeprefix("@every ")), 1.0))
    if text.startswith("@"):
        if text not in _DESCRIPTORS:
            raise ScheduleError(f"unrecognized descriptor: {text}")
        text = _DESCRIPTORS[text]
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise ScheduleError(f"expected exactly 5 fields, found {len(parts)}: [{' '.join(parts)}]")
    return Schedule(zone, tuple(_parse_field(part, *bounds) for part, bounds in zip(parts, _FIELDS, strict=True)))


def _interval_seconds(text: str) -> float:
    """Parse the duration after `@every`, cut off to whole seconds. Raises: ScheduleError."""
    if not re.fullmatch(f"(?:{_DURATION.pattern})+", text):
        raise ScheduleError(f"failed to parse duration @every {text}")
    return float(int(sum(float(amount) * _UNITS[unit] for amount, unit in _DURATION.findall(text))))
