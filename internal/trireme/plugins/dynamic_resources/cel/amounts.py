"""Quantities and versions in expressions.

Source: k8s.io/apiserver/pkg/cel/library (quantity, semverlib).
"""

from collections.abc import Callable
from typing import Final, TypeVar

from trireme.framework import quantity, semver
from trireme.plugins.dynamic_resources.cel import values

_NANOS: Final = quantity.NANOS_PER_UNIT
_Read = TypeVar("_Read")


def quantity_of(text: str) -> values.Amount:
    """quantity(string)."""
    return values.Amount(_read(quantity.parse_quantity, text).nanos)


def is_quantity(text: str) -> bool:
    """isQuantity(string)."""
    return succeeds(quantity.parse_quantity, text)


def sign(value: values.Amount) -> int:
    """sign(quantity)."""
    return (value.nanos > 0) - (value.nanos < 0)


def compare_to(value: values.Amount, other: values.Amount) -> int:
    """x.compareTo(y)."""
    return (value.nanos > other.nanos) - (value.nanos < other.nanos)


def is_greater_than(value: values.Amount, other: values.Amount) -> bool:
    """x.isGreaterThan(y)."""
    return value.nanos > other.nanos


def is_less_than(value: values.Amount, other: values.Amount) -> bool:
    """x.isLessThan(y)."""
    return value.nanos < other.nanos


def is_integer(value: values.Amount) -> bool:
    """quantity.isInteger()."""
    return _whole(value.nanos) is not None


def as_integer(value: values.Amount) -> int:
    """quantity.asInteger()."""
    whole = _whole(value.nanos)
    if whole is None:
        raise values.EvaluationError("cannot convert value to integer")
    return whole


def as_float(value: values.Amount) -> float:
    """quantity.asApproximateFloat()."""
    return value.nanos / _NANOS


def add(value: values.Amount, other: values.Amount) -> values.Amount:
    """quantity.add(quantity)."""
    return values.Amount(value.nanos + other.nanos)


def add_int(value: values.Amount, other: int) -> values.Amount:
    """quantity.add(int)."""
    return values.Amount(value.nanos + other * _NANOS)


def sub(value: values.Amount, other: values.Amount) -> values.Amount:
    """quantity.sub(quantity)."""
    return values.Amount(value.nanos - other.nanos)


def sub_int(value: values.Amount, other: int) -> values.Amount:
    """quantity.sub(int)."""
    return values.Amount(value.nanos - other * _NANOS)


def _whole(nanos: int) -> int | None:
    whole, rest = divmod(nanos, _NANOS)
    return None if rest or not values.MIN_INT <= whole <= values.MAX_INT else whole


def version_of(text: str) -> semver.Version:
    """semver(string)."""
    return _read(semver.parse, text)


def normalized_version_of(text: str, normalize: bool) -> semver.Version:
    """semver(string, bool)."""
    return version_of(_read(semver.normalized, text) if normalize else text)


def is_version(text: str) -> bool:
    """isSemver(string)."""
    return succeeds(semver.parse, text)


def is_normalized_version(text: str, normalize: bool) -> bool:
    """isSemver(string, bool)."""
    return succeeds(lambda each: semver.parse(semver.normalized(each) if normalize else each), text)


def compare_versions(value: semver.Version, other: semver.Version) -> int:
    """x.compareTo(y)."""
    return (value > other) - (value < other)


def is_later(value: semver.Version, other: semver.Version) -> bool:
    """x.isGreaterThan(y)."""
    return value > other


def is_earlier(value: semver.Version, other: semver.Version) -> bool:
    """x.isLessThan(y)."""
    return value < other


def major(value: semver.Version) -> int:
    """semver.major()."""
    return value.major


def minor(value: semver.Version) -> int:
    """semver.minor()."""
    return value.minor


def patch(value: semver.Version) -> int:
    """semver.patch()."""
    return value.patch


def succeeds(parse: Callable[[str], object], text: str) -> bool:
    """Whether it can be parsed."""
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _read(parse: Callable[[str], _Read], text: str) -> _Read:
    try:
        return parse(text)
    except ValueError as error:
        raise values.EvaluationError(str(error)) from error
