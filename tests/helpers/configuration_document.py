"""docs/configuration.md, written from the schema of TriremeConfiguration: `make docs` runs this, and a test compares.

Names and types are the schema's, defaults those of the dataclasses that the file is read into, and the texts the
comments above their fields.
"""

import ast
import dataclasses
import inspect
import pathlib
import re
from collections.abc import Iterator
from typing import Any

from trireme.config import trireme_configuration
from trireme.config.trireme_configuration_schema import CONFIGURATION
from trireme.framework.plugin_spec import ExtensionPoint
from trireme_kube.apimachinery import golang
from trireme_kube.apimachinery.schema import Many, Struct, Type

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs/configuration.md"

_HEAD = f"""# TriremeConfiguration

<!-- Written by `make docs` from the schema and the comments in internal/trireme/config/trireme_configuration.py. -->

Settings that only Trireme has are in a file of their own, which the frontend's
`--trireme-config` names; a KubeSchedulerConfiguration stays exactly
kube-scheduler's. Every field is optional unless it is REQUIRED. An unknown
field is an error, and `trireme config validate FILE` reports problems with line
and column.

```yaml
apiVersion: {trireme_configuration.API_VERSION}
kind: {trireme_configuration.KIND}
```

| field | type | default | meaning |
| --- | --- | --- | --- |
"""
_TYPES = {"string": "string", "int32": "integer", "bool": "boolean", "v1.Duration": "duration, e.g. `1m30s`"}
# Values that are one of a few.
_CHOICES = {
    "fallback.mode": trireme_configuration.FALLBACKS,
    "remotePlugins[].failurePolicy": trireme_configuration.FAILURE_POLICIES,
    "remotePlugins[].extensionPoints": tuple(
        point.value for point in ExtensionPoint if point in trireme_configuration.REMOTE_POINTS
    ),
}


def write() -> str:
    """The document's text."""
    return _HEAD + "".join(
        _rows(
            CONFIGURATION,
            trireme_configuration.TriremeConfiguration,
            trireme_configuration.TriremeConfiguration(),
            "",
            "",
        )
    )


def _rows(struct: Struct, cls: type[Any], default: Any, path: str, prefix: str) -> Iterator[str]:
    """The rows of a struct's fields. `prefix` begins the attributes of a struct that has no dataclass of its own."""
    comments = _comments(cls)
    for entry in struct.fields.values():
        if entry.embedded_in:
            continue
        where = f"{path}.{entry.name}" if path else entry.name
        attribute = _attribute(cls, prefix, entry.name)
        if attribute is None:
            assert isinstance(entry.type, Struct), where
            yield from _rows(entry.type, cls, default, where, entry.name)
            continue
        value = getattr(default, attribute)
        yield _row(where, entry.type, _default(cls, attribute, value), comments[attribute])
        yield from _inner(entry.type, value, where)


def _inner(type_: Type, value: Any, where: str) -> Iterator[str]:
    """The rows of what a field holds; TLS is explained once, at the top level."""
    if isinstance(type_, Many) and isinstance(type_.of, Struct):
        yield from _rows(
            type_.of,
            trireme_configuration.RemotePlugin,
            trireme_configuration.RemotePlugin("", "", ()),
            f"{where}[]",
            "",
        )
    elif isinstance(type_, Struct) and not (type_.name == "TLS" and "[]" in where):
        yield from _rows(type_, type(value), value, where, "")


def _attribute(cls: type[Any], prefix: str, name: str) -> str | None:
    """The dataclass field of a name in the file: its own, or one that begins with that of the struct around it."""
    names = {field.name for field in dataclasses.fields(cls)}
    return next((each for each in (_snake(name), f"{_snake(prefix)}_{_snake(name)}") if each in names), None)


def _row(where: str, type_: Type, default: str, text: str) -> str:
    choices = "".join(f"{', ' if number else ': '}`{choice}`" for number, choice in enumerate(_CHOICES.get(where, ())))
    return f"| `{where}` | {_type(type_)}{choices} | {default} | {text} |\n"


def _type(type_: Type) -> str:
    if isinstance(type_, Many):
        return f"list of {'objects' if isinstance(type_.of, Struct) else _type(type_.of) + 's'}"
    return "object" if isinstance(type_, Struct) else _TYPES[type_.type_name]


def _default(cls: type[Any], attribute: str, value: Any) -> str:
    (field,) = (each for each in dataclasses.fields(cls) if each.name == attribute)
    if field.default is dataclasses.MISSING:
        return "REQUIRED"
    empty = value in ("", (), None)
    nested = dataclasses.is_dataclass(value) and not isinstance(value, golang.Duration)
    return "" if empty or nested else f"`{value}`"


def _comments(cls: type[Any]) -> dict[str, str]:
    """The `#:` comment above each field of a dataclass."""
    source = inspect.getsource(cls)
    lines = source.splitlines()
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    out = {}
    for statement in definition.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            above: list[str] = []
            for line in reversed(lines[: statement.lineno - 1]):
                if not line.strip().startswith("#:"):
                    break
                above.insert(0, line.strip().removeprefix("#:").strip())
            out[statement.target.id] = " ".join(above)
    return out


def _snake(name: str) -> str:
    return re.sub(r"([A-Z])", lambda found: f"_{found[1].lower()}", name)


if __name__ == "__main__":
    DOCUMENT.write_text(write())
