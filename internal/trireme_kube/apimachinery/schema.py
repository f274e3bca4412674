"""Schemas of a configuration's types: their fields, the fields' types, and which empty ones are omitted.

One schema serves strict decoding (with the names for error messages), encoding (with the empty fields to omit) and
documentation. Values are plain: a struct is a dict with only the fields that are set, so "unset" and "zero" stay
different until defaults are applied.

Tests: tests/unit/apimachinery/test_declaration.py, tests/unit/config/test_trireme_configuration.py.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


class Kind(enum.Enum):
    """The scalar types."""

    STRING = "string"
    BOOL = "bool"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    BYTES = "[]uint8"
    DURATION = "v1.Duration"
    #: Stored undecoded: arguments whose type is known only by name.
    RAW = "runtime.RawExtension"


@dataclass(frozen=True, slots=True)
class Scalar:
    """The type of a scalar. `go_name` is the type that messages name, where it has a name of its own."""

    kind: Kind
    #: An unset value differs from a zero one.
    optional: bool = False
    go_name: str = ""

    @property
    def type_name(self) -> str:
        """The type as messages name it."""
        return self.go_name or self.kind.value


@dataclass(frozen=True, slots=True)
class Many:
    """The type of a list, by the type of its elements."""

    of: "Type"

    @property
    def type_name(self) -> str:
        """The type as messages name it."""
        return "[]" + self.of.type_name


@dataclass(frozen=True, slots=True)
class StringMap:
    """The type of a map of strings to strings, or to lists of them."""

    lists: bool = False

    @property
    def type_name(self) -> str:
        """The type as messages name it."""
        return "map[string][]string" if self.lists else "map[string]string"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct."""

    name: str
    type: "Type"
    #: Left out when empty.
    omitempty: bool = True
    #: The embedded struct that contains it, which messages name as well.
    embedded_in: str = ""


@dataclass(frozen=True, slots=True)
class Struct:
    """The type of a struct. `optional` ones may be absent, which is not the same as empty."""

    package: str
    name: str
    fields: Mapping[str, Field] = field(repr=False)
    optional: bool = False

    @property
    def type_name(self) -> str:
        """The type as messages name it."""
        return f"{self.package}.{self.name}"


Type: TypeAlias = Scalar | Many | StringMap | Struct

STRING = Scalar(Kind.STRING)
BOOL = Scalar(Kind.BOOL)
INT32 = Scalar(Kind.INT32)
INT64 = Scalar(Kind.INT64)
FLOAT32 = Scalar(Kind.FLOAT32)
BYTES = Scalar(Kind.BYTES)
DURATION = Scalar(Kind.DURATION)
RAW = Scalar(Kind.RAW)
OPTIONAL_STRING = Scalar(Kind.STRING, optional=True)
OPTIONAL_BOOL = Scalar(Kind.BOOL, optional=True)
OPTIONAL_INT32 = Scalar(Kind.INT32, optional=True)
OPTIONAL_INT64 = Scalar(Kind.INT64, optional=True)

TYPE_META = (
    Field("kind", STRING, embedded_in="TypeMeta"),
    Field("apiVersion", STRING, embedded_in="TypeMeta"),
)


def struct(package: str, name: str, *fields: Field, optional: bool = False) -> Struct:
    """Make the type of a struct with these fields."""
    return Struct(package, name, {entry.name: entry for entry in fields}, optional)


def zero(kind: Kind) -> object:
    """Return the zero value of a scalar type."""
    return _ZERO[kind]


_ZERO: Mapping[Kind, object] = {
    Kind.STRING: "",
    Kind.BOOL: False,
    Kind.INT32: 0,
    Kind.INT64: 0,
    Kind.FLOAT32: 0.0,
    Kind.BYTES: b"",
    Kind.DURATION: "0s",
    Kind.RAW: None,
}
