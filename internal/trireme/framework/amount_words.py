"""Amounts of resources as people say them: with units, and separators of thousands.

The console writes them alike (`quantityText` and `quantityNumber` of console/src/format.ts).

Tests: tests/unit/framework/test_amount_words.py.
"""

from trireme.framework import amounts
from trireme_kube.apimachinery import quantity

_NANOS = 10**9


def number(resource: str, text: str) -> str:
    """The amount of a quantity without its unit: `1,000` or `7.5` CPUs, `4Gi` of memory; as it is if it is none."""
    try:
        nanos = quantity.parse_quantity(text).nanos
    except ValueError:
        return text
    if resource == amounts.CPU and nanos % _NANOS and nanos < _NANOS:
        return text
    if resource == amounts.CPU or (text.isalnum() and not _is_in_bytes(resource)):
        return f"{nanos / _NANOS:,.3f}".rstrip("0").rstrip(".")
    return text


def amount(resource: str, text: str) -> str:
    """The amount with its unit: `1,000 CPUs`, `500m CPU`, `4Gi memory`, `2 nvidia.com/gpu`."""
    value = number(resource, text)
    if resource != amounts.CPU:
        return f"{value} {resource}"
    return f"{value} {'CPU' if value == '1' or value.endswith('m') else 'CPUs'}"


def _is_in_bytes(resource: str) -> bool:
    return resource in (amounts.MEMORY, amounts.EPHEMERAL_STORAGE) or resource.startswith(amounts.HUGE_PAGES)
