"""Encodes messages as Kubernetes JSON: the reverse of `trireme_kube.apimachinery.decode`.

Used for objects that are shown to people, stored in files, or sent to an API server. Unset and empty fields are left
out, as the API server's own clients do; a message that is present stays present, as an empty object if need be.
`apiVersion` and `kind` are no part of the messages: the sender adds them. And the messages are subsets: an object read,
decoded, encoded and put back would lose fields, so objects are changed by patches.

Tests: tests/unit/apimachinery/test_decode.py.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from trireme_kube.apimachinery.field_error import FieldError
from trireme_kube.apimachinery.json_values import JSON_VALUES
from trireme_kube.apimachinery.normalization import is_inlined, map_value

Encoder = Callable[[Any], Any]
"""The JSON value of a field's value."""


def encode(message: Message) -> Any:
    """The JSON of a message: an object, or a single value for the types that are one.

    Raises: FieldError, if bytes from elsewhere contain something without a JSON form, such as a time past the year
    9999.
    """
    try:
        return _message_encoder(cast(Descriptor, message.DESCRIPTOR))(message)
    except FieldError:
        raise
    except ValueError as error:
        raise FieldError("", str(error)) from error


_encoders: dict[str, Encoder] = {}


def _message_encoder(descriptor: Descriptor) -> Encoder:
    """Return the function that encodes a message of this type; made once."""
    write = _encoders.get(descriptor.full_name)
    if write is None:
        special = JSON_VALUES.get(descriptor.name)
        write = _encoders[descriptor.full_name] = special.write if special else _object_encoder(descriptor)
    return write


def _object_encoder(descriptor: Descriptor) -> Encoder:
    """Return the function that encodes messages of this type, without empty fields. Its FieldError names the path."""
    fields: Mapping[int, tuple[str | None, Encoder]] = {
        field.number: (None if is_inlined(field) else field.json_name, _field_encoder(field))
        for field in descriptor.fields
    }

    def encode_message(message: Any) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for field, content in message.ListFields():
            name, write_content = fields[field.number]
            try:
                if name is None:
                    value.update(write_content(content))
                else:
                    value[name] = write_content(content)
            except FieldError as error:
                if name is not None:
                    error.within(name)
                raise
            except ValueError as error:
                raise FieldError(field.json_name, str(error)) from error
        return value

    return encode_message


def _field_encoder(field: FieldDescriptor) -> Encoder:
    """Return the function that encodes a field, by its type: map, list, message or scalar."""
    if (values := map_value(field)) is not None:
        return _map_encoder(
            _message_encoder(values.message_type) if values.message_type is not None else _encode_scalar
        )
    if field.message_type is not None:
        write = _message_encoder(field.message_type)
        return (lambda elements: [write(element) for element in elements]) if field.is_repeated else write
    return list if field.is_repeated else _encode_scalar


def _map_encoder(write: Encoder) -> Encoder:
    """Return the function that encodes a map, sorted by key, with `write` for each value."""
    # Maps of messages are unordered; the API server's clients sort them.
    return lambda entries: {key: write(entries[key]) for key in sorted(entries)}


def _encode_scalar(value: Any) -> Any:
    """Return the value: JSON has scalars as they are."""
    return value
