"""The pages of both configuration APIs and the schemas for editors, written from the declarations of API types.

`make docs` runs this, and a test compares.
"""

import dataclasses
import enum
import json
import pathlib
from collections.abc import Iterator
from typing import Any

from trireme.config import scheduler_configuration, trireme_configuration
from trireme.config.service_tls import TLS
from trireme.config.trireme_configuration import TriremeConfiguration
from trireme.registry import in_tree_args
from trireme_kube.apimachinery import declaration, golang, schema
from trireme_kube.apimachinery.declaration import AtLeast, AtMost, Member, NotEmpty

_ROOT = pathlib.Path(__file__).parents[2]
DOCUMENT = _ROOT / "docs/configuration.md"
SCHEMAS = _ROOT / "docs/reference"
KUBE_DOCUMENT = SCHEMAS / "kube-scheduler-configuration.md"

_HEAD = f"""# TriremeConfiguration

<!-- Written by `make docs` from internal/trireme/config/trireme_configuration.py. -->

Settings that only Trireme has are in a file of their own, which the frontend's
`--trireme-config` names; a KubeSchedulerConfiguration stays exactly
kube-scheduler's. Every field is optional unless it is REQUIRED. An unknown
field is an error, and `trireme config validate FILE` reports problems with line
and column. Editors check and complete the file by its
[JSON schema](reference/trireme-configuration.schema.json), for example with
`# yaml-language-server: $schema=PATH` in its first line; there is
[one for KubeSchedulerConfiguration](reference/kube-scheduler-configuration.schema.json)
too, whose fields are in a [page of their own](reference/kube-scheduler-configuration.md).

```yaml
apiVersion: {trireme_configuration.API_VERSION}
kind: {trireme_configuration.KIND}
```

"""
_TABLE = "| field | type | default | meaning |\n| --- | --- | --- | --- |\n"
_KUBE_HEAD = f"""# KubeSchedulerConfiguration

<!-- Written by `make docs` from internal/trireme/config/scheduler_configuration.py and the plugins' args.py. -->

The file of the frontend's `--config` has the fields, defaults and rules of kube-scheduler's. Settings that only
Trireme has are in the [TriremeConfiguration](../configuration.md).

```yaml
apiVersion: {scheduler_configuration.API_VERSION}
kind: {scheduler_configuration.KIND}
```

"""
_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", golang.Duration: "duration, e.g. `1m30s`"}
_DURATION = {"type": "string", "pattern": r"^[-+]?(0|([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|ms|s|m|h))+$"}
_JSON_TYPES: dict[schema.Kind, dict[str, Any]] = {
    schema.Kind.STRING: {"type": "string"},
    schema.Kind.BOOL: {"type": "boolean"},
    schema.Kind.INT32: {"type": "integer"},
    schema.Kind.INT64: {"type": "integer"},
    schema.Kind.FLOAT32: {"type": "number"},
    schema.Kind.BYTES: {"type": "string", "contentEncoding": "base64"},
    schema.Kind.DURATION: _DURATION,
    schema.Kind.RAW: {},
}


def write() -> str:
    """The document's text."""
    return _HEAD + _TABLE + "".join(_rows(TriremeConfiguration, TriremeConfiguration(), ""))


def write_kube() -> str:
    """The text of the page of KubeSchedulerConfiguration, with the arguments of plugins."""
    of = scheduler_configuration.SchedulerConfiguration
    arguments = (
        f"\n## {name}Args\n\n{_TABLE}{''.join(_rows(args.type, None, ''))}"
        for name, args in sorted(in_tree_args.plugin_args().items())
    )
    return "".join((_KUBE_HEAD, _TABLE, *_rows(of, of(), ""), *arguments))


def _rows(of: type[Any], default: Any, path: str) -> Iterator[str]:
    """The rows of a type's fields; TLS of a plugin is explained once, at the top level."""
    for member in declaration.members(of):
        where = f"{path}.{member.name}" if path else member.name
        value = dataclasses.MISSING if default is None else getattr(default, member.attribute)
        yield f"| `{where}` | {_type(member)} | {_default(member, value)} | {member.help} |\n"
        if member.many and member.nested:
            yield from _rows(member.nested, None, f"{where}[]")
        elif member.nested and (member.nested is not TLS or not path):
            value = member.default if value is dataclasses.MISSING else value
            yield from _rows(member.nested, None if value is dataclasses.MISSING else value, where)


def _type(member: Member) -> str:
    """A field's type, for people."""
    if member.nested:
        return "list of objects" if member.many else "object"
    of = str if isinstance(member.of, type) and issubclass(member.of, enum.Enum) else member.of
    name = "base64" if of is bytes else _TYPES.get(of, "object")
    choices = ", ".join(f"`{choice}`" for choice in member.choices())
    return f"{f'list of {name}s' if member.many else name}{f': {choices}' if choices else ''}"


def _default(member: Member, value: Any) -> str:
    """A field's default; empty for a nested object, and for an empty value."""
    if member.is_required:
        return "REQUIRED"
    value = member.default if value is dataclasses.MISSING else value
    if member.nested or value in ("", b"", (), None) or _type(member) == "object":
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def write_schemas() -> dict[pathlib.Path, str]:
    """The texts of the JSON schemas, by file."""
    own = _document(TriremeConfiguration, trireme_configuration.API_VERSION, trireme_configuration.KIND)
    kube = _document(
        scheduler_configuration.SchedulerConfiguration,
        scheduler_configuration.API_VERSION,
        scheduler_configuration.KIND,
    )
    return {
        SCHEMAS / "trireme-configuration.schema.json": own,
        SCHEMAS / "kube-scheduler-configuration.schema.json": kube,
    }


def _document(of: type[Any], api_version: str, kind: str) -> str:
    """The text of the schema of files of a kind."""
    found = _object(of, of())
    properties = {"apiVersion": {"const": api_version}, "kind": {"const": kind}, **found["properties"]}
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": kind,
        **found,
        "properties": properties,
        "required": ["apiVersion", "kind"],
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
    if isinstance(value, golang.Duration | int | float | str) and value != "":
        found["default"] = str(value) if isinstance(value, golang.Duration) else value
    return found


def _one(member: Member, default: Any) -> dict[str, Any]:
    """The schema of a field's value, or of an element of it."""
    if member.nested:
        return _object(member.nested, None if member.many else default)
    if member.of is scheduler_configuration.PluginConfig:
        return _plugin_config()
    api_type = member.api_type.of if isinstance(member.api_type, schema.Many) else member.api_type
    found = _of_type(api_type)
    for rule in member.rules:
        if isinstance(rule, AtLeast) and member.of is int:
            found["minimum"] = rule.lowest
        elif isinstance(rule, AtMost) and member.of is int:
            found["maximum"] = rule.highest
    if choices := member.choices():
        found["enum"] = list(choices)
    return found


def _of_type(of: schema.Type) -> dict[str, Any]:
    """The schema of a type without help."""
    if isinstance(of, schema.Struct):
        properties = {name: _of_type(entry.type) for name, entry in of.fields.items()}
        return {"type": "object", "additionalProperties": False, "properties": properties}
    if isinstance(of, schema.Many):
        return {"type": "array", "items": _of_type(of.of)}
    if isinstance(of, schema.StringMap):
        return {"type": "object", "additionalProperties": {"type": "string"}}
    return dict(_JSON_TYPES[of.kind])


def _plugin_config() -> dict[str, Any]:
    """The schema of a plugin's arguments, which depends on its name."""
    typed = []
    for name, args in sorted(in_tree_args.plugin_args().items()):
        found = _object(args.type, None)
        meta = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
        found["properties"] = {**meta, **found["properties"]}
        typed.append({"if": {"properties": {"name": {"const": name}}}, "then": {"properties": {"args": found}}})
    properties = {"name": {"type": "string"}, "args": {}}
    return {"type": "object", "additionalProperties": False, "properties": properties, "allOf": typed}


if __name__ == "__main__":
    DOCUMENT.write_text(write())
    KUBE_DOCUMENT.write_text(write_kube())
    for path, text in write_schemas().items():
        path.write_text(text)
