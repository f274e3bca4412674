"""`trireme-plugin.yaml`: how the plugin in a folder is built and started, and what it is tried on.

name: Maintenance                      # REQUIRED: as profiles name it
build: [cargo, build]                  # OPTIONAL: a command that ends
run: [target/debug/maintenance, --listen, "{address}"]  # REQUIRED: one that serves on the address
watch: [src, "*.toml"]                 # OPTIONAL: files and folders whose change starts it again; default: all
args: {label: example.com/maintenance} # OPTIONAL: its arguments, as in pluginConfig
samples:                               # OPTIONAL
  nodeLabels: {node-1: {example.com/maintenance: ""}}
  podLabels: {example.com/licence: cad} # of each sample pod
  pods: 3

docs/plugin-project.md is for those who write plugins.

Also change: docs/plugin-project.md.

Tests: tests/unit/cli/test_plugin_development.py.
"""

import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from trireme_kube.componentbase import documents

FILE_NAME = "trireme-plugin.yaml"
ADDRESS = "{address}"

_FIELDS = ("name", "build", "run", "watch", "args", "samples")
_SAMPLE_FIELDS = ("nodeLabels", "podLabels", "pods")
_MOST_PODS = 100


class ProjectError(Exception):
    """The file is missing or wrong; the text names the file, the field, and what to write."""


@dataclass(frozen=True, slots=True)
class Project:
    """A plugin's folder and what its file says.

    `node_labels` are labels to set, by the name of the node; `pod_labels` those of each sample pod.
    """

    folder: pathlib.Path
    name: str
    build: Sequence[str]
    run: Sequence[str]
    watch: Sequence[str]
    args: Mapping[str, Any]
    node_labels: Mapping[str, Mapping[str, str]]
    pod_labels: Mapping[str, str]
    pods: int


def load(folder: pathlib.Path) -> Project:
    """Read the file of a plugin's folder. Raises: ProjectError."""
    path = folder / FILE_NAME
    try:
        document = yaml.safe_load(path.read_text())
    except OSError as error:
        page = documents.PLUGIN_PROJECT
        text = f"{path}: {error.strerror}; `trireme plugin init` writes one, {page} lists its fields"
        raise ProjectError(text) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ProjectError(f"{path}: is not YAML: {error}") from error
    try:
        return _read(folder, _mapping(document, "the file"))
    except ValueError as error:
        raise ProjectError(f"{path}: {error}") from error


def _read(folder: pathlib.Path, document: Mapping[str, Any]) -> Project:
    """The project of a document. Raises: ValueError: names the field."""
    _refuse_unknown(document, _FIELDS, "")
    name = document.get("name")
    if not isinstance(name, str) or not name:
        raise ValueError("name: must be the name by which profiles enable the plugin")
    run = _command(document, "run")
    if not any(ADDRESS in word for word in run):
        raise ValueError(f'run: must have "{ADDRESS}" where the address to listen on stands')
    samples = _mapping(document.get("samples", {}), "samples")
    _refuse_unknown(samples, _SAMPLE_FIELDS, "samples.")
    pods = samples.get("pods", 3)
    if not isinstance(pods, int) or not 0 <= pods <= _MOST_PODS:
        raise ValueError(f"samples.pods: must be a number from 0 to {_MOST_PODS}")
    labels = _mapping(samples.get("nodeLabels", {}), "samples.nodeLabels")
    return Project(
        folder=folder,
        name=name,
        build=_command(document, "build"),
        run=run,
        watch=_command(document, "watch") or (".",),
        args=_mapping(document.get("args", {}), "args"),
        node_labels={node: _labels(each, f"samples.nodeLabels.{node}") for node, each in labels.items()},
        pod_labels=_labels(samples.get("podLabels", {}), "samples.podLabels"),
        pods=pods,
    )


def _labels(value: object, field: str) -> Mapping[str, str]:
    """Labels by key. Raises: ValueError."""
    labels = _mapping(value, field)
    for key, text in labels.items():
        if not isinstance(text, str):
            raise ValueError(f'{field}.{key}: must be a text; write {key}: "{text}"')
    return labels


def _command(document: Mapping[str, Any], field: str) -> Sequence[str]:
    """A list of texts; empty where the field is missing. Raises: ValueError."""
    words = document.get(field, [])
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"{field}: must be a list of texts, such as [make, build]")
    return tuple(words)


def _mapping(value: object, field: str) -> Mapping[str, Any]:
    """A mapping with texts as keys. Raises: ValueError."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"{field}: must be a mapping")
    return value


def _refuse_unknown(document: Mapping[str, Any], fields: Sequence[str], prefix: str) -> None:
    """Refuse a field that there is not. Raises: ValueError."""
    for field in document:
        if field not in fields:
            raise ValueError(f"{prefix}{field}: unknown field; there are {', '.join(fields)}")
