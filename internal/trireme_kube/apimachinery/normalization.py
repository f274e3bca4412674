"""Normalizes decoded messages from either encoding: checks quantities and clears zero times.

A message stores a quantity as text, and decoding accepts any text; an invalid one would make a plugin fail for every
pod. A zero time is an empty message in protobuf, but null or absent in JSON; normalized messages have no field for it.

Driven by descriptors: for each message type, the fields that lead to a quantity or a time are determined once, so that
an object costs one step for each of them.

Tests: tests/unit/apimachinery/test_decode.py, tests/unit/plugins/dynamic_resources/test_allocator.py.
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
"""Normalizes one field of a message."""


def is_inlined(field: FieldDescriptor) -> bool:
    """Whether JSON and paths have this message field's fields inlined in its parent."""
    owner = field.containing_type
    return owner is not None and f"{owner.name}.{field.name}" in _INLINED


def normalize(message: Message) -> None:
    """Check the message's quantities and clear its zero times.

    Raises: FieldError naming the first invalid quantity. An empty one counts as 0.
    """
    for step in _normalization_steps_of_type(cast(Descriptor, message.DESCRIPTOR)):
        step(message)


def map_value(field: FieldDescriptor) -> FieldDescriptor | None:
    """The descriptor of a map field's values; None for other fields, since descriptors show maps as repeated pairs."""
    entry = field.message_type
    return entry.fields_by_name["value"] if entry is not None and entry.GetOptions().map_entry else None


_steps: dict[str, Sequence[Step]] = {}


def _normalization_steps_of_type(descriptor: Descriptor) -> Sequence[Step]:
    """The steps of a message type; made once."""
    steps = _steps.get(descriptor.full_name)
    if steps is None:
        candidates = (
            _normalization_step_of_field(field) for field in descriptor.fields if field.message_type is not None
        )
        steps = _steps[descriptor.full_name] = tuple(step for step in candidates if step is not None)
    return steps


def _normalization_step_of_field(field: FieldDescriptor) -> Step | None:
    """The step of a field; None if it contains no quantity or time."""
    values = map_value(field)
    inner = field.message_type if values is None else values.message_type
    if inner is None:
        return None
    name = field.name
    if inner.name in TIMES and not field.is_repeated:
        return _step_of_time(name)
    look = _check_quantity if inner.name == QUANTITY else _step_of_message(_normalization_steps_of_type(inner))
    if look is None:
        return None
    path = "" if is_inlined(field) else field.json_name
    if values is not None:
        return _step_of_quantity_map(name, path) if inner.name == QUANTITY else _step_of_map(name, path, look)
    return _step_of_repeated_field(name, path, look) if field.is_repeated else _step_of_singular_field(name, path, look)


def _step_of_message(steps: Sequence[Step]) -> Step | None:
    """Return the step that runs all steps of a message; None without any."""
    if not steps:
        return None

    def run_steps(message: Any) -> None:
        for step in steps:
            step(message)

    return run_steps


def _check_quantity(quantity: Any) -> None:
    """Check a Quantity message; an empty one counts as 0. Raises: FieldError."""
    text = quantity.string
    if text:
        try:
            _check_quantity_text(text)
        except ValueError as error:
            raise FieldError("", str(error)) from error


@functools.lru_cache(maxsize=4096)
def _check_quantity_text(text: str) -> None:
    """Check that the text is a quantity, cached since few texts occur. Raises: ValueError."""
    parse_quantity(text)


def _step_of_time(name: str) -> Step:
    """Return the step that clears a time field if the time is zero."""

    def clear_zero_time(message: Any) -> None:
        if message.HasField(name):
            time = getattr(message, name)
            if not time.seconds and not time.nanos:
                message.ClearField(name)

    return clear_zero_time


def _step_of_singular_field(name: str, path: str, look: Step) -> Step:
    """Return the step of a message field: it runs `look` on the message if it is set. `path` is for its FieldError."""

    def look_at_one(message: Any) -> None:
        if message.HasField(name):
            try:
                look(getattr(message, name))
            except FieldError as error:
                if path:
                    error.within(path)
                raise

    return look_at_one


def _step_of_repeated_field(name: str, path: str, look: Step) -> Step:
    """Return the step of a list: it runs `look` on each element. `path` is for its FieldError."""

    def look_at_each(message: Any) -> None:
        for index, element in enumerate(getattr(message, name)):
            try:
                look(element)
            except FieldError as error:
                error.within(f"{path}[{index}]")
                raise

    return look_at_each


def _step_of_quantity_map(name: str, path: str) -> Step:
    """Return the step of a map of quantities, which has nearly all of them: as `_step_of_map`, without a call each."""

    def look_at_amounts(message: Any) -> None:
        amounts = getattr(message, name)
        try:
            for quantity in amounts.values():
                if text := quantity.string:
                    _check_quantity_text(text)
        except ValueError as error:
            key = next(key for key, quantity in amounts.items() if quantity.string == text)
            raise FieldError(f"{path}.{key}", str(error)) from error

    return look_at_amounts


def _step_of_map(name: str, path: str, look: Step) -> Step:
    """Return the step of a map: it runs `look` on each value. `path` is for its FieldError."""

    def look_at_values(message: Any) -> None:
        for key, element in getattr(message, name).items():
            try:
                look(element)
            except FieldError as error:
                error.within(f"{path}.{key}")
                raise

    return look_at_values
