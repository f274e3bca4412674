"""Writes an OpenAPI v2 document in protobuf, the only encoding in which `kubectl` and Helm ask for it.

Source: github.com/google/gnostic-models, openapiv2/OpenAPIv2.proto; the numbers below are the fields of its messages.

Tests: tests/unit/embedded/controllers/test_custom_resources.py.
"""

from collections.abc import Iterable
from typing import Any

import orjson

from trireme_kube.apimachinery import protobuf_wire
from trireme_kube.embedded.api.resources import Object

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# The second is the spelling of older clients.
_ACCEPTED = (MEDIA_TYPE, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
_TEXTS = {"$ref": 1, "format": 2, "title": 3, "description": 4}


def is_accepted(accept: str) -> bool:
    """Whether a client accepts this encoding, and not JSON before it."""
    kinds = [one.partition(";")[0].strip() for one in accept.split(",")]
    supported = [one for one in kinds if one in _ACCEPTED or one in ("application/json", "*/*")]
    return bool(supported) and supported[0] in _ACCEPTED


def _encode_field(number: int, value: bytes | str) -> bytes:
    return protobuf_wire.encode_delimited(number, value.encode() if isinstance(value, str) else value)


def _encode_any(value: Any) -> bytes:
    """A JSON value, as YAML."""
    return _encode_field(2, orjson.dumps(value))


def _encode_map(entries: Iterable[tuple[str, bytes]]) -> bytes:
    return b"".join(_encode_field(1, _encode_field(1, name) + _encode_field(2, value)) for name, value in entries)


def _encode_schema(schema: Any) -> bytes:
    """Encode a schema of version 2; a schema that is no object (true) is an empty one."""
    if not isinstance(schema, dict):
        return b""
    parts = [_encode_field(number, schema[key]) for key, number in _TEXTS.items() if schema.get(key)]
    parts += [_encode_field(19, name) for name in schema.get("required") or ()]
    parts += [_encode_field(20, _encode_any(value)) for value in schema.get("enum") or ()]
    more = schema.get("additionalProperties")
    if isinstance(more, bool):
        parts.append(_encode_field(21, protobuf_wire.encode_number(2, more)))
    elif more is not None:
        parts.append(_encode_field(21, _encode_field(1, _encode_schema(more))))
    if schema.get("type"):
        parts.append(_encode_field(22, _encode_field(1, schema["type"])))
    if schema.get("items") is not None:
        parts.append(_encode_field(23, _encode_field(1, _encode_schema(schema["items"]))))
    if properties := schema.get("properties"):
        parts.append(
            _encode_field(25, _encode_map((name, _encode_schema(value)) for name, value in properties.items()))
        )
    extensions = {key: value for key, value in schema.items() if key.startswith("x-")}
    parts += [
        _encode_field(31, _encode_field(1, key) + _encode_field(2, _encode_any(value)))
        for key, value in extensions.items()
    ]
    return b"".join(parts)


def encode(document: Object) -> bytes:
    """The document in protobuf."""
    info = _encode_field(1, document["info"]["title"]) + _encode_field(2, document["info"]["version"])
    definitions = _encode_map((name, _encode_schema(schema)) for name, schema in document["definitions"].items())
    return (
        _encode_field(1, document["swagger"])
        + _encode_field(2, info)
        + _encode_field(8, b"")
        + _encode_field(9, definitions)
    )
