"""The canonical form of quantities, and sums of them.

The API server stores each quantity in canonical form (`0.5` becomes `500m`, `1024Mi` becomes `1Gi`) and takes plain
numbers too, so clients of the embedded cluster must see the same.
Source: k8s.io/apimachinery, pkg/api/resource.

Tests: tests/unit/embedded/api/test_quantities.py, tests/unit/embedded/registry/test_registry.py.
"""

from collections.abc import Iterable, Mapping

from trireme_kube.apimachinery import quantity
from trireme_kube.apimachinery.quantity import NANOS_PER_MILLI, NANOS_PER_UNIT, Quantity

NONE = Quantity(0)
ONE = Quantity(NANOS_PER_UNIT)
Amounts = Mapping[str, Quantity]
"""Amounts by the names of resources."""


def canonical(value: object) -> str:
    """The canonical text of a quantity given as text or number, rounded up to thousandths.

    Raises: ValueError in the API server's words.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(quantity.WRONG_FORM)
    return str(_rounded_up(quantity.parse_quantity(str(value)), NANOS_PER_MILLI))


def nanos(text: str) -> int:
    """The number that a quantity stands for, in units of 10⁻⁹. Raises: ValueError."""
    return quantity.parse_quantity(text).nanos


def whole_units(amount: Quantity) -> Quantity:
    """The amount, rounded up to a whole number."""
    return _rounded_up(amount, NANOS_PER_UNIT)


def difference(amount: Quantity, other: Quantity) -> Quantity:
    """The difference, which is never negative."""
    return Quantity(max(amount.nanos - other.nanos, 0), _format_of_sum(amount, other))


def parse_amounts(quantities: Mapping[str, object] | None) -> dict[str, Quantity]:
    """Parse the quantities of a map of resources, which may be missing. Raises: ValueError."""
    return {name: quantity.parse_quantity(str(value)) for name, value in (quantities or {}).items()}


def total(parts: Iterable[Amounts]) -> dict[str, Quantity]:
    """The sum for each resource."""
    result: dict[str, Quantity] = {}
    for part in parts:
        for name, amount in part.items():
            before = result.get(name, NONE)
            result[name] = Quantity(before.nanos + amount.nanos, _format_of_sum(before, amount))
    return result


def largest(parts: Iterable[Amounts]) -> dict[str, Quantity]:
    """The largest amount for each resource."""
    result: dict[str, Quantity] = {}
    for part in parts:
        for name, amount in part.items():
            if name not in result or amount.nanos > result[name].nanos:
                result[name] = amount
    return result


def _format_of_sum(first: Quantity, second: Quantity) -> quantity.Format:
    """As in Kubernetes, the format of the first part that is not zero."""
    return first.format if first.nanos else second.format


def _rounded_up(amount: Quantity, unit: int) -> Quantity:
    """Round away from zero to a whole multiple of `unit`, in nanos."""
    whole = -(-abs(amount.nanos) // unit) * unit
    return Quantity(whole if amount.nanos >= 0 else -whole, amount.format)
