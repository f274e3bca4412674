"""Quantities and versions as CEL sees them, and the functions that selectors may call on them.

To the CEL library both are messages: it compares two of them field by field, so each has one canonical text, in a field
whose name cannot be written in an expression. Functions get what they are called with and check it themselves.

Source: k8s.io/apiserver/pkg/cel/library (quantity, semverlib, regex).
"""

import re
from collections.abc import Callable
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory, struct_pb2

from trireme.framework import quantity, semver

QUANTITY_TYPE: Final = "kubernetes.Quantity"
VERSION_TYPE: Final = "kubernetes.Semver"
DEVICE_TYPE: Final = "kubernetes.DRADevice"

# `in` is a word of the language: no expression can name the field.
_FIELD = "in"
_FIELDS = descriptor_pb2.FieldDescriptorProto
_QUANTITY_MARK = "q"
_VERSION_MARK = "v"
_NANOS = quantity.NANOS_PER_UNIT


class NoSuchOverloadError(ValueError):
    """A function was called with something it is not for."""

    def __init__(self) -> None:
        super().__init__("no such overload")


def _messages() -> dict[str, type[message.Message]]:
    file = descriptor_pb2.FileDescriptorProto(
        name="trireme/cel/values.proto",
        package="kubernetes",
        syntax="proto3",
        dependency=[struct_pb2.DESCRIPTOR.name],
    )
    for name in (QUANTITY_TYPE, VERSION_TYPE):
        kind = file.message_type.add(name=name.rpartition(".")[2])
        kind.field.add(name=_FIELD, number=1, type=_FIELDS.TYPE_STRING, label=_FIELDS.LABEL_OPTIONAL)
    _declare_device(file.message_type.add(name=DEVICE_TYPE.rpartition(".")[2]))
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
        for name in (QUANTITY_TYPE, VERSION_TYPE)
    }


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


# At run time both are of the first type: the library tells functions apart by kind, and all messages are of one kind.
_VALUE = _messages()[QUANTITY_TYPE]


def of_quantity(nanos: int) -> message.Message:
    """An amount, as CEL sees it."""
    return _VALUE(**{_FIELD: f"{_QUANTITY_MARK}{nanos}"})


def of_version(version: semver.Version) -> message.Message:
    """A version, as CEL sees it."""
    return _VALUE(**{_FIELD: f"{_VERSION_MARK}{version}"})


def type_name(value: Any) -> str:
    """The type of such a value, as messages name it; empty for another one."""
    if not isinstance(value, _VALUE):
        return ""
    return QUANTITY_TYPE if _text(value).startswith(_QUANTITY_MARK) else VERSION_TYPE


def _text(value: Any) -> str:
    return str(getattr(value, _FIELD))


def _nanos(value: Any) -> int:
    if isinstance(value, _VALUE) and _text(value).startswith(_QUANTITY_MARK):
        return int(_text(value)[1:])
    raise NoSuchOverloadError


def _version(value: Any) -> semver.Version:
    if isinstance(value, _VALUE) and _text(value).startswith(_VERSION_MARK):
        return semver.parse(_text(value)[1:])
    raise NoSuchOverloadError


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
    return _succeeds(quantity.parse_quantity, text)


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
    return _succeeds(version_of, text)


def is_normalized_version(text: str, normalize: bool) -> bool:
    """isSemver(string, bool)."""
    return _succeeds(lambda each: normalized_version_of(each, normalize), text)


def major(value: Any) -> int:
    """semver.major()."""
    return _version(value).major


def minor(value: Any) -> int:
    """semver.minor()."""
    return _version(value).minor


def patch(value: Any) -> int:
    """semver.patch()."""
    return _version(value).patch


def _succeeds(parse: Callable[[str], Any], text: str) -> bool:
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
