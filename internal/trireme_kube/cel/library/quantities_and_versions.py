"""Quantities and versions in expressions.

Source: k8s.io/apiserver/pkg/cel/library (quantity, semverlib).

Tests: tests/unit/plugins/dynamic_resources/test_expressions.py, tests/conformance/test_selectors.py.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from trireme_kube.apimachinery import quantity, semver
from trireme_kube.cel import values

_NANOS: Final = quantity.NANOS_PER_UNIT
_DIGITS = re.compile(r"[+-]?[0-9]*\.?([0-9]*)(?:([num])|[eE]([+-]?[0-9]{1,2})|)")
_THOUSANDTHS: Final[Mapping[str | None, int]] = {"n": 9, "u": 6, "m": 3}
_Read = TypeVar("_Read")


def quantity_of(text: str) -> values.Amount:
    """CEL's quantity(string): parse a quantity. Raises: EvaluationError."""
    nanos = _parse_or_error(quantity.parse_quantity, text).nanos
    match = _DIGITS.match(text)
    written, suffix, exponent = match.groups() if match else ("", None, None)
    return values.Amount(nanos, max(0, len(written or "") + _THOUSANDTHS.get(suffix, 0) - int(exponent or 0)))


def is_quantity(text: str) -> bool:
    """CEL's isQuantity(string): whether the text is a quantity."""
    return succeeds(quantity.parse_quantity, text)


def sign(value: values.Amount) -> int:
    """CEL's sign(quantity): −1, 0 or 1."""
    return (value.nanos > 0) - (value.nanos < 0)


def compare_to(value: values.Amount, other: values.Amount) -> int:
    """CEL's x.compareTo(y) of quantities: −1, 0 or 1."""
    return (value.nanos > other.nanos) - (value.nanos < other.nanos)


def is_greater_than(value: values.Amount, other: values.Amount) -> bool:
    """CEL's x.isGreaterThan(y)."""
    return value.nanos > other.nanos


def is_less_than(value: values.Amount, other: values.Amount) -> bool:
    """CEL's x.isLessThan(y)."""
    return value.nanos < other.nanos


def is_integer(value: values.Amount) -> bool:
    """CEL's quantity.isInteger(): whether `asInteger` succeeds."""
    return _whole_or_none(value) is not None


def as_integer(value: values.Amount) -> int:
    """CEL's quantity.asInteger(). Raises: EvaluationError if it is no integer of 64 bits."""
    whole = _whole_or_none(value)
    if whole is None:
        raise values.EvaluationError("cannot convert value to integer")
    return whole


def as_float(value: values.Amount) -> float:
    """CEL's quantity.asApproximateFloat(): the nearest double."""
    return value.nanos / _NANOS


def add(value: values.Amount, other: values.Amount) -> values.Amount:
    """CEL's quantity.add(quantity): the sum."""
    if not value.nanos or not other.nanos:
        return other if other.nanos else value
    return values.Amount(value.nanos + other.nanos, max(value.digits, other.digits))


def add_int(value: values.Amount, other: int) -> values.Amount:
    """CEL's quantity.add(int): the sum with an integer."""
    return add(value, values.Amount(other * _NANOS))


def sub(value: values.Amount, other: values.Amount) -> values.Amount:
    """CEL's quantity.sub(quantity): the difference."""
    return add(value, values.Amount(-other.nanos, other.digits))


def sub_int(value: values.Amount, other: int) -> values.Amount:
    """CEL's quantity.sub(int): the difference from an integer."""
    # The smallest integer has no negation in 64 bits; in Kubernetes it is its own.
    return add_int(value, other if other == values.MIN_INT else -other)


def _whole_or_none(value: values.Amount) -> int | None:
    """The value as a 64-bit integer; None if it does not fit, or was written with a fraction, as 2000m."""
    whole, rest = divmod(value.nanos, _NANOS)
    return None if rest or value.digits or not values.MIN_INT <= whole <= values.MAX_INT else whole


def version_of(text: str) -> semver.Version:
    """CEL's semver(string): parse a semantic version. Raises: EvaluationError."""
    return _parse_or_error(semver.parse, text)


def normalized_version_of(text: str, normalize: bool) -> semver.Version:
    """CEL's semver(string, bool)."""
    return version_of(_parse_or_error(semver.normalized, text) if normalize else text)


def is_version(text: str) -> bool:
    """CEL's isSemver(string): whether the text is a semantic version."""
    return succeeds(semver.parse, text)


def is_normalized_version(text: str, normalize: bool) -> bool:
    """CEL's isSemver(string, bool)."""
    return succeeds(lambda each: semver.parse(semver.normalized(each) if normalize else each), text)


def compare_versions(value: semver.Version, other: semver.Version) -> int:
    """CEL's x.compareTo(y) of versions: −1, 0 or 1."""
    return (value > other) - (value < other)


def is_later(value: semver.Version, other: semver.Version) -> bool:
    """CEL's x.isGreaterThan(y) of versions."""
    return value > other


def is_earlier(value: semver.Version, other: semver.Version) -> bool:
    """CEL's x.isLessThan(y) of versions."""
    return value < other


def major(value: semver.Version) -> int:
    """CEL's semver.major(): the first number of the version."""
    return value.major


def minor(value: semver.Version) -> int:
    """CEL's semver.minor(): the second number of the version."""
    return value.minor


def patch(value: semver.Version) -> int:
    """CEL's semver.patch(): the third number of the version."""
    return value.patch


def succeeds(parse: Callable[[str], object], text: str) -> bool:
    """Return whether the text can be parsed: `parse` raises no ValueError."""
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _parse_or_error(parse: Callable[[str], _Read], text: str) -> _Read:
    """Parse the text, turning ValueError into EvaluationError."""
    try:
        return parse(text)
    except ValueError as error:
        raise values.EvaluationError(str(error)) from error
