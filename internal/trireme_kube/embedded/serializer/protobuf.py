"""Decodes request bodies in Kubernetes' protobuf encoding, which Go clients prefer for the built-in types.

A body is an envelope (four magic bytes, then API version, kind and the encoded object). The object is decoded by a
table of field numbers into the same dictionaries as JSON, so that no other code depends on the encoding. Responses are
always JSON, which every client accepts.

Source: k8s.io/apimachinery, pkg/runtime/serializer/protobuf, and the generated.proto files of k8s.io/api.

Also change: internal/trireme_kube/client/rest/content_types.py, internal/trireme/config/command_flags.py,
internal/trireme/config/scheduler_configuration.py (the media type of protobuf).
Also change: protos/trireme_kube/v1/encoding.proto (the messages).

Tests: tests/unit/embedded/serializer/test_bodies.py.
"""

import base64
import functools
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson

from trireme_kube.embedded.api import api_errors
from trireme_kube.embedded.api.timestamps import timestamp

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
SCHEMA_FILE = Path(__file__).with_name("protobuf_schema.json")
_JSON_SCHEMA = "apiextensions.v1.JSONSchemaProps"
_MAGIC = b"k8s\x00"

Field = tuple[str, str, str]
"""JSON name; shape; scalar code (s n d b y) or the name of a message.

The shape is `value` (left out of JSON when zero), `always` (in JSON even when zero), `kept` (in JSON when set, zero or
not), `inline`, `repeated` or `map`; the last two with ` always` where JSON has null for an empty one.
"""


class MalformedMessageError(ValueError):
    """The bytes are not such a message."""


@functools.cache
def read_schema() -> dict[str, dict[int, Field]]:
    """Read the fields by number of every message, by the message's name such as core.v1.Pod."""
    raw: dict[str, dict[str, list[str]]] = orjson.loads(SCHEMA_FILE.read_bytes())
    return {
        message: {int(number): (name, kind, code) for number, (name, kind, code) in fields.items()}
        for message, fields in raw.items()
    }


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    """Decode the varint at a position; return it with the position after it. Raises: MalformedMessageError."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise MalformedMessageError("varint")


def _read_fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Field numbers with their values: an int for varints, a view for anything with a length."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _read_varint(data, at)
            yield number, value
        elif wire == 2:
            length, at = _read_varint(data, at)
            if at + length > len(data):
                raise MalformedMessageError("length")
            yield number, data[at : at + length]
            at += length
        elif wire in (1, 5):
            width = 8 if wire == 1 else 4
            yield number, data[at : at + width]
            at += width
        else:
            raise MalformedMessageError(f"wire type {wire}")


def _to_signed_int64(value: int) -> int:
    """Return a varint as a signed 64-bit integer."""
    return value - (1 << 64) if value >= 1 << 63 else value


def _fields_by_number(data: memoryview) -> dict[int, Any]:
    """The raw fields of a message; of a repeated number the last one."""
    return dict(_read_fields(data))


def _decode_text(value: Any) -> str:
    """Decode UTF-8 text; empty if the field is missing."""
    return str(bytes(value), "utf-8") if isinstance(value, memoryview) else ""


def _decode_quantity(data: memoryview) -> str:
    """Decode a Quantity to its text; `0` if it is empty."""
    return _decode_text(_fields_by_number(data).get(1)) or "0"


def _decode_int_or_string(data: memoryview) -> int | str:
    fields = _fields_by_number(data)
    return _decode_text(fields.get(3)) if fields.get(1) else _to_signed_int64(fields.get(2, 0))


def _decode_time(data: memoryview) -> str | None:
    """Decode a Time to RFC 3339; None for the zero time."""
    fields = _fields_by_number(data)
    return timestamp(_to_signed_int64(fields[1])) if fields.get(1) else None


def _decode_micro_time(data: memoryview) -> str | None:
    """Decode a MicroTime to RFC 3339 with microseconds; None for the zero time."""
    fields = _fields_by_number(data)
    if not fields.get(1):
        return None
    return f"{timestamp(_to_signed_int64(fields[1]))[:-1]}.{fields.get(2, 0) // 1000:06d}Z"


def _decode_json_bytes(data: memoryview) -> Any:
    """Decode a message whose first field is a JSON text; None if it is empty."""
    raw = _fields_by_number(data).get(1)
    return orjson.loads(raw) if raw else None


def _decode_duration(data: memoryview) -> str:
    """Decode a Duration to seconds, as text."""
    return f"{_to_signed_int64(_fields_by_number(data).get(1, 0)) / 1e9:g}s"


def _decode_schema_or_bool(data: memoryview) -> Any:
    fields = _fields_by_number(data)
    return _decode_message_value(_JSON_SCHEMA, fields[2]) if 2 in fields else bool(fields.get(1))


def _decode_schema_or_list(data: memoryview) -> Any:
    """Decode a JSONSchemaPropsOrArray to the one that it is."""
    fields = _fields_by_number(data)
    return (
        _decode_message_value(_JSON_SCHEMA, fields[1])
        if 1 in fields
        else [_decode_message_value(_JSON_SCHEMA, one) for _, one in _read_fields(data)]
    )


def _decode_schema_or_names(data: memoryview) -> Any:
    """Decode a JSONSchemaPropsOrStringArray to the one that it is."""
    fields = _fields_by_number(data)
    return (
        _decode_message_value(_JSON_SCHEMA, fields[1])
        if 1 in fields
        else [_decode_text(one) for _, one in _read_fields(data)]
    )


def _decode_string_list(data: memoryview) -> list[str]:
    return [_decode_text(value) for number, value in _read_fields(data) if number == 1]


_SPECIAL: dict[str, Callable[[memoryview], Any]] = {
    "api.resource.Quantity": _decode_quantity,
    "util.intstr.IntOrString": _decode_int_or_string,
    "meta.v1.Time": _decode_time,
    "meta.v1.MicroTime": _decode_micro_time,
    "meta.v1.Duration": _decode_duration,
    "meta.v1.FieldsV1": _decode_json_bytes,
    "runtime.RawExtension": _decode_json_bytes,
    "apiextensions.v1.JSON": _decode_json_bytes,
    "apiextensions.v1.JSONSchemaPropsOrBool": _decode_schema_or_bool,
    "apiextensions.v1.JSONSchemaPropsOrArray": _decode_schema_or_list,
    "apiextensions.v1.JSONSchemaPropsOrStringArray": _decode_schema_or_names,
    "authentication.v1.ExtraValue": _decode_string_list,
    "authorization.v1.ExtraValue": _decode_string_list,
}


def _decode_scalar(code: str, value: int | memoryview) -> Any:
    """Decode a scalar of the type that the code (a letter) stands for."""
    if code == "s":
        return _decode_text(value)
    if code == "n":
        return _to_signed_int64(value) if isinstance(value, int) else 0
    if code == "b":
        return bool(value)
    if code == "d":
        return struct.unpack("<d", value)[0] if isinstance(value, memoryview) and len(value) == 8 else 0.0
    if code == "y":
        return base64.b64encode(bytes(value)).decode() if isinstance(value, memoryview) else ""
    return _decode_message_value(code, value)


def _decode_message_value(name: str, value: int | memoryview) -> Any:
    """Decode a message, by its own function where JSON has no object for it.

    Raises: MalformedMessageError for a number.
    """
    if not isinstance(value, memoryview):
        raise MalformedMessageError(name)
    special = _SPECIAL.get(name)
    return special(value) if special is not None else _decode_message(name, value)


def _decode_message(name: str, data: memoryview) -> dict[str, Any]:
    """Decode a message to the object that JSON would give, without unknown fields.

    Raises:
        MalformedMessageError: It is cut off, or a field has another type.
    """
    fields = read_schema().get(name)
    if fields is None:
        raise MalformedMessageError(f"unknown message {name}")
    result: dict[str, Any] = {}
    for number, value in _read_fields(data):
        field = fields.get(number)
        if field is None:
            continue  # a newer client's field
        json_name, kind, code = field
        if kind.startswith("repeated"):
            result.setdefault(json_name, []).append(_decode_scalar(code, value))
        elif kind.startswith("map"):
            entry = _fields_by_number(value) if isinstance(value, memoryview) else {}
            empty: int | memoryview = memoryview(b"") if code not in ("n", "b") else 0
            result.setdefault(json_name, {})[_decode_text(entry.get(1))] = _decode_scalar(code, entry.get(2, empty))
        elif kind == "inline":
            result.update(_decode_message_value(code, value))
        else:
            decoded = _decode_scalar(code, value)
            if decoded or kind == "kept":
                result[json_name] = decoded
    return {key: value for key, value in result.items() if value is not None}


def message_name(api_version: str, kind: str) -> str:
    """The message that encodes a kind."""
    if kind == "DeleteOptions":
        return "meta.v1.DeleteOptions"
    group, _, version = api_version.rpartition("/")
    return f"{group.split('.')[0] or 'core'}.{version}.{kind}"


def decode(body: bytes) -> dict[str, Any]:
    """The object of a request body. Raises: ApiError 400 if it is invalid."""
    try:
        if not body.startswith(_MAGIC):
            raise MalformedMessageError("it does not start with the magic bytes")
        envelope = _fields_by_number(memoryview(body)[len(_MAGIC) :])
        type_meta = _fields_by_number(envelope[1])
        api_version, kind = _decode_text(type_meta.get(1)), _decode_text(type_meta.get(2))
        decoded = _decode_message(message_name(api_version, kind), envelope.get(2, memoryview(b"")))
    except (MalformedMessageError, KeyError, IndexError, TypeError, ValueError) as error:
        raise api_errors.bad_request(f"unable to decode the protobuf body: {error}") from error
    return {"kind": kind, "apiVersion": api_version, **decoded}
