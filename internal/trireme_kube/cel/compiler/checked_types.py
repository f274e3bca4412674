"""The checker's types, and their names in messages.

Source: github.com/google/cel-spec/proto/cel/expr (checked.proto), github.com/google/cel-go/checker (format).

Tests: tests/conformance/test_selectors.py, tests/unit/plugins/dynamic_resources/test_expressions.py.
"""

import functools
from typing import Final

from trireme_kube.cel import protobuf_fields

_PRIMITIVES: Final = {1: "bool", 2: "int", 3: "uint", 4: "double", 5: "string", 6: "bytes"}
_WELL_KNOWN: Final = {1: "any", 2: "timestamp", 3: "duration"}
# The types that messages of `format` clauses distinguish; type values have other names than messages.
RUNTIME_NAMES: Final = {
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
    "null": "null_type",
}


@functools.lru_cache(maxsize=1024)
def type_text(encoded: bytes) -> str:
    """The type's name in messages. The comments name the fields of google.api.expr.v1alpha1.Type."""
    for number, value in protobuf_fields.read_fields(encoded):
        if number == 1:  # dyn
            return "dyn"
        if number == 2:  # null
            return "null"
        if number == 3:  # primitive
            return _PRIMITIVES.get(value, "")
        if number == 4:  # wrapper
            return f"wrapper({_PRIMITIVES.get(value, '')})"
        if number == 5:  # well_known
            return _WELL_KNOWN.get(value, "")
        if number in (6, 7):  # list_type, map_type
            inner = dict(protobuf_fields.read_fields(value))
            parts = [type_text(inner.get(at, b"\n\x00")) for at in range(1, number - 4)]
            return f"{'list' if number == 6 else 'map'}({', '.join(parts)})"
        if number in (9, 10):  # message_type, type_param
            return str(value.decode())
        if number == 11:  # type
            return f"type({type_text(value)})" if value else "type"
        if number == 14:  # abstract_type
            name, parameters = "", []
            for part, each in protobuf_fields.read_fields(value):
                if part == 1:
                    name = each.decode()
                else:
                    parameters.append(type_text(each))
            return f"{name}({', '.join(parameters)})" if parameters else name
    return "dyn"


def element_type(encoded: bytes) -> bytes:
    """Return the element type of an optional or a list; any other type as it is."""
    for number, value in protobuf_fields.read_fields(encoded):
        if number == 14:
            return next((each for part, each in protobuf_fields.read_fields(value) if part == 2), encoded)
        if number == 6:
            return next((each for _, each in protobuf_fields.read_fields(value)), encoded)
    return encoded


def decode_type(encoded: bytes) -> tuple[str, list[bytes]]:
    """Decode a type to its name and its parameter types."""
    name = type_text(encoded).partition("(")[0]
    for number, value in protobuf_fields.read_fields(encoded):
        if number in (6, 7):
            inner = dict(protobuf_fields.read_fields(value))
            return name, [inner.get(at, b"\n\x00") for at in range(1, number - 4)]
        if number == 11:
            return name, [value] if value else []
        if number == 14:
            return name, [each for part, each in protobuf_fields.read_fields(value) if part == 2]
    return name, []
