"""The documents of a YAML file, with the places of their fields. JSON is YAML, too.

Tests: tests/unit/cli/test_submitted_files.py.
"""

from typing import Any

import yaml

from trireme_kube.apimachinery import json_document, yaml_document

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class MalformedStreamError(ValueError):
    """The file is no YAML, or a document of it no mapping; `place` is line and column, empty where none is known."""

    def __init__(self, place: str, text: str) -> None:
        super().__init__(f"{place}: {text}" if place else text)


def read_all(data: bytes) -> list[tuple[yaml.MappingNode, dict[str, Any]]]:
    """The documents but the empty ones, each with its contents. Raises: MalformedStreamError."""
    try:
        nodes = [node for node in yaml.compose_all(data, Loader=LOADER) if not _is_empty(node)]
        contents_of_nodes = [contents_of(node) for node in nodes]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"{mark.line + 1}:{mark.column + 1}" if mark is not None else "1:1"
        raise MalformedStreamError(place, error.problem or "is not YAML") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise MalformedStreamError("", str(error)) from error
    mappings = []
    for number, (node, found) in enumerate(zip(nodes, contents_of_nodes, strict=True), start=1):
        if not isinstance(node, yaml.MappingNode):
            place = f"{node.start_mark.line + 1}:{node.start_mark.column + 1}"
            raise MalformedStreamError(place, f"document {number}: must be a mapping, as a manifest is")
        mappings.append((node, found))
    return mappings


def _is_empty(node: yaml.Node | None) -> bool:
    """Whether a document has nothing but comments."""
    return node is None or (isinstance(node, yaml.ScalarNode) and node.value in ("", "null", "~"))


def contents_of(node: yaml.Node) -> dict[str, Any]:
    """The mapping that a document is, by Kubernetes' rules; empty if it is none. Raises: ValueError."""
    return contents(yaml.serialize(node).encode())


def contents(data: bytes) -> dict[str, Any]:
    """The mapping that the YAML is, by Kubernetes' rules; empty if it is none. Raises: ValueError."""
    found = json_document.plain(yaml_document.parse(data).node)
    return found if isinstance(found, dict) else {}
