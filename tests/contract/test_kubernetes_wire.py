"""The messages of `trireme.v1` against what the official Go types write.

`gotypes/` fills Kubernetes objects completely and writes them as protobuf and as JSON, under `data/gotypes`. A message
is right when its reading of the bytes and our reading of the JSON agree, and when every field we declare occurs there:
then no field can have another number, type or JSON name than the public one.
"""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.message import Message

from trireme.v1 import (
    apps_pb2,
    coordination_pb2,
    core_pb2,
    meta_pb2,
    policy_pb2,
    resource_pb2,
    scheduling_pb2,
    storage_pb2,
)
from trireme_kube.apimachinery.decode import decode, map_value
from trireme_kube.apimachinery.encode import encode
from trireme_kube.apimachinery.quantity import INT64_MAX, parse_quantity

DATA = Path(__file__).parent / "data" / "gotypes"
MODULES = [meta_pb2, core_pb2, apps_pb2, policy_pb2, storage_pb2, coordination_pb2, scheduling_pb2, resource_pb2]
CLASSES: dict[str, type[Message]] = {
    name: getattr(module, name) for module in MODULES for name in module.DESCRIPTOR.message_types_by_name
}


def _samples() -> Iterator[Any]:
    for path in sorted(DATA.glob("*.json")):
        for variant, sample in json.loads(path.read_bytes()).items():
            wire = base64.b64decode(sample["protobuf"])
            yield pytest.param(CLASSES[path.stem], wire, sample["json"], id=f"{path.stem}-{variant}")


SAMPLES = list(_samples())


def _known(message_class: type[Message], wire: bytes) -> Message:
    """The message that the bytes hold, less the fields that our subset does not declare."""
    message = message_class.FromString(wire)
    message.DiscardUnknownFields()
    return message


@pytest.mark.parametrize(("message_class", "wire", "value"), SAMPLES)
def test_protobuf_and_json_read_alike(message_class: type[Message], wire: bytes, value: Any) -> None:
    """A field with a wrong number, type or JSON name would be read from one encoding and not from the other."""
    assert decode(value, message_class) == _known(message_class, wire)


@pytest.mark.parametrize(("message_class", "wire", "value"), SAMPLES)
def test_our_json_is_part_of_the_official_json(message_class: type[Message], wire: bytes, value: Any) -> None:
    """An API server would misread what we send if a value were written in another form than its own."""
    ours = encode(_known(message_class, wire))
    assert list(_differences(ours, value, "")) == []


@pytest.mark.parametrize(("message_class", "wire", "value"), SAMPLES)
def test_encode_and_decode_are_inverse(message_class: type[Message], wire: bytes, value: Any) -> None:
    """An object kept as JSON and read again would lose or change a field."""
    message = decode(value, message_class)
    assert decode(encode(message), message_class) == message


@pytest.mark.parametrize("variant", ["full", "zero-pointers"])
def test_every_declared_field_occurs_in_the_samples(variant: str) -> None:
    """A field that no sample holds would escape all other tests, as would one that cannot tell zero from unset."""
    seen: set[str] = set()
    for sample in SAMPLES:
        message_class, wire, _ = sample.values
        if str(sample.id).endswith(variant):
            _collect_set_fields(_known(message_class, wire), seen)
    declared = {name for module in MODULES for name in _declared_fields(module.DESCRIPTOR)}
    # The official Time is written in whole seconds.
    assert declared - seen == {"trireme.v1.Time.nanos"}


QUANTITIES = [json.loads(line) for line in (DATA / "quantities.jsonl").read_text().splitlines()]


def test_quantities_are_read_as_by_the_official_type() -> None:
    """A request would be counted as another amount than the API server, the kubelet and users see in it."""
    assert [wrong for case in QUANTITIES if (wrong := _wrong_quantity(case))] == []


def _wrong_quantity(case: dict[str, Any]) -> str | None:
    """How our reading of a text differs from the official one; None where it does not."""
    text = case["text"]
    try:
        quantity = parse_quantity(text)
    except ValueError as error:
        return None if str(error) == case.get("error") else f"{text!r}: {error}"
    if "error" in case:
        return f"{text!r}: read as {quantity}"
    # Where the official type has no number because it is too large, ours is the largest there is.
    if case["sign"] >= 0:
        numbers = quantity.value(), quantity.milli_value()
        expected = case.get("value", INT64_MAX), case.get("milli", INT64_MAX)
        if numbers != expected:
            return f"{text!r}: value and milli {numbers}, expected {expected}"
    if str(quantity) != case.get("canonical", str(quantity)):
        return f"{text!r}: written as {quantity}, expected {case['canonical']}"
    return None


def _differences(ours: Any, theirs: Any, path: str) -> Iterator[str]:
    """Where `ours` says something that `theirs` does not."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            yield from _differences(value, theirs.get(key), f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, value in enumerate(ours):
            yield from _differences(value, theirs[index], f"{path}[{index}]")
    # An empty object and an absent one are the same to the API server where the field is not a pointer.
    elif ours != theirs and not (ours == {} and theirs is None):
        yield f"{path}: {ours!r}, expected {theirs!r}"


def _collect_set_fields(message: Message, seen: set[str]) -> None:
    for field, value in message.ListFields():
        seen.add(field.full_name)
        if field.message_type is None:
            continue
        if (values := map_value(field)) is not None:
            inner = list(value.values()) if values.message_type is not None else []
        else:
            inner = list(value) if field.is_repeated else [value]
        for element in inner:
            _collect_set_fields(element, seen)


def _declared_fields(file: FileDescriptor) -> Iterator[str]:
    for message in file.message_types_by_name.values():
        for field in message.fields:
            yield field.full_name
