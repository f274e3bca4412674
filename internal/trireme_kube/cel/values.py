"""Values as CEL sees them, told apart by their Python type, and what it means that two are the same.

| CEL | here | | CEL | here |
| --- | --- | --- | --- | --- |
| bool, int, double, string, bytes, null | bool, int, float, str, bytes, None | | uint | `Uint` |
| list | list | | map | `Map` |
| duration, timestamp | `Duration`, `Timestamp` | | type | `TypeName` |
| optional | `Optional` | | quantity, version | `Amount`, `semver.Version` |
| address, network | those of `ipaddress` | | URL, named format | `urls.Url`, `formats.Format` |

Numbers of all kinds are the same when they are equal; anything else is never the same as something of another kind.
Source: github.com/google/cel-go/common/types.
"""

import decimal
import ipaddress
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from trireme_kube.apimachinery import semver

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
    """A value that may not be there."""

    value: Any = None
    present: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """What has no value; no expression sees it, but it counts as long as one where that has to be paid for."""

    def __len__(self) -> int:
        return 1


@dataclass(frozen=True, slots=True)
class Amount:
    """A quantity; with the number of digits behind the point that it was written with, or computed from."""

    nanos: int
    digits: int = field(default=0, compare=False)


class Map:
    """A map. Keys that are the same are one key, whatever kind of number they are; true is not 1."""

    __slots__ = ("_entries", "default")

    def __init__(self, entries: Mapping[Any, Any] | None = None, default: "Map | None" = None) -> None:
        """`default`: what a look-up finds where there is no such key; it is not in the map for all that."""
        self._entries: dict[Any, tuple[Any, Any]] = {}
        self.default = default
        for key, value in (entries or {}).items():
            self.put(key, value)

    def put(self, key: Any, value: Any) -> None:
        """Adds or replaces an entry; only for who makes the map."""
        self._entries[_hashable(key)] = (key, value)

    def drop(self, key: Any) -> None:
        """Removes an entry; only for who makes the map."""
        self._entries.pop(_hashable(key), None)

    def find(self, key: Any) -> tuple[bool, Any]:
        """Whether there is an entry, and its value."""
        entry = self._entries.get(_hashable(key))
        if entry is not None:
            return True, entry[1]
        return self.default is not None, self.default

    def __contains__(self, key: Any) -> bool:
        return _hashable(key) in self._entries

    def __iter__(self) -> Iterator[Any]:
        return iter([key for key, _ in self._entries.values()])

    def items(self) -> list[tuple[Any, Any]]:
        """All entries."""
        return list(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)


def _hashable(key: Any) -> Any:
    kind = type(key)
    if kind is str or kind is int:
        return key
    if kind is bool:
        return (bool, key)
    # Lists and maps are no keys: the checker refuses them, and a value that comes as one is found nowhere.
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
    Failed: "error",
    Amount: "kubernetes.Quantity",
    semver.Version: "kubernetes.Semver",
    ipaddress.IPv4Address: "net.IP",
    ipaddress.IPv6Address: "net.IP",
    ipaddress.IPv4Interface: "net.CIDR",
    ipaddress.IPv6Interface: "net.CIDR",
}
_NUMBERS: Final = (int, float, Uint)
# Comparing one of these with something else is an error, not just false.
_SELECTIVE: dict[type, Callable[[Any], Any]] = {
    Amount: lambda value: value,
    semver.Version: lambda value: value,
    ipaddress.IPv4Address: lambda value: value,
    ipaddress.IPv6Address: lambda value: value,
    ipaddress.IPv4Interface: lambda value: (value.ip, value.network.prefixlen),
    ipaddress.IPv6Interface: lambda value: (value.ip, value.network.prefixlen),
}


def register(kind: type, name: str, identity: Callable[[Any], Any]) -> None:
    """Adds a type of values; two of them are the same when what `identity` says of them is."""
    _NAMES[kind] = name
    _SELECTIVE[kind] = identity


def type_name(value: Any) -> str:
    """The name of the value's type."""
    return _NAMES[type(value)]


def no_such_overload() -> EvaluationError:
    """A function was called with something it is not for."""
    return EvaluationError("no such overload")


def is_number(value: Any) -> bool:
    """Whether it is a number of any kind."""
    return type(value) in _NUMBERS


def equal(left: Any, right: Any) -> bool:
    """Whether they are the same. Raises: EvaluationError where that cannot be asked."""
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
        return len(left) == len(right) and not any(map(_differ, left, right))
    if kind is Map:
        return len(left) == len(right) and all(_same_entry(right, key, value) for key, value in left.items())
    if kind is Optional:
        return left.present == right.present and (not left.present or equal(left.value, right.value))
    return bool(left == right)


def _same_entry(entries: Map, key: Any, value: Any) -> bool:
    present, other = entries.find(key)
    return present and not _differ(value, other)


def _differ(left: Any, right: Any) -> bool:
    """Whether parts of lists and maps tell them apart: parts that cannot be compared do not."""
    try:
        return not equal(left, right)
    except EvaluationError:
        return False


def same(left: Any, right: Any) -> bool:
    """Whether they are the same, where an error means that they are not."""
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
    """Whether values of this kind have an order."""
    return type(value) in (bool, int, Uint, float, str, bytes, Duration, Timestamp)


def size(value: Any) -> int | None:
    """How long it is, where it has a length."""
    kind = type(value)
    if kind in (str, bytes, list, Map):
        return len(value)
    if kind in (ipaddress.IPv4Address, ipaddress.IPv6Address):
        return int(value.max_prefixlen) // 8
    if kind in (ipaddress.IPv4Interface, ipaddress.IPv6Interface):
        return -(-int(value.network.prefixlen) // 8)
    return None


def is_zero(value: Any) -> bool:
    """Whether it is what a field is that nobody has set."""
    if value is None or type(value) in (bool, int, Uint, float, str, bytes, list, Map):
        return not value and not (type(value) is float and value != value)
    if isinstance(value, Duration):
        return value.nanos == 0
    if isinstance(value, Optional):
        return not value.present or is_zero(value.value)
    return False


def written(value: Any) -> str:
    """As messages show a key or an index."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return go_float(value)
    return str(int(value)) if isinstance(value, int) else str(value)


def go_float(value: float) -> str:
    """As Go prints a double: an exponent from 1e6 on and below 1e-4, and no more digits than it takes."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        return plain_float(value)
    sign, digits, _ = decimal.Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits)).rstrip("0")
    power = decimal.Decimal(repr(value)).adjusted()
    fraction = f".{text[1:]}" if len(text) > 1 else ""
    return f"{'-' if sign else ''}{text[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"


def plain_float(value: float) -> str:
    """A double without an exponent, in as many digits as it takes."""
    digits = format(decimal.Decimal(repr(value)), "f")
    return digits.rstrip("0").removesuffix(".") if "." in digits else digits


def quoted(text: str) -> str:
    """The text as messages show it."""
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
    Failed: "*types.Err",
}
# Of ours, those of other packages are named for what they are.
_OF_KUBERNETES: Final = {"net.IP": "cel.IP", "net.CIDR": "cel.CIDR", "kubernetes.URL": "cel.URL"}


def go_type(value: Any) -> str:
    """The type as messages name it that speak of the implementation."""
    name = type_name(value)
    return _GO_TYPES.get(type(value)) or _OF_KUBERNETES.get(name, name.replace("kubernetes.Named", "cel."))
