"""CEL values, distinguished by their Python type, and their equality.

| CEL | here | | CEL | here |
| --- | --- | --- | --- | --- |
| bool, int, double, string, bytes, null | bool, int, float, str, bytes, None | | uint | `Uint` |
| list | list | | map | `Map` |
| duration, timestamp | `Duration`, `Timestamp` | | type | `TypeName` |
| optional | `Optional` | | quantity, version | `Amount`, `semver.Version` |
| address, network | those of `ipaddress` | | URL, named format | `urls.Url`, `named_formats.Format` |

Numbers are equal across types; any other value is never equal to one of another type.
Source: github.com/google/cel-go/common/types.

Also change: internal/trireme/plugins/dynamic_resources/expressions.py,
internal/trireme/plugins/dynamic_resources/derived_attributes.py,
internal/trireme_kube/cel/compiler/environment.py, internal/trireme_kube/cel/library/functions.py,
internal/trireme_kube/cel/interpreter/costs.py (types of CEL).

Tests: tests/unit/cel/test_values.py, tests/unit/plugins/dynamic_resources/test_expressions.py,
tests/conformance/test_selectors.py.
"""

import decimal
import ipaddress
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from trireme_kube.apimachinery import golang, semver

MAX_INT: Final = 2**63 - 1
MIN_INT: Final = -(2**63)
MAX_UINT: Final = 2**64 - 1


class EvaluationError(Exception):
    """The expression has no value; the text is Kubernetes'."""


class Uint(int):
    """An unsigned number."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time."""

    nanos: int


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A point in time, since 1970, and the offset from UTC, in seconds, that it was written with."""

    nanos: int
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class TypeName:
    """A type as a value."""

    name: str


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be absent."""

    value: Any = None
    present: bool = False


@dataclass(frozen=True, slots=True)
class FailedValue:
    """Stands for a value whose evaluation failed, in cost computations, with length one."""

    def __len__(self) -> int:
        return 1


@dataclass(frozen=True, slots=True)
class Amount:
    """A quantity, with the number of decimals of its text or operands."""

    nanos: int
    digits: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A map's value that looking it up fails on; its key does not count as present."""

    problem: str


class Map:
    """A map. Numeric keys are equal across types; true is not 1."""

    __slots__ = ("_entries", "default")

    def __init__(self, entries: Mapping[Any, Any] | None = None, default: "Map | None" = None) -> None:
        """`default`: the result of a look-up of a missing key, which still does not count as present."""
        self._entries: dict[Any, tuple[Any, Any]] = {}
        self.default = default
        for key, value in (entries or {}).items():
            self.put(key, value)

    def put(self, key: Any, value: Any) -> None:
        """Add or replace an entry, while building the map."""
        self._entries[_as_python_key(key)] = (key, value)

    def drop(self, key: Any) -> None:
        """Remove an entry, while building the map."""
        self._entries.pop(_as_python_key(key), None)

    def find(self, key: Any) -> tuple[bool, Any]:
        """Return whether there is an entry for the key, and its value. Raises: EvaluationError if it is unreadable."""
        entry = self._entries.get(_as_python_key(key))
        if entry is not None:
            if type(entry[1]) is Unreadable:
                raise EvaluationError(entry[1].problem)
            return True, entry[1]
        return self.default is not None, self.default

    def __contains__(self, key: Any) -> bool:
        entry = self._entries.get(_as_python_key(key))
        return entry is not None and type(entry[1]) is not Unreadable

    def __iter__(self) -> Iterator[Any]:
        return iter([key for key, _ in self._entries.values()])

    def items(self) -> list[tuple[Any, Any]]:
        """All entries."""
        return list(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)


def _as_python_key(key: Any) -> Any:
    """Return what Python may use as the key's key: true is not 1, and lists match no key."""
    kind = type(key)
    if kind is str or kind is int:
        return key
    if kind is bool:
        return (bool, key)
    # Lists and maps cannot be keys: the checker rejects them, and such a dynamic value matches no key.
    return (list, id(key)) if kind in (list, Map) else key


_NAMES: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    Map: "map",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    TypeName: "type",
    Optional: "optional_type",
    FailedValue: "error",
    Amount: "kubernetes.Quantity",
    semver.Version: "kubernetes.Semver",
    ipaddress.IPv4Address: "net.IP",
    ipaddress.IPv6Address: "net.IP",
    ipaddress.IPv4Interface: "net.CIDR",
    ipaddress.IPv6Interface: "net.CIDR",
}
_NUMBERS: Final = (int, float, Uint)
# Comparing one of these with another type is an error, not just false.
_SELECTIVE: dict[type, Callable[[Any], Any]] = {
    Amount: lambda value: value,
    semver.Version: lambda value: value,
    ipaddress.IPv4Address: lambda value: value,
    ipaddress.IPv6Address: lambda value: value,
    ipaddress.IPv4Interface: lambda value: (value.ip, value.network.prefixlen),
    ipaddress.IPv6Interface: lambda value: (value.ip, value.network.prefixlen),
}


def register(kind: type, name: str, identity: Callable[[Any], Any]) -> None:
    """Register a type of values, which are equal if their `identity` is."""
    _NAMES[kind] = name
    _SELECTIVE[kind] = identity


def name_of_type(kind: type) -> str:
    """The name of the type in CEL."""
    return _NAMES[kind]


def type_name(value: Any) -> str:
    """The name of the value's type."""
    return name_of_type(type(value))


def no_such_overload() -> EvaluationError:
    """The error of a call without a matching overload."""
    return EvaluationError("no such overload")


def is_number(value: Any) -> bool:
    """Whether it is a number of any type."""
    return type(value) in _NUMBERS


def equal(left: Any, right: Any) -> bool:
    """Return left == right. Raises: EvaluationError if they cannot be compared."""
    kind, other = type(left), type(right)
    if kind is other and kind in (str, int, bool):
        return bool(left == right)
    if left is None or right is None:
        return left is right
    if kind in _NUMBERS:
        return other in _NUMBERS and bool(left == right)
    identity = _SELECTIVE.get(kind)
    if identity is not None:
        if type_name(left) != type_name(right):
            raise no_such_overload()
        return bool(identity(left) == _SELECTIVE[other](right))
    if kind is not other:
        return False
    if kind is list:
        return len(left) == len(right) and not any(map(_differ_if_comparable, left, right))
    if kind is Map:
        return len(left) == len(right) and all(_has_equal_entry(right, key, value) for key, value in left.items())
    if kind is Optional:
        return left.present == right.present and (not left.present or equal(left.value, right.value))
    return bool(left == right)


def _has_equal_entry(entries: Map, key: Any, value: Any) -> bool:
    present, other = entries.find(key)
    return present and not _differ_if_comparable(value, other)


def _differ_if_comparable(left: Any, right: Any) -> bool:
    """Whether two elements of lists or maps differ; elements that cannot be compared do not."""
    try:
        return not equal(left, right)
    except EvaluationError:
        return False


def same(left: Any, right: Any) -> bool:
    """Return whether two values are equal; False, and no error, if they cannot be compared."""
    try:
        return equal(left, right)
    except EvaluationError:
        return False


def compare(left: Any, right: Any) -> int:
    """Below zero, zero or above it, as the first comes before, with or after the second. Raises: EvaluationError."""
    kind, other = type(left), type(right)
    if kind in _NUMBERS and other in _NUMBERS:
        if left != left or right != right:
            raise EvaluationError("NaN values cannot be ordered")
    elif kind is not other or not is_ordered(left):
        raise no_such_overload()
    return int(left > right) - int(left < right)


def is_ordered(value: Any) -> bool:
    """Whether values of this type are ordered."""
    return type(value) in (bool, int, Uint, float, str, bytes, Duration, Timestamp)


def size(value: Any) -> int | None:
    """Return the length of a text, list, map or the like; None for values without one."""
    kind = type(value)
    if kind in (str, bytes, list, Map):
        return len(value)
    if kind in (ipaddress.IPv4Address, ipaddress.IPv6Address):
        return int(value.max_prefixlen) // 8
    if kind in (ipaddress.IPv4Interface, ipaddress.IPv6Interface):
        return -(-int(value.network.prefixlen) // 8)
    return None


def is_zero(value: Any) -> bool:
    """Whether it is the zero value of its type."""
    if value is None or type(value) in (bool, int, Uint, float, str, bytes, list, Map):
        return not value
    if isinstance(value, Duration):
        return value.nanos == 0
    if isinstance(value, Optional):
        return not value.present or is_zero(value.value)
    return False


def value_text(value: Any) -> str:
    """Format a key or an index for messages."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return golang.format_float(value)
    return str(int(value)) if isinstance(value, int) else str(value)


def plain_float(value: float) -> str:
    """Format a double without an exponent, in the shortest digits."""
    digits = format(decimal.Decimal(repr(value)), "f")
    return digits.rstrip("0").removesuffix(".") if "." in digits else digits


def quoted(text: str) -> str:
    """Quote the text for messages."""
    return json.dumps(text, ensure_ascii=False)


_GO_TYPES: Final = {
    bool: "types.Bool",
    int: "types.Int",
    Uint: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    type(None): "types.Null",
    list: "*types.baseList",
    Map: "*types.baseMap",
    Duration: "types.Duration",
    Timestamp: "types.Timestamp",
    TypeName: "*types.Type",
    Optional: "*types.Optional",
    Amount: "cel.Quantity",
    semver.Version: "cel.Semver",
    FailedValue: "*types.Err",
}
# Types of other Go packages, by their names in Go.
_OF_KUBERNETES: Final = {"net.IP": "cel.IP", "net.CIDR": "cel.CIDR", "kubernetes.URL": "cel.URL"}


def go_type(value: Any) -> str:
    """The value's Go type, for messages that contain it."""
    name = type_name(value)
    return _GO_TYPES.get(type(value)) or _OF_KUBERNETES.get(name, name.replace("kubernetes.Named", "cel."))
