"""Strict decoding: from a JSON tree and a schema to plain values and a list of mistakes.

As in kube-scheduler, there are two kinds of mistakes. A value of the wrong type fails the decoding (`DecodeError` has
the first one). Unknown and duplicate fields are collected, because they are reported together with those of the
plugins' arguments (`Decoded.strict`).

Source: sigs.k8s.io/json, whose order of visiting decides which mistake comes first.

Tests: tests/unit/config/test_loading.py, tests/unit/client/kubeconfig/test_connection.py,
tests/unit/config/test_start.py.
"""

import base64
import binascii
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trireme_kube.apimachinery import golang
from trireme_kube.apimachinery.json_document import Node, Number, Object
from trireme_kube.apimachinery.schema import STRING, Field, Kind, Many, Scalar, StringMap, Struct, Type

_MOST_ERRORS = 100
_INTEGER = re.compile(r"-?[0-9]+")
#: What belongs there where a duration does: its Go type is a string.
DURATION = "duration"
_BITS = {Kind.INT32: 31, Kind.INT64: 63}


class DecodeError(ValueError):
    """A value has the wrong type or cannot be read; the text is Go's.

    `field` is the field's path without indices, `found` what is there, and `expected` the Go type that belongs there,
    or `duration`.
    """

    def __init__(self, text: str, field: str, found: str, expected: str) -> None:
        super().__init__(text)
        self.field = field
        self.found = found
        self.expected = expected


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded struct, and its unknown and duplicate fields."""

    value: dict[str, Any]
    strict: tuple[str, ...] = ()


def decode(node: Node, into: Struct) -> Decoded:
    """Decode an object to a struct; `null` is an empty one.

    Raises:
        DecodeError: a value has the wrong type.
    """
    decoder = _StrictDecoder()
    value = decoder.decode_value(node, into, "")
    if decoder.type_error is not None:
        raise decoder.type_error
    return Decoded(value if isinstance(value, dict) else {}, tuple(decoder.strict))


def describe(node: Node) -> str:
    """The name of a value's type in messages."""
    if isinstance(node, Object):
        return "object"
    if isinstance(node, list):
        return "array"
    if isinstance(node, bool):
        return "bool"
    if isinstance(node, Number):
        return "number"
    return "null" if node is None else "string"


@dataclass(slots=True)
class _StrictDecoder:
    """What decoding found out so far, and where in the document it is."""

    type_error: DecodeError | None = None
    strict: list[str] = field(default_factory=list)
    #: Where we are, for type errors: the struct that has the field, and the path of fields without indices.
    owner: str = ""
    stack: list[str] = field(default_factory=list)

    def mismatch_text(self, what: str, type_name: str) -> str:
        """The message for a value of the wrong type here."""
        where = "value"
        if self.owner or self.stack:
            where = f"struct field {self.owner}.{'.'.join(self.stack)}"
        return f"json: cannot unmarshal {what} into Go {where} of type {type_name}"

    def record_type_error(self, what: str, type_name: str) -> None:
        """Record a type error; the first one is raised at the end."""
        if self.type_error is None:
            self.type_error = DecodeError(self.mismatch_text(what, type_name), ".".join(self.stack), what, type_name)

    def record_field_error(self, kind: str, path: str) -> None:
        """Record an unknown or duplicate field."""
        text = f"{kind} field {golang.quote(path)}"
        if len(self.strict) < _MOST_ERRORS and text not in self.strict:
            self.strict.append(text)

    def decode_value(self, node: Node, into: Type, path: str, before: Any = None) -> Any:
        """Decode one value; None where there is none. `before` is what an earlier field of that name left."""
        if isinstance(into, Scalar):
            return self.decode_scalar(node, into)
        if node is None:
            # Into a struct that is always there, null changes nothing.
            return before if isinstance(into, Struct) and not into.optional else None
        if isinstance(into, Struct):
            return self.decode_struct(node, into, path, before)
        if isinstance(into, Many):
            if not isinstance(node, list):
                self.record_type_error(describe(node), into.type_name)
                return None
            return [self.decode_element(item, into.of, f"{path}[{index}]") for index, item in enumerate(node)]
        return self.decode_string_map(node, into, path)

    def decode_element(self, node: Node, into: Type, path: str) -> Any:
        """Decode an element of a list; null is the zero value."""
        value = self.decode_value(node, into, path)
        if value is None and isinstance(into, Struct):
            return {}
        if value is None and isinstance(into, Scalar) and into.kind is Kind.STRING:
            return ""
        return value

    def decode_struct(self, node: Node, into: Struct, path: str, before: Any) -> dict[str, Any]:
        """Decode an object field by field, in the order of the text; unknown and duplicate fields are recorded."""
        out: dict[str, Any] = dict(before) if isinstance(before, dict) else {}
        if not isinstance(node, Object):
            self.record_type_error(describe(node), into.type_name)
            return out
        owner, depth = self.owner, len(self.stack)
        keys_seen: set[str] = set()
        for name, member in node.members:
            member_path = f"{path}.{name}" if path else name
            entry = into.fields.get(name)
            if entry is None:
                self.record_field_error("unknown", member_path)
                continue
            if name in keys_seen:
                self.record_field_error("duplicate", member_path)
            keys_seen.add(name)
            self.enter_field(into, entry)
            value = self.decode_value(member, entry.type, member_path, out.get(name))
            if value is None:
                out.pop(name, None)
            else:
                out[name] = value
            self.owner = owner
            del self.stack[depth:]
        return out

    def enter_field(self, owner: Struct, entry: Field) -> None:
        """Note the field that is decoded now, for the paths of errors."""
        if entry.embedded_in:
            self.stack.append(entry.embedded_in)
        self.owner = owner.name
        self.stack.append(entry.name)

    def decode_string_map(self, node: Node, into: StringMap, path: str) -> dict[str, Any]:
        """Decode a map of strings, or of lists of strings."""
        out: dict[str, Any] = {}
        if not isinstance(node, Object):
            self.record_type_error(describe(node), into.type_name)
            return out
        for key, member in node.members:
            if key in out:
                self.record_field_error("duplicate", f"{path}.{key}")
            if into.lists:
                out[key] = self.decode_value(member, Many(STRING), f"{path}.{key}") or []
            elif isinstance(member, str) and not isinstance(member, Number):
                out[key] = member
            else:
                if member is not None:
                    self.record_type_error(describe(member), "string")
                out[key] = ""
        return out

    def decode_scalar(self, node: Node, into: Scalar) -> Any:
        """Decode a scalar; None where null leaves it as it was, and where its type is wrong."""
        if into.kind is Kind.RAW:
            return node
        if into.kind is Kind.DURATION:
            return self.decode_duration(node, into)
        if node is None:
            return None
        if isinstance(node, Number):
            return self.decode_number(node, into)
        if isinstance(node, str):
            if into.kind is Kind.STRING:
                return node
            if into.kind is Kind.BYTES:
                return self.decode_bytes(node)
        if isinstance(node, bool) and into.kind is Kind.BOOL:
            return node
        self.record_type_error(describe(node), into.type_name)
        return None

    def decode_number(self, node: Number, into: Scalar) -> Any:
        """Decode a number of the scalar's size; None, after recording a type error, if it is another one."""
        bits = _BITS.get(into.kind)
        if bits is not None:
            # More than a sign and 19 digits are no 64 bits, and Python refuses to read thousands of them.
            value = int(node) if len(node) <= 20 and _INTEGER.fullmatch(node) else None
            if value is not None and -(1 << bits) <= value < 1 << bits:
                return value
            self.record_type_error(f"number {node}", into.type_name)
            return None
        if into.kind is Kind.FLOAT32:
            try:
                # Where 64 bits overflow, Python reads infinity, and Go refuses the number.
                if math.isfinite(number := float(node)):
                    return golang.to_float32(number)
            except OverflowError:
                pass
            self.record_type_error(f"number {node}", into.type_name)
            return None
        self.record_type_error("number", into.type_name)
        return None

    def decode_bytes(self, text: str) -> bytes | None:
        """Decode base64; None, after recording the error, if it is malformed."""
        try:
            return decode_base64(text)
        except ValueError as error:
            if self.type_error is None:
                self.type_error = DecodeError(str(error), ".".join(self.stack), golang.quote(text), "[]uint8")
            return None

    def decode_duration(self, node: Node, into: Scalar) -> golang.Duration | None:
        """Decode a duration. Raises: DecodeError, at once: Go has a parser of its own for them."""
        if node is None and into.optional:
            return None
        path = ".".join(self.stack)
        if node is not None and (not isinstance(node, str) or isinstance(node, Number)):
            found = describe(node)
            raise DecodeError(self.mismatch_text(found, "string"), path, found, DURATION)
        try:
            return golang.parse_duration(node or "")
        except ValueError as error:
            raise DecodeError(str(error), path, golang.quote(node or ""), DURATION) from error


_BASE64 = re.compile(r"[A-Za-z0-9+/]")


def decode_base64(text: str) -> bytes:
    """Decode standard base64; line breaks are ignored.

    Raises: ValueError with Go's message, which names the offending byte.
    """
    quantum: list[str] = []
    position, length = 0, len(text)
    while position < length:
        char = text[position]
        if char in "\r\n":
            position += 1
            continue
        if _BASE64.match(char):
            quantum.append(char)
            position += 1
            continue
        filled = len(quantum) % 4
        if char != "=" or filled < 2:
            raise ValueError(f"illegal base64 data at input byte {len(text[:position].encode())}")
        return _decode_padded(text, position, quantum, filled)
    if len(quantum) % 4:
        raise ValueError(f"illegal base64 data at input byte {len(text.encode()) - len(quantum) % 4}")
    return _decode_groups_of_four("".join(quantum))


def _decode_padded(text: str, position: int, quantum: list[str], filled: int) -> bytes:
    """Check the padding at a position, and that nothing follows it; decode all.

    `quantum` are the letters before it, `filled` of them in the last group of four. Raises: ValueError with Go's
    message.
    """
    position += 1
    if filled == 2:
        while position < len(text) and text[position] in "\r\n":
            position += 1
        if position == len(text):
            raise ValueError(f"illegal base64 data at input byte {len(text.encode())}")
        if text[position] != "=":
            raise ValueError(f"illegal base64 data at input byte {len(text[:position].encode()) - 1}")
        position += 1
    while position < len(text) and text[position] in "\r\n":
        position += 1
    if position < len(text):
        raise ValueError(f"illegal base64 data at input byte {len(text[:position].encode())}")
    return _decode_groups_of_four("".join(quantum) + "=" * (4 - filled))


def _decode_groups_of_four(text: str) -> bytes:
    """Decode base64 without line breaks, in whole groups of four. Raises: ValueError with Go's message."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"illegal base64 data at input byte {len(text)}") from error


def encode(value: Mapping[str, Any], schema: Struct, *, keep_set: bool = False) -> dict[str, Any]:
    """Encode a struct as JSON: durations as text, data as base64, without empty fields that the schema omits.

    With `keep_set`, empty fields that are set stay, since validation distinguishes an empty list from none.
    """
    out: dict[str, Any] = {}
    for name, entry in schema.fields.items():
        item = value.get(name)
        if isinstance(entry.type, Struct):
            if item is not None or not entry.type.optional:
                out[name] = encode(item or {}, entry.type, keep_set=keep_set)
            elif not entry.omitempty:
                out[name] = None
            continue
        if entry.omitempty and _is_omitted(item, entry.type) and not (keep_set and name in value):
            continue
        out[name] = _encode_value(item, entry.type, keep_set=keep_set)
    return out


def _is_omitted(item: Any, of: Type) -> bool:
    """Whether JSON omits the value, as Go's omitempty does: empty ones, but not structs such as durations."""
    if isinstance(of, Scalar):
        if of.optional or of.kind is Kind.RAW:
            return item is None
        if of.kind is Kind.DURATION:
            return False  # a struct in Go, and no struct is empty
    return not item


def _encode_value(item: Any, of: Type, *, keep_set: bool) -> Any:
    """Encode a list or a scalar of that type as JSON; structs are for `encode`, and everything else stays as it is.

    A scalar that is None becomes its zero value, unless it is optional.
    """
    if isinstance(of, Many):
        if item is None:
            return None
        return [
            encode(element, of.of, keep_set=keep_set)
            if isinstance(of.of, Struct)
            else _encode_value(element, of.of, keep_set=keep_set)
            for element in item
        ]
    if isinstance(of, Scalar):
        if item is None:
            return None if of.optional or of.kind is Kind.RAW else _zero_as_json(of)
        if of.kind is Kind.DURATION:
            return str(item)
        if of.kind is Kind.BYTES:
            return base64.b64encode(item).decode()
        if of.kind is Kind.FLOAT32:
            return _shortest_float32(item)
    return item


def _zero_as_json(of: Scalar) -> Any:
    return {Kind.STRING: "", Kind.BOOL: False, Kind.DURATION: "0s", Kind.BYTES: None}.get(of.kind, 0)


def _shortest_float32(value: float) -> float | int:
    """The number with the shortest text that parses to the same single-precision value."""
    shortest = float(golang.json_float(value, 32))
    return int(shortest) if shortest.is_integer() and abs(shortest) < 1e21 else shortest
