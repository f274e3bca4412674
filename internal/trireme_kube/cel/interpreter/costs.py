"""The cost of calls, in the units of Kubernetes' cost limit.

A look-up costs one, a list literal ten and a map literal thirty; a call costs what this module defines, mostly in
proportion to the length of its arguments. If the overload is unknown, the cost depends on the function's name alone.

Source: k8s.io/apiserver/pkg/cel/library (cost), github.com/google/cel-go (interpreter/runtimecost, ext).

Also change: internal/trireme_kube/cel/values.py (types of CEL).

Tests: tests/unit/plugins/dynamic_resources/test_expressions.py, tests/conformance/test_selectors.py.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from trireme_kube.cel import values
from trireme_kube.cel.library import named_formats, urls
from trireme_kube.cel.values import Duration, Map, Optional, Timestamp, Uint

LIMIT: Final = 1_000_000
"""The cost limit of one evaluation. Source: k8s.io/api/resource/v1, CELSelectorExpressionMaxCost."""

NEW_LIST: Final = 10
NEW_MAP: Final = 30

_TRAVERSAL: Final = 0.1
_PATTERN: Final = 0.25
_NEGLIGIBLE: Final = ("net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver")

_CONVERSION: Final = "interface conversion: "
_ADDABLE: Final = (int, Uint, float, str, bytes, Duration, Timestamp)


class CrashError(Exception):
    """Kubernetes' cost estimator panics at a value of an unexpected type."""

    def __init__(self, why: str) -> None:
        """`why`: the message of Go's runtime."""
        super().__init__(f"internal error: {why}")


#: Implementers: trireme_kube.cel.interpreter.costs.cost_function.
Cost = Callable[[Sequence[Any], Any], int]


def cost_function(function: str, overload: str) -> Cost:
    """Return the cost function of a call, over its arguments and result."""
    extension = _BY_OVERLOAD_FIRST.get(overload)
    if extension is None and overload.startswith("list_") and overload.endswith("_sort"):
        extension = _sort_cost
    if extension is None and overload.endswith("_sortByAssociatedKeys"):
        extension = _sort_by_cost
    return extension or _BY_FUNCTION.get(function) or _BY_OVERLOAD.get(overload) or _constant_cost


def _constant_cost(arguments: Sequence[Any], result: Any) -> int:
    """Return 1, whatever the arguments."""
    return 1


def _size_or_one(value: Any) -> int:
    """Return the length of a value that has one; else 1."""
    size = values.size(value)
    return 1 if size is None else size


def _size_of_elements(value: Any) -> int:
    if isinstance(value, Optional) and value.present:
        return _size_of_elements(value.value)
    return _size_or_one(value)


def _cost_per_letter(size: float, factor: float = 1.0) -> int:
    return math.ceil(size * factor * _TRAVERSAL)


def _traversal_cost(value: Any) -> int:
    """Return the cost of reading a value with all that it contains."""
    if isinstance(value, str):
        return int(len(value.encode()) * _TRAVERSAL)
    if isinstance(value, bytes):
        return int(len(value) * _TRAVERSAL)
    if isinstance(value, list):
        return sum(map(_traversal_cost, value))
    if isinstance(value, Map):
        return sum(_traversal_cost(key) + _traversal_cost(each) for key, each in value.items())
    return 1


def _search_cost(arguments: Sequence[Any], result: Any) -> int:
    return _cost_per_letter(1 + _size_or_one(arguments[0])) * math.ceil(_size_or_one(arguments[1]) * _PATTERN)


def _validation_cost(arguments: Sequence[Any], result: Any) -> int:
    """Return the cost of format.validate: of matching the format's pattern with the text."""
    kind, text = arguments
    if not isinstance(kind, named_formats.Format):
        return 1
    return _cost_per_letter(1 + _size_or_one(text)) * math.ceil(kind.pattern_size * _PATTERN)


def _address_cost(arguments: Sequence[Any], result: Any) -> int:
    """Return the cost of a function of an address, by its text; 1 for a parsed network."""
    return 1 if values.type_name(arguments[0]) == "net.CIDR" else _cost_per_letter(_size_or_one(arguments[0]))


def _contains_address_cost(arguments: Sequence[Any], result: Any) -> int:
    return _cost_per_letter(2 * _size_or_one(arguments[0]))


def _contains_network_cost(arguments: Sequence[Any], result: Any) -> int:
    return _contains_address_cost(arguments, result) + _cost_per_letter(_size_or_one(arguments[0])) + 1


def _with_cost_of_reading_second(cost: Cost) -> Cost:
    """Add the cost of traversing the second argument, a string."""
    return lambda arguments, result: cost(arguments, result) + _cost_per_letter(_size_or_one(arguments[1]))


def equality(arguments: Sequence[Any], result: Any) -> int:
    """The cost of ==."""
    left = arguments[0]
    if isinstance(left, (named_formats.Format, urls.Url)) or values.type_name(left) in _NEGLIGIBLE:
        return 1
    return inequality(arguments, result)


def inequality(arguments: Sequence[Any], result: Any) -> int:
    """The cost of !=."""
    return _cost_per_letter(min(map(_size_of_elements, arguments)))


def _list_allocation_cost(factor: float, size: int) -> int:
    return int(size * (factor if factor >= 0 else 1.0)) + 1 + NEW_LIST


def _list_sorting_cost(list_: Any) -> int:
    """Return the cost of sorting a list. Raises: CrashError for another value."""
    if type(list_) is not list:
        missing = "Contains" if type(list_) in _ADDABLE else "Add"
        raise CrashError(f"{_CONVERSION}{values.go_type(list_)} is not traits.Lister: missing method {missing}")
    factor = 2 + _TRAVERSAL if list_ and isinstance(list_[0], (str, bytes)) else 2.0
    return _list_allocation_cost(factor, len(list_) ** 2)


def _flatten_cost(arguments: Sequence[Any], result: Any) -> int:
    if type(arguments[1]) is not int:
        raise CrashError(f"{_CONVERSION}ref.Val is {values.go_type(arguments[1])}, not types.Int")
    return _list_allocation_cost(float(arguments[1]), _size_or_one(arguments[0]))


def _sort_cost(arguments: Sequence[Any], result: Any) -> int:
    return _list_sorting_cost(arguments[0])


def _sort_by_cost(arguments: Sequence[Any], result: Any) -> int:
    return _list_sorting_cost(arguments[1])


def _cost_function_of_sets(factor: int) -> Cost:
    """Return the cost function of the `sets` functions: each element of one list with each of the other."""
    return lambda arguments, result: 1 + factor * _size_or_one(arguments[0]) * _size_or_one(arguments[1])


def _cost_function_of_reading_first(factor: float = 1.0) -> Cost:
    """Return the cost function that reads the first argument once, times a factor."""
    return lambda arguments, result: _cost_per_letter(_size_or_one(arguments[0]), factor)


def _traversal_cost_of_first(arguments: Sequence[Any], result: Any) -> int:
    """Return the cost of reading the first argument with all that it contains."""
    return _traversal_cost(arguments[0])


def _same_cost_for(names: str, cost: Cost) -> dict[str, Cost]:
    """Return the entries of a table that give all of these functions (names with spaces between) the same cost."""
    return dict.fromkeys(names.split(), cost)


_BY_FUNCTION: Final[dict[str, Cost]] = {
    **_same_cost_for("isSorted sum max min indexOf lastIndexOf includes", _traversal_cost_of_first),
    **_same_cost_for("url lowerAscii upperAscii substring trim", _cost_function_of_reading_first()),
    **_same_cost_for("replace split", _cost_function_of_reading_first(2)),
    "join": lambda arguments, result: _cost_per_letter(_size_or_one(result), 2),
    **_same_cost_for("find findAll", _search_cost),
    **_same_cost_for("cidr isIP isCIDR quantity isQuantity semver isSemver", _cost_function_of_reading_first()),
    "ip": _address_cost,
    "ip.isCanonical": _cost_function_of_reading_first(2),
    "containsIP": _contains_address_cost,
    "containsCIDR": _contains_network_cost,
    "validate": _validation_cost,
    "_==_": equality,
}

# By overload, checked before the function's name: extensions with their own costs.
_BY_OVERLOAD_FIRST: Final[dict[str, Cost]] = {
    **_same_cost_for(
        "list_slice list_range list_reverse", lambda arguments, result: _list_allocation_cost(1, _size_or_one(result))
    ),
    "list_flatten": lambda arguments, result: _list_allocation_cost(1, _size_or_one(arguments[0])),
    "list_flatten_int": _flatten_cost,
    "list_distinct": _sort_cost,
    **_same_cost_for("list_sets_contains_list list_sets_intersects_list", _cost_function_of_sets(1)),
    "list_sets_equivalent_list": _cost_function_of_sets(2),
    "cidr_contains_ip_string": _with_cost_of_reading_second(_contains_address_cost),
    "cidr_contains_cidr_string": _with_cost_of_reading_second(_contains_network_cost),
}

_SHORTER: Final = " ".join(
    f"{name}_{kind}" for name in ("less", "greater", "less_equals", "greater_equals") for kind in ("string", "bytes")
)
_BY_OVERLOAD: Final[dict[str, Cost]] = {
    **_same_cost_for(
        "starts_with_string ends_with_string",
        lambda arguments, result: _cost_per_letter(_size_of_elements(arguments[1])),
    ),
    **_same_cost_for("string_to_bytes bytes_to_string strings_quote string_format", _cost_function_of_reading_first()),
    "in_list": lambda arguments, result: _size_of_elements(arguments[1]),
    **_same_cost_for(_SHORTER, inequality),
    **_same_cost_for("not_equals", inequality),
    **_same_cost_for(
        "add_string add_bytes",
        lambda arguments, result: _cost_per_letter(_size_or_one(arguments[0]) + _size_or_one(arguments[1])),
    ),
    **_same_cost_for("matches matches_string", _search_cost),
    "contains_string": lambda arguments, result: (
        _cost_per_letter(_size_of_elements(arguments[0])) * _cost_per_letter(_size_of_elements(arguments[1]))
    ),
}
