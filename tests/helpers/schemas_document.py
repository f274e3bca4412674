"""docs/reference/schemas: JSON schemas of what `-o json` prints, and of HTTP answers; `make docs` writes them.

A schema is made from the message of the contract that a document is the JSON of, with its comments, or from the
TypedDict that declares the document. Documents of newer releases may have more fields.
"""

import json
import pathlib
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf import descriptor

from tests.helpers import contract_comments
from trireme.cli import record_command, replay_run, version_command
from trireme.plugin_verification import reports
from trireme.shadow import report
from trireme.v1 import decision_explanation_pb2, insight_pb2, scheduler_status_pb2, simulation_pb2

FOLDER = pathlib.Path(__file__).parents[2] / "docs/reference/schemas"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Schema:
    """A published schema: what prints the documents, and the message or the TypedDict that declares them."""

    about: str
    of: Any


SCHEMAS: Mapping[str, Schema] = {
    "status": Schema("`trireme status`, `/trireme/v1/status`", scheduler_status_pb2.SchedulerStatus),
    "explain": Schema(
        "`trireme explain`, `trireme replay … explain`, `/trireme/v1/explain`, "
        "`/v1/namespaces/{namespace}/pods/{name}/explanation`",
        insight_pb2.ExplainResponse,
    ),
    "decision": Schema(
        "`/v1/namespaces/{namespace}/pods/{name}/decision`", decision_explanation_pb2.ExplainDecisionResponse
    ),
    "simulate": Schema(
        "`trireme simulate`, `/trireme/v1/simulate`, `/v1/simulation`, `/v1/simulation/manifests`",
        simulation_pb2.SimulateResponse,
    ),
    "version": Schema("`trireme version`", version_command.Versions),
    "record-check": Schema("`trireme record check`", record_command.RecordingSummary),
    "replay": Schema("`trireme replay`", replay_run.ReplayReport),
    "shadow": Schema("`trireme shadow`, and its `/report`", report.ShadowReport),
    "plugin-verify": Schema("`trireme plugin verify`", reports.VerificationReport),
}


def document(name: str) -> Json:
    """The schema of this name."""
    found, definitions = SCHEMAS[name], dict[str, Json]()
    root = _reference_to(found.of, definitions)
    return {
        "$schema": _DIALECT,
        "title": name,
        "description": f"The JSON of {found.about}.",
        **root,
        "$defs": dict(sorted(definitions.items())),
    }


def text(name: str) -> str:
    """The schema as the file has it."""
    return json.dumps(document(name), indent=1, ensure_ascii=False) + "\n"


def strict(schema: Any) -> Any:
    """The schema, which also refuses fields that it does not name: for tests of this release."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: strict(value) for key, value in schema.items()}
    if "properties" in out:
        out.setdefault("additionalProperties", False)
    return out


def _reference_to(of: Any, definitions: dict[str, Json]) -> Json:
    """A reference to the schema of a message or TypedDict, which is defined if it is not yet."""
    of_message = hasattr(of, "DESCRIPTOR") or isinstance(of, descriptor.Descriptor)
    described = getattr(of, "DESCRIPTOR", of)
    name = described.name if of_message else of.__name__
    if name not in definitions:
        definitions[name] = {}
        made = _of_message(described, definitions) if of_message else _of_typed_dict(of, definitions)
        definitions[name] = made
    return {"$ref": f"#/$defs/{name}"}


# Messages, as protobuf's JSON mapping with counts that are 0 has them.

_NUMBER = {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}
_INTEGER = {"type": "integer"}
_LARGE = {"type": "string", "pattern": "^-?[0-9]+$"}
# Messages of protobuf's own with a mapping of their own.
_WELL_KNOWN: Mapping[str, Json] = {"google.protobuf.Struct": {"type": "object"}}
_TYPES: Mapping[int, Json] = {
    **dict.fromkeys((1, 2), _NUMBER),
    **dict.fromkeys((3, 4, 6, 16, 18), _LARGE),
    **dict.fromkeys((5, 7, 13, 15, 17), _INTEGER),
    8: {"type": "boolean"},
    9: {"type": "string"},
    12: {"type": "string", "contentEncoding": "base64"},
}


def _of_message(of: Any, definitions: dict[str, Json]) -> Json:
    comments = contract_comments.comments()
    properties, needed = dict[str, Json](), []
    for field in of.fields:
        comment = comments.get(f"{of.name}.{field.name}", "")
        made = _of_field(field, definitions)
        properties[field.json_name] = {"description": comment, **made} if comment else made
        if not field.has_presence:
            needed.append(field.json_name)
    described = {"description": comments[of.name]} if of.name in comments else {}
    out = {**described, "type": "object", "properties": properties}
    return {**out, "required": needed} if needed else out


def _of_field(field: Any, definitions: dict[str, Json]) -> Json:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        values = field.message_type.fields_by_name["value"]
        return {"type": "object", "additionalProperties": _of_value(values, definitions)}
    value = _of_value(field, definitions)
    return {"type": "array", "items": value} if field.is_repeated else value


def _of_value(field: Any, definitions: dict[str, Json]) -> Json:
    if field.message_type is not None and field.message_type.full_name in _WELL_KNOWN:
        return dict(_WELL_KNOWN[field.message_type.full_name])
    if field.message_type is not None:
        return _reference_to(field.message_type, definitions)
    if field.enum_type is not None:
        return {"enum": [value.name for value in field.enum_type.values]}
    return dict(_TYPES[field.type])


# TypedDicts.

_PLAIN: Mapping[Any, Json] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    Any: {},
}


def _of_typed_dict(of: Any, definitions: dict[str, Json]) -> Json:
    hints = typing.get_type_hints(of, include_extras=True)
    properties = {name: _of_hint(hint, definitions) for name, hint in hints.items()}
    out: Json = {"description": (of.__doc__ or "").strip(), "type": "object", "properties": properties}
    needed = [name for name in hints if name in of.__required_keys__]
    return {**out, "required": needed} if needed else out


def _of_hint(hint: Any, definitions: dict[str, Json]) -> Json:
    if hint in _PLAIN:
        return dict(_PLAIN[hint])
    if typing.is_typeddict(hint):
        return _reference_to(hint, definitions)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Required, typing.NotRequired):
        return _of_hint(arguments[0], definitions)
    if origin is typing.Annotated:
        return {"description": arguments[1], **_of_hint(arguments[0], definitions)}
    if origin is list:
        return {"type": "array", "items": _of_hint(arguments[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _of_hint(arguments[1], definitions)}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    assert origin in (types.UnionType, typing.Union), hint
    return {"anyOf": [_of_hint(each, definitions) for each in arguments]}


def write(path: Callable[[str], pathlib.Path] = lambda name: FOLDER / f"{name}.schema.json") -> None:
    """Write all schemas."""
    for name in SCHEMAS:
        path(name).write_text(text(name))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    write()
