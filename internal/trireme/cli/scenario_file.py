"""Scenario files: YAML, read strictly. Each problem has its line and column, the field, and what to do.

The fields are those of `trireme.v1.Scenario`, in JSON's spelling; manifests have those of the Kubernetes API.

Also change: internal/trireme/config/trireme_configuration.py (the type of this document).
Also change: docs/simulate.md.
Also change: protos/trireme/v1/simulation.proto (the messages).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from trireme.cli import named_input
from trireme.simulation import manifest_fields
from trireme.v1 import simulation_pb2
from trireme_kube.apimachinery import yaml_stream

API_VERSION = "trireme.dev/v1alpha1"
KIND = "Scenario"
MAX_BYTES = 1 << 20

_MANIFEST = "google.protobuf.Struct"
_NUMBERS = (FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_UINT64)


class ScenarioFileError(ValueError):
    """The file is no scenario; the text has a line for each problem."""


@dataclass(slots=True)
class Problems:
    """The problems of a file, in its order."""

    name: str
    found: list[tuple[int, int, str]] = field(default_factory=list)

    def add(self, node: yaml.Node, text: str) -> None:
        """Something is wrong at the node."""
        self.found.append((node.start_mark.line + 1, node.start_mark.column + 1, text))

    def raise_if_any(self) -> None:
        """Raises: ScenarioFileError."""
        if self.found:
            lines = [f"{self.name}:{line}:{column}: {text}" for line, column, text in sorted(self.found)]
            raise ScenarioFileError("\n".join(lines))


def read(name: str) -> bytes:
    """The contents of the file of this name, or of standard input. Raises: ScenarioFileError."""
    try:
        return named_input.read(name)
    except OSError as error:
        raise ScenarioFileError(f"{named_input.shown(name)}: {error.strerror}") from error


def check_size(data: bytes, name: str) -> None:
    """Raises: ScenarioFileError: the file is too large."""
    if len(data) > MAX_BYTES:
        raise ScenarioFileError(f"{name}: has more than {MAX_BYTES >> 20} MiB: use count instead of many manifests")


def parse(data: bytes, name: str) -> dict[str, Any]:
    """The scenario in the bytes of a file of this name. Raises: ScenarioFileError."""
    problems = Problems(name)
    root, document = _load(data, name)
    _check_type(root, problems)
    rest = [(key, value) for key, value in root.value if key.value not in ("apiVersion", "kind")]
    _check_message(rest, simulation_pb2.Scenario.DESCRIPTOR, "", problems, root)
    problems.raise_if_any()
    return {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}


def read_manifest(name: str, kind: str) -> dict[str, Any]:
    """The manifest of this kind in a file, or in standard input. Raises: ScenarioFileError."""
    data, shown = read(name), named_input.shown(name)
    problems = Problems(shown)
    root, document = _load(data, shown)
    _check_manifest(root, "", problems)
    problems.raise_if_any()
    if document.get("kind") != kind:
        raise ScenarioFileError(f"{shown}: kind: must be {kind}, not {document.get('kind')}")
    return document


def _load(data: bytes, name: str) -> tuple[yaml.MappingNode, dict[str, Any]]:
    """The file's nodes, and its contents. Raises: ScenarioFileError."""
    check_size(data, name)
    try:
        root = yaml.compose(data, Loader=yaml_stream.LOADER)
        document = yaml_stream.contents(data)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        at = f"{mark.line + 1}:{mark.column + 1}" if mark is not None else "1:1"
        raise ScenarioFileError(f"{name}:{at}: {error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ScenarioFileError(f"{name}: {error}") from error
    if not isinstance(root, yaml.MappingNode):
        raise ScenarioFileError(f"{name}:1:1: must be a mapping")
    return root, document


def _check_type(root: yaml.MappingNode, problems: Problems) -> None:
    """Check apiVersion and kind."""
    for name, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        value = next((value for key, value in root.value if key.value == name), None)
        if value is None:
            problems.add(root, f"{name}: must be given: {wanted}")
        elif value.value != wanted:
            problems.add(value, f"{name}: must be {wanted}")


def _check_message(
    pairs: Sequence[tuple[yaml.Node, yaml.Node]],
    descriptor: Descriptor,
    path: str,
    problems: Problems,
    at: yaml.Node,
) -> None:
    """Check the fields of a message, and that of a oneof there is exactly one."""
    known = {each.json_name: each for each in descriptor.fields}
    seen: set[str] = set()
    for key, value in pairs:
        name = str(key.value)
        where = f"{path}.{name}" if path else name
        of = known.get(name)
        if of is None:
            problems.add(key, f"{where}: unknown field; known are {', '.join(known)}")
        elif name in seen:
            problems.add(key, f"{where}: is there twice")
        else:
            _check_field(value, of, where, problems)
        seen.add(name)
    for oneof in descriptor.oneofs:
        names = [each.json_name for each in oneof.fields]
        if len(seen.intersection(names)) != 1 and seen <= set(known):
            problems.add(at, f"{path}: must have exactly one of {', '.join(names)}")


def _check_field(value: yaml.Node, of: FieldDescriptor, path: str, problems: Problems) -> None:
    if not of.is_repeated:
        _check_value(value, of, path, problems)
        return
    if not isinstance(value, yaml.SequenceNode):
        problems.add(value, f"{path}: must be a list")
        return
    for number, item in enumerate(value.value):
        _check_value(item, of, f"{path}[{number}]", problems)


def _check_value(value: yaml.Node, of: FieldDescriptor, path: str, problems: Problems) -> None:
    """Check one value: a message, a manifest, or a scalar."""
    message = of.message_type
    if message is not None and not isinstance(value, yaml.MappingNode):
        problems.add(value, f"{path}: must be a mapping")
    elif message is not None and message.full_name == _MANIFEST:
        _check_manifest(value, path, problems)
    elif message is not None:
        _check_message(value.value, message, path, problems, value)
    elif not isinstance(value, yaml.ScalarNode):
        problems.add(value, f"{path}: must be a single value")
    elif of.type in _NUMBERS and not value.value.isdecimal():
        problems.add(value, f"{path}: must be a whole number from 0")
    elif of.type == FieldDescriptor.TYPE_BOOL and value.value not in ("true", "false"):
        problems.add(value, f"{path}: must be true or false")


def _check_manifest(node: yaml.Node, path: str, problems: Problems) -> None:
    """Check a manifest's fields against the types of the Kubernetes API, as kubectl's strict validation does."""
    manifest = yaml_stream.contents_of(node)
    prefix = f"{path}." if path else ""
    for field_path, text in manifest_fields.problems(manifest):
        if field_path:
            at = node if field_path == "kind" else node_at(node, field_path)
            problems.add(at, f"{prefix}{field_path}: {text}")
        else:
            problems.add(node, f"{path or manifest['kind']}: {text}")


def node_at(node: yaml.Node, path: str) -> yaml.Node:
    """The key at a path such as spec.containers[0].name; the nearest node above if it cannot be followed."""
    found = node
    for part in path.replace("[", ".[").split("."):
        if part.startswith("[") and isinstance(node, yaml.SequenceNode):
            number = part[1:-1]
            if not number.isdecimal() or int(number) >= len(node.value):
                return found
            found = node = node.value[int(number)]
        elif isinstance(node, yaml.MappingNode):
            pair = next((pair for pair in node.value if pair[0].value == part), None)
            if pair is None:
                return found
            found, node = pair
    return found
