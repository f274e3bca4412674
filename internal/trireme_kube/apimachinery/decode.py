"""Decodes Kubernetes JSON to messages.

Objects arrive from the API server as JSON and live here as messages that are wire-compatible subsets of the Kubernetes
types; this module is the only way in (`encode` is the way out). It is driven by the messages' descriptors: each field
is found under its JSON name, so a field added to a .proto file needs no code here. What a descriptor cannot say is in
two tables: the types written as a single value (`json_values`) and `normalization.is_inlined`. Types are known by their
own names, in whatever package they are.

`decode` follows Kubernetes' own clients: null means absent, unknown fields are ignored, a null in a list or map
is an empty element. What does not fit raises FieldError, which names the field by its path; nothing else is raised,
whatever the input. For a message type a plan is made once, one function per JSON name, so that an object costs a dict
lookup and a call for each of its fields. `apiVersion` and `kind` are no part of the messages.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from trireme_kube.apimachinery import normalization
from trireme_kube.apimachinery.field_error import FieldError
from trireme_kube.apimachinery.json_values import JSON_VALUES
from trireme_kube.apimachinery.normalization import is_inlined, map_value

M = TypeVar("M", bound=Message)

Fill = Callable[[Any, Any], None]
"""Sets a JSON value, never null, in a message."""
Convert = Callable[[Any], Any]
"""Converts a JSON value, never null, to a scalar."""


def decode(value: Any, message_class: type[M]) -> M:
    """Decode a JSON object to a message.

    Raises: FieldError.
    """
    message = decode_unchecked(value, message_class)
    normalization.normalize(message)
    return message


def decode_unchecked(value: Any, message_class: type[M]) -> M:
    """Decode as `decode` does, but neither check quantities nor clear zero times. Raises: FieldError."""
    message = message_class()
    try:
        _message_filler(cast(Descriptor, message_class.DESCRIPTOR))(message, value)
    except FieldError:
        raise
    except (TypeError, ValueError) as error:
        raise FieldError("", str(error)) from error
    return message


_fills: dict[str, Fill] = {}


def _message_filler(descriptor: Descriptor) -> Fill:
    """Return the function that fills a message of this type; made once."""
    fill = _fills.get(descriptor.full_name)
    if fill is None:
        special = JSON_VALUES.get(descriptor.name)
        fill = _fills[descriptor.full_name] = special.read if special else _object_filler(_field_setters(descriptor))
    return fill


def _field_setters(descriptor: Descriptor) -> dict[str, Fill]:
    """The setters of a message type's fields, by JSON name."""
    setters: dict[str, Fill] = {}
    for field in descriptor.fields:
        if is_inlined(field) and field.message_type is not None:
            for name, setter in _field_setters(field.message_type).items():
                setters[name] = _inlined_setter(field.name, setter)
        else:
            setters[field.json_name] = _field_setter(field)
    return setters


def _object_filler(setters: Mapping[str, Fill]) -> Fill:
    """Return the function that fills a message from a JSON object, with these setters by the fields' JSON names.

    It skips fields that are null or unknown. Its FieldError names the path of the field.
    """
    find = setters.get

    def fill_message(message: Any, value: Any) -> None:
        if not isinstance(value, dict):
            raise TypeError(f"expected an object, not {type(value).__name__}")
        for name, item in value.items():
            if item is None:
                continue
            setter = find(name)
            if setter is None:
                continue
            try:
                setter(message, item)
            except FieldError as error:
                error.within(name)
                raise
            except (TypeError, ValueError) as error:
                raise FieldError(name, str(error)) from error

    return fill_message


def _inlined_setter(name: str, setter: Fill) -> Fill:
    """Return the setter of a field that JSON has in the parent: it sets the field of the message `name`."""

    def set_inlined(message: Any, value: Any) -> None:
        inlined = getattr(message, name)
        setter(inlined, value)
        if not inlined.ListFields():
            message.ClearField(name)  # fields that are empty do not make it be there: it has no name of its own in JSON

    return set_inlined


def _field_setter(field: FieldDescriptor) -> Fill:
    """Return the setter of a field, by its type: map, list, message or scalar."""
    name = field.name
    if (value := map_value(field)) is not None:
        return _map_setter(name, value)
    if field.message_type is not None:
        fill = _message_filler(field.message_type)
        return _messages_setter(name, fill) if field.is_repeated else _message_setter(name, fill)
    convert = _READERS[field.type]
    return (
        _scalars_setter(name, convert, _zero_value_of_field(field))
        if field.is_repeated
        else _scalar_setter(name, convert)
    )


def _scalar_setter(name: str, convert: Convert) -> Fill:
    """Return the setter of a scalar field."""

    def set_scalar(message: Any, value: Any) -> None:
        setattr(message, name, convert(value))

    return set_scalar


def _message_setter(name: str, fill: Fill) -> Fill:
    """Return the setter of a message field; an empty object sets it too, since it differs from an absent one."""

    def set_message(message: Any, value: Any) -> None:
        inner = getattr(message, name)
        # An empty object is not an absent one: an empty selector matches everything.
        inner.SetInParent()
        fill(inner, value)

    return set_message


def _scalars_setter(name: str, convert: Convert, zero: Any) -> Fill:
    """Return the setter of a list of scalars; null stands for the zero value. Its FieldError names the index."""

    def set_scalars(message: Any, value: Any) -> None:
        elements = getattr(message, name)
        for index, item in enumerate(_check_list(value)):
            try:
                elements.append(zero if item is None else convert(item))
            except (TypeError, ValueError) as error:
                raise FieldError(f"[{index}]", str(error)) from error

    return set_scalars


def _messages_setter(name: str, fill: Fill) -> Fill:
    """Return the setter of a list of messages; null stands for an empty one. Its FieldError names the index."""

    def set_messages(message: Any, value: Any) -> None:
        elements = getattr(message, name)
        for index, item in enumerate(_check_list(value)):
            element = elements.add()
            if item is None:
                continue
            try:
                fill(element, item)
            except FieldError as error:
                error.within(f"[{index}]")
                raise
            except (TypeError, ValueError) as error:
                raise FieldError(f"[{index}]", str(error)) from error

    return set_messages


def _map_setter(name: str, values: FieldDescriptor) -> Fill:
    """Return the setter of a map field. Its FieldError names the entry's key."""
    if values.message_type is not None:
        put = _message_entry_setter(_message_filler(values.message_type))
    else:
        put = _scalar_entry_setter(_READERS[values.type], _zero_value_of_field(values))

    def set_map(message: Any, value: Any) -> None:
        if not isinstance(value, dict):
            raise TypeError(f"expected an object, not {type(value).__name__}")
        entries = getattr(message, name)
        for key, item in value.items():
            try:
                put(entries, key, item)
            except FieldError as error:
                error.within(str(key))
                raise
            except (TypeError, ValueError) as error:
                raise FieldError(str(key), str(error)) from error

    return set_map


def _message_entry_setter(fill: Fill) -> Callable[[Any, str, Any], None]:
    """Return the setter of one entry of a map of messages; null stands for an empty one."""

    def put(entries: Any, key: str, item: Any) -> None:
        entry = entries[key]
        if item is not None:
            fill(entry, item)

    return put


def _scalar_entry_setter(convert: Convert, zero: Any) -> Callable[[Any, str, Any], None]:
    """Return the setter of one entry of a map of scalars; null stands for the zero value."""

    def put(entries: Any, key: str, item: Any) -> None:
        entries[key] = zero if item is None else convert(item)

    return put


def _check_list(value: Any) -> list[Any]:
    """Return the value. Raises: TypeError if it is no list."""
    if isinstance(value, list):
        return value
    raise TypeError(f"expected a list, not {type(value).__name__}")


def _check_string(value: Any) -> str:
    """Return the value. Raises: TypeError if it is no string."""
    if isinstance(value, str):
        return value
    raise TypeError(f"expected a string, not {type(value).__name__}")


def _check_boolean(value: Any) -> bool:
    """Return the value. Raises: TypeError if it is no boolean."""
    if isinstance(value, bool):
        return value
    raise TypeError(f"expected true or false, not {type(value).__name__}")


def _check_integer(value: Any) -> int:
    """Return the value. Raises: TypeError if it is no integer."""
    # Setting the value checks its range.
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise TypeError(f"expected an integer, not {type(value).__name__}")


_READERS: Mapping[int, Convert] = {
    FieldDescriptor.TYPE_STRING: _check_string,
    FieldDescriptor.TYPE_BOOL: _check_boolean,
    FieldDescriptor.TYPE_INT32: _check_integer,
    FieldDescriptor.TYPE_INT64: _check_integer,
}


def _zero_value_of_field(field: FieldDescriptor) -> Any:
    return {FieldDescriptor.TYPE_STRING: "", FieldDescriptor.TYPE_BOOL: False}.get(field.type, 0)
