"""A text in every field of a message that can have one, and where texts are left in another one."""

from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf import descriptor, message

_TEXTS = (descriptor.FieldDescriptor.TYPE_STRING, descriptor.FieldDescriptor.TYPE_BYTES)

# Trees of messages are filled so deep.
MAX_DEPTH = 6


def fill(filled: message.Message, text_of: Callable[[str], str], depth: int = 0) -> None:
    """Set all fields: texts to what `text_of` returns for `Message.field`, numbers to 1; of a oneof the last one."""
    field: Any
    for field in filled.DESCRIPTOR.fields:
        if field.message_type is None:
            value = _value(field, text_of)
            if field.is_repeated:
                getattr(filled, field.name).append(value)
            else:
                setattr(filled, field.name, value)
        elif field.message_type.GetOptions().map_entry:
            _fill_map(getattr(filled, field.name), field, text_of, depth)
        elif depth < MAX_DEPTH:
            part = getattr(filled, field.name)
            inner = part.add() if field.is_repeated else part
            if not field.is_repeated:
                inner.SetInParent()
            fill(inner, text_of, depth + 1)


def texts(of: message.Message, path: str = "") -> Iterator[tuple[str, str]]:
    """The path, without indices, and the text of each field that has one; of maps also of keys."""
    field: Any
    for field, value in of.ListFields():
        name = f"{path}.{field.name}" if path else field.name
        if field.message_type is None:
            if field.type in _TEXTS:
                yield from ((name, str(each)) for each in (value if field.is_repeated else [value]))
        elif field.message_type.GetOptions().map_entry:
            for key, each in value.items():
                yield f"{name}.key", str(key)
                if isinstance(each, str):
                    yield f"{name}.value", each
        else:
            for each in value if field.is_repeated else [value]:
                yield from texts(each, name)


def _value(field: Any, text_of: Callable[[str], str]) -> Any:
    """A value of a field that is no message."""
    text = text_of(f"{field.containing_type.name}.{field.name}")
    if field.type == descriptor.FieldDescriptor.TYPE_BYTES:
        return text.encode()
    if field.type == descriptor.FieldDescriptor.TYPE_STRING:
        return text
    if field.enum_type is not None:
        return field.enum_type.values[-1].number
    return True if field.type == descriptor.FieldDescriptor.TYPE_BOOL else 1


def _fill_map(entries: Any, field: Any, text_of: Callable[[str], str], depth: int) -> None:
    """Add an entry."""
    key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
    name = f"{field.containing_type.name}.{field.name}"

    def text(_: str) -> str:
        return text_of(name)

    if value.message_type is None:
        entries[_value(key, text)] = _value(value, text)
    elif depth < MAX_DEPTH:
        fill(entries[_value(key, text)], text_of, depth + 1)
