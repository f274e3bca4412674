"""The cost of calls, in the units of Kubernetes' cost limit.

A look-up costs one, a list literal ten and a map literal thirty; a call costs what this module defines, mostly in
proportion to the length of its arguments. If the overload is unknown, the cost depends on the function's name alone.

Source: k8s.io/apiserver/pkg/cel/library (cost), github.com/google/cel-go (interpreter/runtimecost, ext).
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


Cost = Callable[[Sequence[Any], Any], int]


def cost_function(function: str, overload: str) -> Cost:
    """Return the cost function of a call, over its arguments and result."""
    extension = _BY_OVERLOAD_FIRST.get(overload)
    if extension is None and overload.startswith("list_") and overload.endswith("_sort"):
        extension = _sorting
    if extension is None and overload.endswith("_sortByAssociatedKeys"):
        extension = _sorting_by
    return extension or _BY_FUNCTION.get(function) or _BY_OVERLOAD.get(overload) or _one


def _one(arguments: Sequence[Any], result: Any) -> int:
    return 1


def _size(value: Any) -> int:
    size = values.size(value)
    return 1 if size is None else size


def _inner_size(value: Any) -> int:
    if isinstance(value, Optional) and value.present:
        return _inner_size(value.value)
    return _size(value)


def _per_letter(size: float, factor: float = 1.0) -> int:
    return math.ceil(size * factor * _TRAVERSAL)


def _traversed(value: Any) -> int:
    if isinstance(value, str):
        return int(len(value.encode()) * _TRAVERSAL)
    if isinstance(value, bytes):
        return int(len(value) * _TRAVERSAL)
    if isinstance(value, list):
        return sum(map(_traversed, value))
    if isinstance(value, Map):
        return sum(_traversed(key) + _traversed(each) for key, each in value.items())
    return 1


def _search(arguments: Sequence[Any], result: Any) -> int:
    return _per_letter(1 + _size(arguments[0])) * math.ceil(_size(arguments[1]) * _PATTERN)


def _validation(arguments: Sequence[Any], result: Any) -> int:
    kind, text = arguments
    if not isinstance(kind, named_formats.Format):
        return 1
    return _per_letter(1 + _size(text)) * math.ceil(kind.pattern_size * _PATTERN)


def _address(arguments: Sequence[Any], result: Any) -> int:
    return 1 if values.type_name(arguments[0]) == "net.CIDR" else _per_letter(_size(arguments[0]))


def _contains_address(arguments: Sequence[Any], result: Any) -> int:
    return _per_letter(2 * _size(arguments[0]))


def _contains_network(arguments: Sequence[Any], result: Any) -> int:
    return _contains_address(arguments, result) + _per_letter(_size(arguments[0])) + 1


def _and_read(cost: Cost) -> Cost:
    """Add the cost of traversing the second argument, a string."""
    return lambda arguments, result: cost(arguments, result) + _per_letter(_size(arguments[1]))


def equality(arguments: Sequence[Any], result: Any) -> int:
    """The cost of ==."""
    left = arguments[0]
    if isinstance(left, (named_formats.Format, urls.Url)) or values.type_name(left) in _NEGLIGIBLE:
        return 1
    return inequality(arguments, result)


def inequality(arguments: Sequence[Any], result: Any) -> int:
    """The cost of !=."""
    return _per_letter(min(map(_inner_size, arguments)))


def _allocating(factor: float, size: int) -> int:
    return int(size * (factor if factor >= 0 else 1.0)) + 1 + NEW_LIST


def _comparing(list_: Any) -> int:
    if type(list_) is not list:
        missing = "Contains" if type(list_) in _ADDABLE else "Add"
        raise CrashError(f"{_CONVERSION}{values.go_type(list_)} is not traits.Lister: missing method {missing}")
    factor = 2 + _TRAVERSAL if list_ and isinstance(list_[0], (str, bytes)) else 2.0
    return _allocating(factor, len(list_) ** 2)


def _flattening(arguments: Sequence[Any], result: Any) -> int:
    if type(arguments[1]) is not int:
        raise CrashError(f"{_CONVERSION}ref.Val is {values.go_type(arguments[1])}, not types.Int")
    return _allocating(float(arguments[1]), _size(arguments[0]))


def _sorting(arguments: Sequence[Any], result: Any) -> int:
    return _comparing(arguments[0])


def _sorting_by(arguments: Sequence[Any], result: Any) -> int:
    return _comparing(arguments[1])


def _sets(factor: int) -> Cost:
    return lambda arguments, result: 1 + factor * _size(arguments[0]) * _size(arguments[1])


def _first(factor: float = 1.0) -> Cost:
    return lambda arguments, result: _per_letter(_size(arguments[0]), factor)


def _all_of_first(arguments: Sequence[Any], result: Any) -> int:
    return _traversed(arguments[0])


def _named(names: str, cost: Cost) -> dict[str, Cost]:
    return dict.fromkeys(names.split(), cost)


_BY_FUNCTION: Final[dict[str, Cost]] = {
    **_named("isSorted sum max min indexOf lastIndexOf includes", _all_of_first),
    **_named("url lowerAscii upperAscii substring trim", _first()),
    **_named("replace split", _first(2)),
    "join": lambda arguments, result: _per_letter(_size(result), 2),
    **_named("find findAll", _search),
    **_named("cidr isIP isCIDR quantity isQuantity semver isSemver", _first()),
    "ip": _address,
    "ip.isCanonical": _first(2),
    "containsIP": _contains_address,
    "containsCIDR": _contains_network,
    "validate": _validation,
    "_==_": equality,
}

# By overload, checked before the function's name: extensions with their own costs.
_BY_OVERLOAD_FIRST: Final[dict[str, Cost]] = {
    **_named("list_slice list_range list_reverse", lambda arguments, result: _allocating(1, _size(result))),
    "list_flatten": lambda arguments, result: _allocating(1, _size(arguments[0])),
    "list_flatten_int": _flattening,
    "list_distinct": _sorting,
    **_named("list_sets_contains_list list_sets_intersects_list", _sets(1)),
    "list_sets_equivalent_list": _sets(2),
    "cidr_contains_ip_string": _and_read(_contains_address),
    "cidr_contains_cidr_string": _and_read(_contains_network),
}

_SHORTER: Final = " ".join(
    f"{name}_{kind}" for name in ("less", "greater", "less_equals", "greater_equals") for kind in ("string", "bytes")
)
_BY_OVERLOAD: Final[dict[str, Cost]] = {
    **_named("starts_with_string ends_with_string", lambda arguments, result: _per_letter(_inner_size(arguments[1]))),
    **_named("string_to_bytes bytes_to_string strings_quote string_format", _first()),
    "in_list": lambda arguments, result: _inner_size(arguments[1]),
    **_named(_SHORTER, inequality),
    **_named("not_equals", inequality),
    **_named("add_string add_bytes", lambda arguments, result: _per_letter(_size(arguments[0]) + _size(arguments[1]))),
    **_named("matches matches_string", _search),
    "contains_string": lambda arguments, result: (
        _per_letter(_inner_size(arguments[0])) * _per_letter(_inner_size(arguments[1]))
    ),
}
