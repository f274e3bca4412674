"""Which fields of a pod a plugin reads, and a pod cut down to them.

A plugin names them by path, as the Kubernetes API spells them: `spec.nodeSelector`, `spec.containers.resources` (of
every container), `metadata.labels` or one label alone, `metadata.labels['example.com/tier']`. What it did not name is
not sent to it, and does not take part in telling pods' classes apart on its behalf; so a path that names no field that
we carry is a fault of the plugin, an error at the handshake instead of a pod that never matches.

Also change: protos/trireme/v1/plugin.proto (how paths are written).

Tests: tests/unit/plugin_api/test_pod_fields.py, tests/unit/cache/test_pod_fields_of_specs.py.
"""

import re
from collections.abc import Sequence

from google.protobuf import message
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from trireme.v1 import core_pb2

_PATH = re.compile(r"(?P<fields>[A-Za-z][A-Za-z0-9]*(\.[A-Za-z][A-Za-z0-9]*)*)(\['(?P<key>[^']+)'\])?")

_LABELS = ("metadata", "labels")


class _FieldSelection:
    """What is selected of one message: whole fields, keys of map fields, parts of message fields."""

    __slots__ = ("keys", "parts", "whole")

    def __init__(self) -> None:
        self.whole: dict[str, FieldDescriptor] = {}
        self.keys: dict[str, set[str]] = {}
        self.parts: dict[str, tuple[FieldDescriptor, _FieldSelection]] = {}

    def copy(self, source: message.Message, target: message.Message) -> None:
        """Copy the selected fields from `source` to an empty `target`; fields that are unset stay so."""
        for name, field in self.whole.items():
            _copy_field_if_set(source, target, name, field)
        for name, keys in self.keys.items():
            entries = getattr(source, name)
            if name not in self.whole:
                getattr(target, name).update({key: entries[key] for key in keys if key in entries})
        for name, (field, part) in self.parts.items():
            if name in self.whole:
                continue
            if field.is_repeated:
                for element in getattr(source, name):
                    part.copy(element, getattr(target, name).add())
            elif source.HasField(name):
                part.copy(getattr(source, name), getattr(target, name))
                getattr(target, name).SetInParent()

    def complete(self, source: message.Message, target: message.Message) -> None:
        """Give `target`, a part of `source`, the selected fields that it lacks, and whole lists below its first level.

        Of lists of messages with as many elements as the source's, each element is completed.
        """
        for name, field in self.whole.items():
            target.ClearField(name)
            _copy_field_if_set(source, target, name, field)
        for name, keys in self.keys.items():
            entries = getattr(source, name)
            getattr(target, name).update({key: entries[key] for key in keys if key in entries})
        for name, (field, part) in self.parts.items():
            if not field.is_repeated:
                if source.HasField(name):
                    part.complete(getattr(source, name), getattr(target, name))
                continue
            elements, present = getattr(source, name), getattr(target, name)
            if len(elements) != len(present):
                target.ClearField(name)
                getattr(target, name).MergeFrom(elements)
                continue
            for element, there in zip(elements, present, strict=True):
                part.complete(element, there)


class PodFields:
    """The fields that one plugin reads. Without paths: all that there are."""

    __slots__ = ("_selected", "label_keys")

    def __init__(self, paths: Sequence[str]) -> None:
        """Raises: ValueError naming the path that is no field."""
        self._selected: _FieldSelection | None = _FieldSelection() if paths else None
        #: The labels that it reads by key; None: all of them.
        self.label_keys: frozenset[str] | None = frozenset() if paths else None
        for path in paths:
            try:
                self._add_path(path)
            except ValueError as error:
                raise ValueError(f"pod_fields: {error}") from error

    def project(self, pod: core_pb2.Pod) -> core_pb2.Pod:
        """The pod with these fields alone; the pod itself where all are read."""
        if self._selected is None:
            return pod
        out = core_pb2.Pod()
        self._selected.copy(pod, out)
        return out

    def complete(self, source: core_pb2.Pod, target: core_pb2.Pod) -> None:
        """Give `target`, a part of `source`, these fields."""
        if self._selected is not None:
            self._selected.complete(source, target)

    def _add_path(self, path: str) -> None:
        """Select the field, or the key of a map, that the path names. Raises: ValueError: pods have no such field."""
        match = _PATH.fullmatch(path)
        if match is None or self._selected is None:
            raise ValueError(f"{path!r} is no path of a field, as in spec.nodeSelector or metadata.labels['key']")
        names = match["fields"].split(".")
        self._note_label_keys_read(tuple(names), match["key"])
        selected, descriptor = self._selected, core_pb2.Pod.DESCRIPTOR
        for name in names[:-1]:
            field = _field_descriptor(descriptor, name, path)
            if field.message_type is None or _is_map_field(field):
                raise ValueError(f"{path}: {name} has no fields of its own")
            selected = selected.parts.setdefault(field.name, (field, _FieldSelection()))[1]
            descriptor = field.message_type
        field = _field_descriptor(descriptor, names[-1], path)
        if match["key"] is None:
            selected.whole[field.name] = field
        elif _is_map_field(field):
            selected.keys.setdefault(field.name, set()).add(match["key"])
        else:
            raise ValueError(f"{path}: {names[-1]} has no keys")

    def _note_label_keys_read(self, names: tuple[str, ...], key: str | None) -> None:
        """Note which label keys the path reads, if it is about labels."""
        if names not in (_LABELS[:1], _LABELS):
            return
        if key is None:
            self.label_keys = None
        elif self.label_keys is not None:
            self.label_keys |= {key}


def label_keys(paths: Sequence[str]) -> frozenset[str] | None:
    """The keys of the labels that these paths name; None: all labels. Raises: ValueError, as PodFields."""
    return PodFields(paths).label_keys if paths else frozenset()


def _field_descriptor(descriptor: Descriptor, json_name: str, path: str) -> FieldDescriptor:
    """The field of this JSON name. Raises: ValueError: there is none; the text names the path."""
    for field in descriptor.fields:
        if field.json_name == json_name:
            return field
    raise ValueError(f"{path}: a pod as schedulers see it has no field {json_name} there")


def _is_map_field(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _copy_field_if_set(source: message.Message, target: message.Message, name: str, field: FieldDescriptor) -> None:
    """Copy one field, if it is set."""
    if _is_map_field(field) or field.is_repeated:
        getattr(target, name).MergeFrom(getattr(source, name))
    elif field.message_type is not None:
        if source.HasField(name):
            getattr(target, name).CopyFrom(getattr(source, name))
    elif not field.has_presence or source.HasField(name):
        setattr(target, name, getattr(source, name))
