"""Quantities in Kubernetes' notation: `500m`, `1Gi`, `2e3`.

The API server stores each quantity in canonical form (`0.5` becomes `500m`, `1024Mi` becomes `1Gi`) and takes plain
numbers too, so clients of the embedded cluster must see the same.
Source: k8s.io/apimachinery, pkg/api/resource.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

_SHAPE = re.compile(
    r"^(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))(?P<suffix>[eE][+-]?\d+|[KMGTPE]i|[numkMGTPE]|)$",
)
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -3, "u": -2, "m": -1, "": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_DECIMAL_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}

REFUSAL = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class QuantityError(ValueError):
    """The text is not a quantity."""


def _parse_number_and_style(text: str) -> tuple[Fraction, str]:
    """Return the number of a quantity, and its style: binary, decimal or exponent. Raises: QuantityError."""
    match = _SHAPE.match(text)
    if match is None:
        raise QuantityError(REFUSAL)
    number, suffix = Fraction(match["number"]), match["suffix"]
    if suffix in _BINARY:
        return number * 1024 ** _BINARY[suffix], "binary"
    if suffix in _DECIMAL:
        return number * Fraction(1000) ** _DECIMAL[suffix], "decimal"
    return number * Fraction(10) ** int(suffix[1:]), "exponent"


def _round_up(value: Fraction, unit: Fraction) -> Fraction:
    """Round away from zero to a whole multiple of `unit`."""
    units = abs(value) / unit
    whole = -(-units.numerator // units.denominator)
    return unit * (whole if value >= 0 else -whole)


def _decimal_text(value: Fraction, style: str) -> str:
    """Format a number with the largest decimal suffix, or exponent, that keeps it whole."""
    power = -3
    scaled = value / Fraction(1000) ** power
    while power < 6 and scaled.numerator % 1000 == 0 and scaled.denominator == 1:
        scaled /= 1000
        power += 1
    if style == "exponent":
        return f"{scaled}e{power * 3}" if power else str(scaled)
    return f"{scaled}{_DECIMAL_SUFFIX[power]}"


def _format(value: Fraction, style: str) -> str:
    """Format a number canonically in a style, rounded up to thousandths."""
    if value == 0:
        return "0"
    value = _round_up(value, Fraction(1, 1000))
    if style == "binary" and abs(value) >= 1024 and value.denominator == 1:
        power = 0
        while power < 6 and value.numerator % 1024 == 0:
            value /= 1024
            power += 1
        suffix = next((name for name, exponent in _BINARY.items() if exponent == power), "")
        return f"{value}{suffix}"
    return _decimal_text(value, "exponent" if style == "exponent" else "decimal")


@functools.lru_cache(maxsize=4096)
def _cached_canonical(text: str) -> str:
    """Compute `canonical` of a text; cached."""
    return _format(*_parse_number_and_style(text))


def canonical(quantity: object) -> str:
    """The canonical text of a quantity given as text or number, rounded up to thousandths.

    Raises: QuantityError
    """
    if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
        raise QuantityError(REFUSAL)
    return _cached_canonical(str(quantity))


@functools.lru_cache(maxsize=4096)
def value(text: str) -> Fraction:
    """The number that a quantity stands for. Raises: QuantityError."""
    return _parse_number_and_style(text)[0]


@dataclass(frozen=True, slots=True)
class Amount:
    """A quantity to calculate with. A sum has the style of its first part that is not zero, as in Kubernetes."""

    value: Fraction
    style: str = "decimal"

    def plus(self, other: Amount) -> Amount:
        """The sum."""
        return Amount(self.value + other.value, self.style if self.value else other.style)

    def less(self, other: Amount) -> Amount:
        """The difference, which is never negative."""
        return Amount(max(self.value - other.value, Fraction(0)), self.style if self.value else other.style)

    def rounded_up(self) -> Amount:
        """The next whole number."""
        return Amount(_round_up(self.value, Fraction(1)), self.style)

    def __str__(self) -> str:
        return _format(self.value, self.style)


NONE = Amount(Fraction(0))
ONE = Amount(Fraction(1))
Amounts = Mapping[str, Amount]
"""Amounts by the names of resources."""


@functools.lru_cache(maxsize=4096)
def _cached_amount(text: str) -> Amount:
    """Parse a quantity; cached."""
    return Amount(*_parse_number_and_style(text))


def parse_amounts(quantities: Mapping[str, object] | None) -> dict[str, Amount]:
    """Parse the quantities of a map of resources, which may be missing. Raises: QuantityError."""
    return {name: _cached_amount(str(quantity)) for name, quantity in (quantities or {}).items()}


def total(parts: Iterable[Amounts]) -> dict[str, Amount]:
    """The sum for each resource."""
    result: dict[str, Amount] = {}
    for part in parts:
        for name, amount in part.items():
            result[name] = result[name].plus(amount) if name in result else amount
    return result


def largest(parts: Iterable[Amounts]) -> dict[str, Amount]:
    """The largest amount for each resource."""
    result: dict[str, Amount] = {}
    for part in parts:
        for name, amount in part.items():
            if name not in result or amount.value > result[name].value:
                result[name] = amount
    return result
