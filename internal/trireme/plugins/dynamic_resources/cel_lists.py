"""The functions of lists that Kubernetes adds to CEL: sum, min, max, isSorted, indexOf, lastIndexOf and includes.

The library calls with plain values and tells lists apart by nothing, so whether the elements are of a kind that can be
ordered or added is asked here. As in Kubernetes the first element decides; two that cannot be ordered are passed over.

Source: k8s.io/apiserver/pkg/cel/library (lists).
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

_NUMBERS: Final = (int, float)
_ORDERED: Final = (str, bytes, bytearray)
_MAX_INT: Final = 2**63 - 1
_MIN_INT: Final = -(2**63)


def is_sorted(values: Sequence[Any]) -> bool:
    """list.isSorted()."""
    _of_a_kind("isSorted", values, _can_be_ordered)
    return not any(_after(one, other) for one, other in itertools.pairwise(values))


def total(values: Sequence[Any]) -> int | float:
    """list.sum()."""
    _of_a_kind("sum", values, _is_number)
    added = values[0] if values else 0
    for each in values[1:]:
        if not _is_number(each) or isinstance(each, float) != isinstance(added, float):
            raise ValueError("no such overload")
        added += each
        if isinstance(added, int) and not _MIN_INT <= added <= _MAX_INT:
            raise ValueError("integer overflow")
    return added


def least(values: Sequence[Any]) -> Any:
    """list.min()."""
    return _chosen("min", values, _after)


def greatest(values: Sequence[Any]) -> Any:
    """list.max()."""
    return _chosen("max", values, lambda best, each: _after(each, best))


def index_of(values: Sequence[Any], wanted: Any) -> int:
    """list.indexOf(value)."""
    return next((at for at, each in enumerate(values) if _same(each, wanted)), -1)


def last_index_of(values: Sequence[Any], wanted: Any) -> int:
    """list.lastIndexOf(value)."""
    return next((at for at in reversed(range(len(values))) if _same(values[at], wanted)), -1)


def includes(target: Any, wanted: Any) -> bool:
    """x.includes(value): it is among the list, or it is x."""
    if isinstance(target, list):
        return any(_same(each, wanted) for each in target)
    return _same(target, wanted)


def _chosen(name: str, values: Sequence[Any], better: Callable[[Any, Any], bool]) -> Any:
    _of_a_kind(name, values, _can_be_ordered)
    if not values:
        raise ValueError(f"{name} called on empty list")
    best = values[0]
    for each in values[1:]:
        if better(best, each):
            best = each
    return best


def _of_a_kind(name: str, values: Sequence[Any], wanted: Callable[[Any], bool]) -> None:
    if values and not wanted(values[0]):
        raise ValueError(f"no such overload: {name}(list)")


def _is_number(value: Any) -> bool:
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


def _can_be_ordered(value: Any) -> bool:
    return isinstance(value, _NUMBERS + _ORDERED)


def _after(one: Any, other: Any) -> bool:
    """Whether the first comes after the second; not so where there is no order between them."""
    if _is_number(one) and _is_number(other):
        return bool(one > other)
    return type(one) is type(other) and _can_be_ordered(one) and bool(one > other)


def _same(left: Any, right: Any) -> bool:
    # True is 1 in Python, but not here.
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)
