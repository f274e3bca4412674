"""Resource quantities: the numbers behind `500m`, `2Gi` and `1e3`.

Every amount that Kubernetes states (requests, allocatable, volume sizes, device capacities) is a text of this form, and
a scheduler that reads one of them differently from the API server places pods where they do not fit. So the text is
parsed here once, exactly, into a whole number of nanos (the finest unit there is: what is smaller is rounded up to it),
and all arithmetic elsewhere is on integers.

It is separate from the message conversion because plugins, the snapshot and the embedded API server all need it, and it
needs nothing but the text. Two invariants: equal amounts have equal `nanos` however they were written, and no text, of
whatever length or exponent, costs more than its own length to read.

Source: apimachinery's resource.Quantity. One difference is deliberate: where an amount does not fit 64 bits, that one
may answer 0 (so that a pod asking for `1e20` bytes would fit anywhere); here it is the largest integer.

Also change: internal/trireme_kube/apimachinery/golang.py,
internal/trireme_kube/cel/library/format_function.py (how Go writes numbers).
"""

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

INT64_MAX = 2**63 - 1

NANOS_PER_UNIT = 10**9
NANOS_PER_MILLI = 10**6

# Larger powers of ten overflow anyway; the cap keeps `1e999999999` from filling the memory.
_DIGITS_MAX = 60
_NANOS_MAX: int = 10**_DIGITS_MAX
# The most digits converted; the cost is quadratic in the length, and Python refuses more than 4300.
_DIGITS_READ = 400

# Possessive throughout: a long run of digits before an odd character must not be tried again in every split.
_FORM = re.compile(r"([+-]?)([0-9]*+)(?:\.([0-9]*+))?+([eEinumkKMGTP]*+[+-]?[0-9]*+)")
_EXPONENT = re.compile(r"[eE]([+-]?)0*+([0-9]*+)(?<=[0-9])")

WRONG_FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
WRONG_SUFFIX = "unable to parse quantity's suffix"
WRONG_NUMBER = "unable to parse numeric part of quantity"


class Format(Enum):
    """The family of suffixes in which an amount was written, and is formatted."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


_DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_NAMES = {0: "", **{exponent: suffix for suffix, exponent in _BINARY_SUFFIXES.items()}}


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount, exact to a nano."""

    nanos: int
    """The amount in units of 10⁻⁹. Compare and add these."""
    format: Format = Format.DECIMAL_SI
    """How `str()` writes it; says nothing about the amount."""

    def value(self) -> int:
        """The amount in whole units, rounded away from zero, within 64 bits."""
        return _rounded_units(self.nanos, NANOS_PER_UNIT)

    def milli_value(self) -> int:
        """The amount in thousandths, rounded away from zero, within 64 bits."""
        return _rounded_units(self.nanos, NANOS_PER_MILLI)

    def __str__(self) -> str:
        """The canonical text: the largest suffix that leaves a whole number, as the API server writes it."""
        if self.nanos == 0:
            return "0"
        if self.format is Format.BINARY_SI and self.nanos % NANOS_PER_UNIT == 0:
            units = self.nanos // NANOS_PER_UNIT
            # Below 1Ki there is no binary suffix to show.
            if abs(units) >= 1024:
                return _binary_text(units)
        return _decimal_text(self.nanos, with_exponent=self.format is Format.DECIMAL_EXPONENT)


@lru_cache(maxsize=65536)
def parse_quantity(text: str) -> Quantity:
    """Parse a quantity.

    Raises: ValueError in the API server's words; the text itself is not repeated in them.
    """
    form = _FORM.fullmatch(text) if text else None
    if form is None:
        raise ValueError(WRONG_FORM)
    sign, whole, fraction, suffix = form.group(1), form.group(2), form.group(3) or "", form.group(4)
    exponent, format_ = _parse_suffix(suffix)
    digits = (whole + fraction).lstrip("0")
    if not whole and not fraction and (exponent < -9 or (format_ is Format.BINARY_SI and exponent >= 50)):
        # A suffix alone is 0 to the API server, except where it would leave its 64-bit arithmetic.
        raise ValueError(WRONG_NUMBER)
    if not digits:
        return Quantity(0, format_)
    if format_ is Format.BINARY_SI:
        nanos = _times_power_of_ten(digits, 9 - len(fraction), 1 << exponent)
        nanos = min(nanos, INT64_MAX * NANOS_PER_UNIT)
        if nanos < NANOS_PER_UNIT:
            format_ = Format.DECIMAL_SI
    else:
        nanos = _times_power_of_ten(digits, 9 - len(fraction) + exponent, 1)
    return Quantity(-nanos if sign == "-" else nanos, format_)


def _parse_suffix(suffix: str) -> tuple[int, Format]:
    """The exponent that a suffix stands for: of two for the binary ones, of ten for the others."""
    if (decimal := _DECIMAL_SUFFIXES.get(suffix)) is not None:
        return decimal, Format.DECIMAL_SI
    if (binary := _BINARY_SUFFIXES.get(suffix)) is not None:
        return binary, Format.BINARY_SI
    exponent = _EXPONENT.fullmatch(suffix)
    # Nineteen digits are what 64 bits hold; the API server refuses more.
    if exponent is None or len(exponent.group(2)) > 19:
        raise ValueError(WRONG_SUFFIX)
    return int(f"{exponent.group(1)}{exponent.group(2) or 0}"), Format.DECIMAL_EXPONENT


def _times_power_of_ten(digits: str, power: int, factor: int) -> int:
    """`digits` × `factor` × 10^`power` as an integer, rounded up and capped; `digits` does not start with 0."""
    if len(digits) + power > _DIGITS_MAX:
        return _NANOS_MAX
    if power >= 0:
        shift: int = 10**power
        return min(int(digits) * factor * shift, _NANOS_MAX)
    if len(digits) > _DIGITS_READ:
        # What is cut off can only round up, and one digit stands for it.
        rest = digits[_DIGITS_READ:].rstrip("0")
        power += len(digits) - _DIGITS_READ - 1
        digits = digits[:_DIGITS_READ] + ("1" if rest else "0")
    if len(digits) + power < -_DIGITS_MAX:
        return 1
    divisor: int = 10**-power
    return min(-(-int(digits) * factor // divisor), _NANOS_MAX)


def _rounded_units(nanos: int, unit: int) -> int:
    """Return the amount in units of so many nanos, rounded away from zero, capped to 64 bits."""
    return min(-(-nanos // unit), INT64_MAX) if nanos >= 0 else max(nanos // unit, -INT64_MAX)


def _binary_text(units: int) -> str:
    """Format whole units with the largest binary suffix that divides them."""
    exponent = 0
    while units % 1024 == 0 and exponent < 60:
        units //= 1024
        exponent += 10
    return f"{units}{_BINARY_NAMES[exponent]}"


def _decimal_text(nanos: int, *, with_exponent: bool) -> str:
    """Format nanos with the largest decimal suffix, or exponent, that divides them."""
    exponent = -9
    while nanos % 1000 == 0 and (with_exponent or exponent < 18):
        nanos //= 1000
        exponent += 3
    if with_exponent:
        return f"{nanos}e{exponent}" if exponent else str(nanos)
    return f"{nanos}{_DECIMAL_NAMES[exponent]}"
