"""docs/configuration.md and the schema for editors, written from the declaration of TriremeConfiguration.

`make docs` runs this, and a test compares.
"""

import dataclasses
import enum
import json
import pathlib
from collections.abc import Iterator
from typing import Any

from trireme.config import trireme_configuration
from trireme.config.trireme_configuration import TLS, TriremeConfiguration
from trireme_kube.apimachinery import declaration, golang
from trireme_kube.apimachinery.declaration import AtLeast, AtMost, Member, NotEmpty

_ROOT = pathlib.Path(__file__).parents[2]
DOCUMENT = _ROOT / "docs/configuration.md"
SCHEMA = _ROOT / "docs/reference/trireme-configuration.schema.json"

_HEAD = f"""# TriremeConfiguration

<!-- Written by `make docs` from internal/trireme/config/trireme_configuration.py. -->

Settings that only Trireme has are in a file of their own, which the frontend's
`--trireme-config` names; a KubeSchedulerConfiguration stays exactly
kube-scheduler's. Every field is optional unless it is REQUIRED. An unknown
field is an error, and `trireme config validate FILE` reports problems with line
and column. Editors check and complete the file by its
[JSON schema](reference/trireme-configuration.schema.json), for example with
`# yaml-language-server: $schema=PATH` in its first line.

```yaml
apiVersion: {trireme_configuration.API_VERSION}
kind: {trireme_configuration.KIND}
```

| field | type | default | meaning |
| --- | --- | --- | --- |
"""
_TYPES = {str: "string", int: "integer", bool: "boolean", golang.Duration: "duration, e.g. `1m30s`"}
_JSON_TYPES: dict[type[Any], dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    golang.Duration: {"type": "string", "pattern": r"^[-+]?(0|([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|ms|s|m|h))+$"},
}


def write() -> str:
    """The document's text."""
    return _HEAD + "".join(_rows(TriremeConfiguration, TriremeConfiguration(), ""))


def _rows(of: type[Any], default: Any, path: str) -> Iterator[str]:
    """The rows of a type's fields; TLS of a plugin is explained once, at the top level."""
    for member in declaration.members(of):
        where = f"{path}.{member.name}" if path else member.name
        value = dataclasses.MISSING if default is None else getattr(default, member.attribute)
        yield f"| `{where}` | {_type(member)} | {_default(member, value)} | {member.help} |\n"
        if member.many and member.nested:
            yield from _rows(member.nested, None, f"{where}[]")
        elif member.nested and (member.nested is not TLS or not path):
            yield from _rows(member.nested, member.default if value is dataclasses.MISSING else value, where)


def _type(member: Member) -> str:
    """A field's type, for people."""
    if member.nested:
        return "list of objects" if member.many else "object"
    name = _TYPES[str if issubclass(member.of, enum.Enum) else member.of]
    choices = ", ".join(f"`{choice}`" for choice in member.choices())
    return f"{f'list of {name}s' if member.many else name}{f': {choices}' if choices else ''}"


def _default(member: Member, value: Any) -> str:
    """A field's default; empty for a nested object, and for an empty value."""
    if member.is_required:
        return "REQUIRED"
    value = member.default if value is dataclasses.MISSING else value
    return "" if member.nested or value in ("", ()) else f"`{value}`"


def write_schema() -> str:
    """The text of the JSON schema."""
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": trireme_configuration.KIND,
        **_object(TriremeConfiguration, TriremeConfiguration()),
        "required": ["apiVersion", "kind"],
    }
    document["properties"] = {
        "apiVersion": {"const": trireme_configuration.API_VERSION},
        "kind": {"const": trireme_configuration.KIND},
        **document["properties"],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _object(of: type[Any], default: Any) -> dict[str, Any]:
    """The schema of an object."""
    properties = {
        member.name: _property(member, None if default is None else getattr(default, member.attribute))
        for member in declaration.members(of)
    }
    found: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": properties}
    required = [member.name for member in declaration.members(of) if _must_be_set(member)]
    return {**found, "required": required} if required else found


def _must_be_set(member: Member) -> bool:
    """Whether a rule refuses the empty value."""
    return any(isinstance(rule, NotEmpty) for rule in member.rules)


def _property(member: Member, value: Any) -> dict[str, Any]:
    """The schema of a field: its type, its help, its default, and the rules that a schema can tell."""
    if value is None and not member.is_required:
        value = member.default
    found: dict[str, Any] = {"description": member.help}
    one = _one(member, value)
    found |= {"type": "array", "items": one} if member.many else one
    if not member.nested and not member.is_required and value not in ("", ()):
        found["default"] = str(value) if isinstance(value, golang.Duration) else value
    return found


def _one(member: Member, default: Any) -> dict[str, Any]:
    """The schema of a field's value, or of an element of it."""
    if member.nested:
        return _object(member.nested, None if member.many else default)
    found = dict(_JSON_TYPES[str if issubclass(member.of, enum.Enum) else member.of])
    for rule in member.rules:
        if isinstance(rule, AtLeast) and member.of is int:
            found["minimum"] = rule.lowest
        elif isinstance(rule, AtMost) and member.of is int:
            found["maximum"] = rule.highest
    if choices := member.choices():
        found["enum"] = list(choices)
    return found


if __name__ == "__main__":
    DOCUMENT.write_text(write())
    SCHEMA.write_text(write_schema())
