"""The values of Kubernetes as CEL sees them, and the functions of quantities, versions and texts.

To the CEL library all are messages: it compares two of them field by field, so each has one canonical text, in a field
whose name cannot be written in an expression. Functions get what they are called with and check it themselves.

Source: k8s.io/apiserver/pkg/cel/library (quantity, semverlib, regex).
"""

import json
import re
from collections.abc import Callable
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory, struct_pb2

from trireme.framework import quantity, semver

QUANTITY_TYPE: Final = "kubernetes.Quantity"
VERSION_TYPE: Final = "kubernetes.Semver"
ADDRESS_TYPE: Final = "net.IP"
NETWORK_TYPE: Final = "net.CIDR"
DEVICE_TYPE: Final = "kubernetes.DRADevice"

# `in` is a word of the language: no expression can name the field.
_FIELD = "in"
_FIELDS = descriptor_pb2.FieldDescriptorProto
_QUANTITY_MARK = "q"
_VERSION_MARK = "v"
ADDRESS_MARK: Final = "n"
NETWORK_MARK: Final = "c"
_TYPES = {
    _QUANTITY_MARK: QUANTITY_TYPE,
    _VERSION_MARK: VERSION_TYPE,
    ADDRESS_MARK: ADDRESS_TYPE,
    NETWORK_MARK: NETWORK_TYPE,
}
_NANOS = quantity.NANOS_PER_UNIT


class NoSuchOverloadError(ValueError):
    """A function was called with something it is not for."""

    def __init__(self) -> None:
        super().__init__("no such overload")


def _declare_types() -> type[message.Message]:
    """Tells the library of all types; that of quantities is the one that there are messages of."""
    pool = descriptor_pool.Default()
    for package in ("kubernetes", "net"):
        file = descriptor_pb2.FileDescriptorProto(
            name=f"trireme/cel/{package}.proto",
            package=package,
            syntax="proto3",
            dependency=[struct_pb2.DESCRIPTOR.name],
        )
        for holder, _, name in (kind.partition(".") for kind in _TYPES.values()):
            if holder == package:
                kind = file.message_type.add(name=name)
                kind.field.add(name=_FIELD, number=1, type=_FIELDS.TYPE_STRING, label=_FIELDS.LABEL_OPTIONAL)
        if DEVICE_TYPE.startswith(f"{package}."):
            _declare_device(file.message_type.add(name=DEVICE_TYPE.rpartition(".")[2]))
        pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(QUANTITY_TYPE))


def _declare_device(kind: descriptor_pb2.DescriptorProto) -> None:
    """The fields of a device. Expressions are checked against it; there is never one of these messages."""
    kind.field.add(name="driver", number=1, type=_FIELDS.TYPE_STRING, label=_FIELDS.LABEL_OPTIONAL)
    kind.field.add(name="allowMultipleAllocations", number=2, type=_FIELDS.TYPE_BOOL, label=_FIELDS.LABEL_OPTIONAL)
    for number, name in enumerate(("attributes", "capacity"), start=3):
        entry = kind.nested_type.add(name=f"{name.capitalize()}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=_FIELDS.TYPE_STRING, label=_FIELDS.LABEL_OPTIONAL)
        # To CEL this is a map of texts to anything.
        struct = f".{struct_pb2.Struct.DESCRIPTOR.full_name}"
        entry.field.add(
            name="value", number=2, type=_FIELDS.TYPE_MESSAGE, type_name=struct, label=_FIELDS.LABEL_OPTIONAL
        )
        kind.field.add(
            name=name,
            number=number,
            type=_FIELDS.TYPE_MESSAGE,
            type_name=f".{DEVICE_TYPE}.{entry.name}",
            label=_FIELDS.LABEL_REPEATED,
        )


# At run time all are of the first type: the library tells functions apart by kind, and all messages are of one kind.
_VALUE = _declare_types()


def of_quantity(nanos: int) -> message.Message:
    """An amount, as CEL sees it."""
    return marked(_QUANTITY_MARK, str(nanos))


def of_version(version: semver.Version) -> message.Message:
    """A version, as CEL sees it."""
    return marked(_VERSION_MARK, str(version))


def type_name(value: Any) -> str:
    """The type of such a value, as messages name it; empty for another one."""
    if not isinstance(value, _VALUE):
        return ""
    return _TYPES.get(_text(value)[:1], "")


def marked(mark: str, text: str) -> message.Message:
    """A value of another kind, as CEL sees it."""
    return _VALUE(**{_FIELD: f"{mark}{text}"})


def unmarked(value: Any, mark: str) -> str:
    """The text of a value of this kind. Raises: NoSuchOverloadError."""
    if isinstance(value, _VALUE) and _text(value).startswith(mark):
        return _text(value)[1:]
    raise NoSuchOverloadError


def quoted(text: str) -> str:
    """The text as messages show it."""
    return json.dumps(text, ensure_ascii=False)


def _text(value: Any) -> str:
    return str(getattr(value, _FIELD))


def _nanos(value: Any) -> int:
    return int(unmarked(value, _QUANTITY_MARK))


def _version(value: Any) -> semver.Version:
    return semver.parse(unmarked(value, _VERSION_MARK))


def _compare(left: Any, right: Any) -> int:
    if type_name(left) == QUANTITY_TYPE:
        one, other = _nanos(left), _nanos(right)
        return (one > other) - (one < other)
    first, second = _version(left), _version(right)
    return (first > second) - (first < second)


# Quantities


def quantity_of(text: str) -> message.Message:
    """quantity(string)."""
    return of_quantity(quantity.parse_quantity(text).nanos)


def is_quantity(text: str) -> bool:
    """isQuantity(string)."""
    return succeeds(quantity.parse_quantity, text)


def sign(value: Any) -> int:
    """sign(quantity)."""
    nanos = _nanos(value)
    return (nanos > 0) - (nanos < 0)


def compare_to(value: Any, other: Any) -> int:
    """x.compareTo(y), of two of a kind."""
    return _compare(value, other)


def is_greater_than(value: Any, other: Any) -> bool:
    """x.isGreaterThan(y), of two of a kind."""
    return _compare(value, other) > 0


def is_less_than(value: Any, other: Any) -> bool:
    """x.isLessThan(y), of two of a kind."""
    return _compare(value, other) < 0


def is_integer(value: Any) -> bool:
    """quantity.isInteger()."""
    return _whole(_nanos(value)) is not None


def as_integer(value: Any) -> int:
    """quantity.asInteger()."""
    whole = _whole(_nanos(value))
    if whole is None:
        raise ValueError("cannot convert value to integer")
    return whole


def as_float(value: Any) -> float:
    """quantity.asApproximateFloat()."""
    return _nanos(value) / _NANOS


def add(value: Any, other: Any) -> message.Message:
    """quantity.add(quantity)."""
    return of_quantity(_nanos(value) + _nanos(other))


def add_int(value: Any, other: int) -> message.Message:
    """quantity.add(int)."""
    return of_quantity(_nanos(value) + other * _NANOS)


def sub(value: Any, other: Any) -> message.Message:
    """quantity.sub(quantity)."""
    return of_quantity(_nanos(value) - _nanos(other))


def sub_int(value: Any, other: int) -> message.Message:
    """quantity.sub(int)."""
    return of_quantity(_nanos(value) - other * _NANOS)


def _whole(nanos: int) -> int | None:
    whole, rest = divmod(nanos, _NANOS)
    return None if rest or not -(2**63) <= whole < 2**63 else whole


# Versions


def version_of(text: str) -> message.Message:
    """semver(string)."""
    return of_version(semver.parse(text))


def normalized_version_of(text: str, normalize: bool) -> message.Message:
    """semver(string, bool)."""
    return of_version(semver.parse(semver.normalized(text) if normalize else text))


def is_version(text: str) -> bool:
    """isSemver(string)."""
    return succeeds(version_of, text)


def is_normalized_version(text: str, normalize: bool) -> bool:
    """isSemver(string, bool)."""
    return succeeds(lambda each: normalized_version_of(each, normalize), text)


def major(value: Any) -> int:
    """semver.major()."""
    return _version(value).major


def minor(value: Any) -> int:
    """semver.minor()."""
    return _version(value).minor


def patch(value: Any) -> int:
    """semver.patch()."""
    return _version(value).patch


def succeeds(parse: Callable[[str], Any], text: str) -> bool:
    """Whether it can be parsed."""
    try:
        parse(text)
    except ValueError:
        return False
    return True


# Texts


def find(text: str, pattern: str) -> str:
    """string.find(pattern): the first match, or nothing."""
    found = _compiled(pattern).search(text)
    return found.group() if found else ""


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """string.findAll(pattern), string.findAll(pattern, limit): a limit below zero is none."""
    out: list[str] = []
    end = -1
    for found in _compiled(pattern).finditer(text):
        if 0 <= limit <= len(out):
            break
        # Nothing right behind a match is no match of its own.
        if found.group() or found.start() != end:
            out.append(found.group())
        end = found.end()
    return out


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern, re.ASCII)
    except re.error as error:
        raise ValueError(f"Illegal regex: error parsing regexp: {error}") from error
