"""The functions of lists and sets: those that Kubernetes adds to CEL, and those of its extensions.

Source: k8s.io/apiserver/pkg/cel/library (lists), github.com/google/cel-go/ext (lists, sets).

Tests: tests/unit/plugins/dynamic_resources/test_expressions.py, tests/conformance/test_selectors.py.
"""

import functools
import itertools
from collections.abc import Sequence
from typing import Any, Final

from trireme_kube.cel import values
from trireme_kube.cel.library import operators
from trireme_kube.cel.values import EvaluationError

_MAX_RANGE: Final = 1_000_000


def is_sorted(list_: Sequence[Any]) -> bool:
    """CEL's list.isSorted(): whether no element comes after the next one."""
    _check_ordered(list_)
    return not any(_comes_after(one, other) for one, other in itertools.pairwise(list_))


def total_of(zero: Any, list_: Sequence[Any]) -> Any:
    """CEL's list.sum(): the sum of the elements; `zero` for an empty list."""
    added = zero
    for each in list_:
        added = operators.add(added, each)
    return added


def least(list_: Sequence[Any]) -> Any:
    """CEL's list.min(): the smallest element. Raises: EvaluationError for an empty list."""
    return _least_or_greatest("min", list_, least=True)


def greatest(list_: Sequence[Any]) -> Any:
    """CEL's list.max(): the largest element. Raises: EvaluationError for an empty list."""
    return _least_or_greatest("max", list_, least=False)


def index_of(list_: Sequence[Any], element: Any) -> int:
    """CEL's list.indexOf(value): the index of the first such element; −1 if there is none."""
    return next((at for at, each in enumerate(list_) if values.same(each, element)), -1)


def last_index_of(list_: Sequence[Any], element: Any) -> int:
    """CEL's list.lastIndexOf(value)."""
    return next((at for at in reversed(range(len(list_))) if values.same(list_[at], element)), -1)


def includes(target: Any, element: Any) -> bool:
    """CEL's x.includes(value): whether the list x has the value or, if x is no list, x is it."""
    return contains(target, element) if isinstance(target, list) else values.same(target, element)


def contains(list_: Sequence[Any], element: Any) -> bool:
    """Whether the list has the element."""
    return any(values.same(each, element) for each in list_)


def first(list_: Sequence[Any]) -> values.Optional:
    """CEL's list.first(): the first element, absent for an empty list."""
    return values.Optional(list_[0], True) if list_ else values.Optional()


def last(list_: Sequence[Any]) -> values.Optional:
    """CEL's list.last(): the last element, absent for an empty list."""
    return values.Optional(list_[-1], True) if list_ else values.Optional()


def sliced(list_: Sequence[Any], start: int, end: int) -> list[Any]:
    """CEL's list.slice(start, end): the elements from `start` to before `end`. Raises: EvaluationError."""
    prefix = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise EvaluationError(f"{prefix}, negative indexes not supported")
    if start > end:
        raise EvaluationError(f"{prefix}, start index must be less than or equal to end index")
    if len(list_) < end:
        raise EvaluationError(f"{prefix}, list is length {len(list_)}")
    return list(list_[start:end])


def flattened(list_: Any, depth: Any = 1) -> list[Any]:
    """CEL's list.flatten(depth): the elements of inner lists in their place, to this depth."""
    if type(list_) is not list:
        raise EvaluationError(f"no such overload: {values.type_name(list_)}.flatten()")
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    out: list[Any] = []
    for each in list_:
        if isinstance(each, list) and depth:
            out.extend(flattened(each, depth - 1))
        else:
            out.append(each)
    return out


def sorted_list(list_: Any) -> list[Any]:
    """CEL's list.sort(): the elements in ascending order. Raises: EvaluationError without an order."""
    if type(list_) is not list:
        raise operators.wrong_operand("sort", list_, ())
    return sorted_by_keys(list_, list_)


def sorted_by_keys(list_: Sequence[Any], keys: Sequence[Any]) -> list[Any]:
    """CEL's list.sortBy(variable, key)."""
    if len(list_) != len(keys):
        raise EvaluationError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got"
            f" {len(list_)} and {len(keys)} elements respectively"
        )
    if keys and not values.is_ordered(keys[0]):
        raise EvaluationError("list elements must be comparable")
    if any(type(key) is not type(keys[0]) for key in keys):
        raise EvaluationError("list elements must have the same type")
    by_key = functools.cmp_to_key(values.compare)
    return [list_[at] for at in sorted(range(len(keys)), key=lambda at: by_key(keys[at]))]


def range_to(size: int) -> list[int]:
    """CEL's lists.range(size): the integers from 0 to before `size`."""
    if size < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {size}")
    if size > _MAX_RANGE:
        raise EvaluationError(f"lists.range: size {size} exceeds maximum allowed ({_MAX_RANGE})")
    return list(range(size))


def reversed_list(list_: Sequence[Any]) -> list[Any]:
    """CEL's list.reverse(): the elements, the last one first."""
    return list(reversed(list_))


def distinct(list_: Sequence[Any]) -> list[Any]:
    """CEL's list.distinct(): the elements, each once."""
    out: list[Any] = []
    for each in list_:
        if not contains(out, each):
            out.append(each)
    return out


def unwrapped(list_: Sequence[Any]) -> list[Any]:
    """CEL's optional.unwrap(list): what those of the optional values hold that are present."""
    for each in list_:
        if not isinstance(each, values.Optional):
            raise EvaluationError(f"value {values.value_text(each)} is not optional")
    return [each.value for each in list_ if each.present]


def set_contains(list_: Sequence[Any], sublist: Sequence[Any]) -> bool:
    """CEL's sets.contains(list, sublist): whether the list has every element of the other."""
    return all(contains(list_, each) for each in sublist)


def set_equivalent(list_: Sequence[Any], other: Sequence[Any]) -> bool:
    """CEL's sets.equivalent(list, other): whether each list has every element of the other."""
    return set_contains(list_, other) and set_contains(other, list_)


def set_intersects(list_: Sequence[Any], other: Sequence[Any]) -> bool:
    """CEL's sets.intersects(list, other): whether some element is in both lists."""
    return any(contains(other, each) for each in list_)


def _least_or_greatest(name: str, list_: Sequence[Any], *, least: bool) -> Any:
    """Return the smallest or largest element. Raises: EvaluationError for an empty list; `name` is for the message."""
    _check_ordered(list_)
    if not list_:
        raise EvaluationError(f"{name} called on empty list")
    best = list_[0]
    for each in list_[1:]:
        if _comes_after(best, each) if least else _comes_after(each, best):
            best = each
    return best


def _check_ordered(list_: Sequence[Any]) -> None:
    """Raise EvaluationError unless all elements are of types that have an order."""
    if not all(map(values.is_ordered, list_)):
        raise values.no_such_overload()


def _comes_after(one: Any, other: Any) -> bool:
    """Whether the first comes after the second; not so where there is no order between them."""
    try:
        return values.compare(one, other) > 0
    except EvaluationError:
        return False
