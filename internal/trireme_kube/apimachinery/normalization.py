"""Checks that decoding does not make in either encoding: are the amounts valid, and which times are set.

A message keeps a quantity as text, and bytes parse into it whatever the text is; a plugin that meets one that is none
would fail for every pod. And in protobuf the time that means "never" is an empty message, in JSON it is null or left
out; what is read has no field there.

Driven by descriptors: for each message type the fields that lead to a quantity or a time are found once, so that an
object costs a step for each of those it has.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from trireme_kube.apimachinery.field_error import FieldError
from trireme_kube.apimachinery.quantity import parse_quantity

_INLINED = frozenset(
    {
        "Volume.volume_source",
        "ProjectedVolume.volume_source",
        "PersistentVolumeSpec.persistent_volume_source",
        "EphemeralContainer.ephemeral_container_common",
        "ProjectedEphemeralContainer.ephemeral_container_common",
        "DeviceClassConfiguration.device_configuration",
        "DeviceClaimConfiguration.device_configuration",
        "DeviceAllocationConfiguration.device_configuration",
    }
)

QUANTITY = "Quantity"
TIMES = ("Time", "MicroTime")

Step = Callable[[Any], None]
"""Looks at one field of a message."""


def is_inlined(field: FieldDescriptor) -> bool:
    """Whether the fields of this message field stand, in JSON and in paths, directly in the object that has it."""
    owner = field.containing_type
    return owner is not None and f"{owner.name}.{field.name}" in _INLINED


def settle(message: Message) -> None:
    """Takes the times out of the message that are none.

    Raises: FieldError naming the first quantity that is none. An empty one reads as 0.
    """
    for step in _steps_of(cast(Descriptor, message.DESCRIPTOR)):
        step(message)


def map_value(field: FieldDescriptor) -> FieldDescriptor | None:
    """What the values of a map field are, or None for another field: descriptors show a map as repeated pairs."""
    entry = field.message_type
    return entry.fields_by_name["value"] if entry is not None and entry.GetOptions().map_entry else None


_steps: dict[str, Sequence[Step]] = {}


def _steps_of(descriptor: Descriptor) -> Sequence[Step]:
    """What looks at a message of this type; made once."""
    steps = _steps.get(descriptor.full_name)
    if steps is None:
        candidates = (_step(field) for field in descriptor.fields if field.message_type is not None)
        steps = _steps[descriptor.full_name] = tuple(step for step in candidates if step is not None)
    return steps


def _step(field: FieldDescriptor) -> Step | None:
    """What looks at the field; None where nothing in it needs that."""
    values = map_value(field)
    inner = field.message_type if values is None else values.message_type
    if inner is None:
        return None
    name = field.name
    if inner.name in TIMES and not field.is_repeated:
        return _dropping_time(name)
    look = _amount if inner.name == QUANTITY else _looking(_steps_of(inner))
    if look is None:
        return None
    path = "" if is_inlined(field) else field.json_name
    if values is not None:
        return _each_amount(name, path) if inner.name == QUANTITY else _each_value(name, path, look)
    return _each(name, path, look) if field.is_repeated else _single(name, path, look)


def _looking(steps: Sequence[Step]) -> Step | None:
    if not steps:
        return None

    def look(message: Any) -> None:
        for step in steps:
            step(message)

    return look


def _amount(quantity: Any) -> None:
    text = quantity.string
    if text:
        try:
            _check(text)
        except ValueError as error:
            raise FieldError("", str(error)) from error


@functools.lru_cache(maxsize=4096)
def _check(text: str) -> None:
    """Raise ValueError for what is no quantity. Nodes are of few sizes: each text is parsed once."""
    parse_quantity(text)


def _dropping_time(name: str) -> Step:
    def look(message: Any) -> None:
        if message.HasField(name):
            time = getattr(message, name)
            if not time.seconds and not time.nanos:
                message.ClearField(name)

    return look


def _single(name: str, path: str, look: Step) -> Step:
    def look_at_one(message: Any) -> None:
        if message.HasField(name):
            try:
                look(getattr(message, name))
            except FieldError as error:
                if path:
                    error.within(path)
                raise

    return look_at_one


def _each(name: str, path: str, look: Step) -> Step:
    def look_at_each(message: Any) -> None:
        for index, element in enumerate(getattr(message, name)):
            try:
                look(element)
            except FieldError as error:
                error.within(f"{path}[{index}]")
                raise

    return look_at_each


def _each_amount(name: str, path: str) -> Step:
    """As _each_value, without a call for each: nearly all amounts that there are stand in such maps."""

    def look_at_amounts(message: Any) -> None:
        amounts = getattr(message, name)
        try:
            for quantity in amounts.values():
                if text := quantity.string:
                    _check(text)
        except ValueError as error:
            key = next(key for key, quantity in amounts.items() if quantity.string == text)
            raise FieldError(f"{path}.{key}", str(error)) from error

    return look_at_amounts


def _each_value(name: str, path: str, look: Step) -> Step:
    def look_at_values(message: Any) -> None:
        for key, element in getattr(message, name).items():
            try:
                look(element)
            except FieldError as error:
                error.within(f"{path}.{key}")
                raise

    return look_at_values
