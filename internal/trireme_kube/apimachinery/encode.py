"""Encodes messages as Kubernetes JSON: the reverse of `trireme_kube.apimachinery.decode`.

Used for objects that are shown to people, stored in files, or sent to an API server. Unset and empty fields are left
out, as the API server's own clients do; a message that is present stays present, as an empty object if need be.
`apiVersion` and `kind` are no part of the messages: the sender adds them. And the messages are subsets: an object read,
decoded, encoded and put back would lose fields, so objects are changed by patches.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from trireme_kube.apimachinery.field_error import FieldError
from trireme_kube.apimachinery.json_values import JSON_VALUES
from trireme_kube.apimachinery.normalization import is_inlined, map_value

Write = Callable[[Any], Any]
"""The JSON value of a field's value."""


def encode(message: Message) -> Any:
    """The JSON of a message: an object, or a single value for the types that are one.

    Raises: FieldError, if bytes from elsewhere contain something without a JSON form, such as a time past the year
    9999.
    """
    try:
        return _write_of(cast(Descriptor, message.DESCRIPTOR))(message)
    except FieldError:
        raise
    except ValueError as error:
        raise FieldError("", str(error)) from error


_writes: dict[str, Write] = {}


def _write_of(descriptor: Descriptor) -> Write:
    """Return the function that encodes a message of this type; made once."""
    write = _writes.get(descriptor.full_name)
    if write is None:
        special = JSON_VALUES.get(descriptor.name)
        write = _writes[descriptor.full_name] = special.write if special else _object_write(descriptor)
    return write


def _object_write(descriptor: Descriptor) -> Write:
    """Return the function that encodes messages of this type, without empty fields. Its FieldError names the path."""
    fields: Mapping[int, tuple[str | None, Write]] = {
        field.number: (None if is_inlined(field) else field.json_name, _field_write(field))
        for field in descriptor.fields
    }

    def write(message: Any) -> dict[str, Any]:
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

    return write


def _field_write(field: FieldDescriptor) -> Write:
    if (values := map_value(field)) is not None:
        return _map_write(_write_of(values.message_type) if values.message_type is not None else _scalar)
    if field.message_type is not None:
        write = _write_of(field.message_type)
        return (lambda elements: [write(element) for element in elements]) if field.is_repeated else write
    return list if field.is_repeated else _scalar


def _map_write(write: Write) -> Write:
    # Maps of messages are unordered; the API server's clients sort them.
    return lambda entries: {key: write(entries[key]) for key in sorted(entries)}


def _scalar(value: Any) -> Any:
    return value
