"""The checked tree of an expression, decoded from the CEL library's output.

The output is an encoded `cel.expr.CheckedExpr`. It is decoded here field by field, since protobuf parsers reject
messages as deep as expressions may be.

Source: github.com/google/cel-spec/proto/cel/expr (syntax.proto, checked.proto).

Tests: tests/unit/plugins/dynamic_resources/test_expressions.py, tests/conformance/test_selectors.py.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, assert_never

from trireme_kube.cel import protobuf_fields
from trireme_kube.cel.values import Uint

# The dynamic type: google.protobuf.Empty in field 1.
_DYNAMIC: Final = b"\n\x00"
# A type of types: field 11.
_TYPE: Final = b"\x5a"


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    id: int
    value: Any


@dataclass(frozen=True, slots=True)
class Name:
    """A variable, or a type."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """operand.name, or has(operand.name)."""

    id: int
    operand: "Node"
    name: str
    test_only: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function or operator; a method's receiver is the first argument."""

    id: int
    function: str
    arguments: "Sequence[Node]"
    member: bool = False


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list; some of its elements may be optional."""

    id: int
    elements: "Sequence[Node]"
    optional: frozenset[int]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a map, or a field of a message."""

    key: "Node"
    value: "Node"
    optional: bool


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map, or a message if it has a name."""

    id: int
    name: str
    entries: Sequence[Entry]


@dataclass(frozen=True, slots=True)
class Comprehension:
    """A loop, the expansion of a macro."""

    id: int
    variable: str
    second_variable: str
    over: "Node"
    result_variable: str
    start: "Node"
    condition: "Node"
    step: "Node"
    result: "Node"


Node = Literal | Name | Select | Call | ListOf | MapOf | Comprehension


@dataclass(slots=True)
class Checked:
    """An expression's tree, with data about its nodes by number."""

    root: Node
    # The names of a call's possible overloads.
    overloads: dict[int, Sequence[str]] = field(default_factory=dict)
    # The target of a name.
    names: dict[int, str] = field(default_factory=dict)
    # Encoded types; equal types have equal bytes.
    types: dict[int, bytes] = field(default_factory=dict)
    # The start of each node in the text, in characters.
    positions: dict[int, int] = field(default_factory=dict)

    def overload(self, node: int) -> str:
        """A call's overload; empty if several are possible."""
        overloads = self.overloads.get(node, ())
        return overloads[0] if len(overloads) == 1 else ""

    def is_type(self, node: int) -> bool:
        """Whether it is the name of a type."""
        return self.types.get(node, b"").startswith(_TYPE)

    def type(self, node: int) -> bytes:
        """The type, encoded."""
        return self.types.get(node, _DYNAMIC)


def children(node: Node) -> Sequence[Node]:
    """The children of a node."""
    if isinstance(node, Select):
        return [node.operand]
    if isinstance(node, Call):
        return node.arguments
    if isinstance(node, ListOf):
        return node.elements
    if isinstance(node, MapOf):
        return [each for entry in node.entries for each in (entry.key, entry.value)]
    if isinstance(node, Comprehension):
        return [node.over, node.start, node.condition, node.step, node.result]
    if isinstance(node, (Literal, Name)):
        return []
    assert_never(node)


def decode_checked(serialized: bytes) -> Checked:
    """Decode the library's checked expression: an Any-like message with the tree in its second field."""
    content = next(value for number, value in protobuf_fields.read_fields(serialized) if number == 2)
    out: Checked | None = None
    maps: list[tuple[int, bytes]] = []
    for number, value in protobuf_fields.read_fields(content):
        if number == 4:
            out = Checked(_decode_node(value))
        elif number in (2, 3):
            maps.append((number, value))
        elif number == 5:
            maps.extend((number, entry) for part, entry in protobuf_fields.read_fields(value) if part == 4)
    if out is None:
        raise ValueError("the library wrote no expression")
    for number, value in maps:
        key, entry_value = _decode_map_entry(value)
        if number == 3:
            out.types[key] = entry_value
        elif number == 5:
            out.positions[key] = entry_value
        else:
            _read_reference(out, key, entry_value)
    return out


def _read_reference(out: Checked, key: int, content: bytes) -> None:
    """Note the name or the overloads that a node refers to."""
    overloads = []
    for number, value in protobuf_fields.read_fields(content):
        if number == 1:
            out.names[key] = value.decode()
        elif number == 3:
            overloads.append(value.decode())
    if overloads:
        out.overloads[key] = overloads


def _decode_map_entry(content: bytes) -> tuple[int, Any]:
    """Decode a map's entry; an absent value is 0."""
    key, value_ = 0, None
    for number, value in protobuf_fields.read_fields(content):
        key, value_ = (value, value_) if number == 1 else (key, value)
    # A zero is not encoded.
    return key, 0 if value_ is None else value_


def _decode_node(content: bytes) -> Node:
    """Decode a node by its kind."""
    id_ = 0
    for number, value in protobuf_fields.read_fields(content):
        if number == 2:
            id_ = value
        else:
            kind, inner = number, value
    return _READERS[kind](id_, inner)


def _decode_literal(id_: int, content: bytes) -> Node:
    for number, value in protobuf_fields.read_fields(content):
        return Literal(id_, _CONSTANTS[number](value))
    return Literal(id_, None)


def _decode_name(id_: int, content: bytes) -> Node:
    return Name(id_, _value_of_only_field(content).decode())


def _decode_select(id_: int, content: bytes) -> Node:
    content_fields = dict(protobuf_fields.read_fields(content))
    return Select(id_, _decode_node(content_fields[1]), content_fields[2].decode(), bool(content_fields.get(3)))


def _decode_call(id_: int, content: bytes) -> Node:
    """Decode a call; the receiver of a method becomes the first argument."""
    function, member, arguments = "", False, []
    for number, value in protobuf_fields.read_fields(content):
        if number == 2:
            function = value.decode()
        else:
            # The target is written first, having the lowest number.
            member = member or number == 1
            arguments.append(_decode_node(value))
    return Call(id_, function, arguments, member)


def _decode_list(id_: int, content: bytes) -> Node:
    """Decode a list, with the indexes of its optional elements."""
    elements, optional = [], set()
    for number, value in protobuf_fields.read_fields(content):
        if number == 1:
            elements.append(_decode_node(value))
        elif isinstance(value, int):
            optional.add(value)
        else:
            optional.update(protobuf_fields.unpack_varints(value))
    return ListOf(id_, elements, frozenset(optional))


def _decode_map(id_: int, content: bytes) -> Node:
    """Decode a map or a message."""
    name, entries = "", []
    for number, value in protobuf_fields.read_fields(content):
        if number == 1:
            name = value.decode()
        else:
            entry_fields = dict(protobuf_fields.read_fields(value))
            key = (
                _decode_node(entry_fields[3])
                if 3 in entry_fields
                else Literal(entry_fields.get(1, 0), entry_fields.get(2, b"").decode())
            )
            entries.append(Entry(key, _decode_node(entry_fields[4]), bool(entry_fields.get(5))))
    return MapOf(id_, name, entries)


def _decode_comprehension(id_: int, content: bytes) -> Node:
    """Decode a loop."""
    content_fields = dict(protobuf_fields.read_fields(content))
    return Comprehension(
        id_,
        content_fields.get(1, b"").decode(),
        content_fields.get(8, b"").decode(),
        _decode_node(content_fields[2]),
        content_fields.get(3, b"").decode(),
        *(_decode_node(content_fields[number]) for number in range(4, 8)),
    )


_READERS: Final = {
    3: _decode_literal,
    4: _decode_name,
    5: _decode_select,
    6: _decode_call,
    7: _decode_list,
    8: _decode_map,
    9: _decode_comprehension,
}
_CONSTANTS: Final[Mapping[int, Any]] = {
    1: lambda value: None,
    2: bool,
    3: lambda value: value - 2**64 if value >= 2**63 else value,
    4: Uint,
    5: lambda value: struct.unpack("<d", value)[0],
    6: lambda value: value.decode(),
    7: bytes,
}


def _value_of_only_field(content: bytes) -> Any:
    """Return the value of a message's only field; b"" if it is empty."""
    return next((value for _, value in protobuf_fields.read_fields(content)), b"")
