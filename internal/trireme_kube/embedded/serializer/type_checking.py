"""Checks a JSON body against its declared type, as decoding into Go's types does in the real server.

A value of the wrong type is rejected before any other code runs, so that code may rely on shapes. An unknown field is
rejected if the client requests strict validation (`kubectl` does) and dropped otherwise; null equals absent. The types
come from the same table as the protobuf decoder's.

Tests: tests/unit/embedded/serializer/test_bodies.py.
"""

import functools
import re
from typing import Any

from trireme_kube.embedded.api import api_errors, quantities
from trireme_kube.embedded.api.resources import Object, Resource
from trireme_kube.embedded.serializer import protobuf

_GO_TYPES = {"s": "string", "n": "int64", "b": "bool", "y": "[]uint8"}
_PYTHON_TYPES: dict[str, type] = {"s": str, "n": int, "b": bool, "y": str}
_ANYTHING = frozenset({"runtime.RawExtension", "meta.v1.FieldsV1", "apiextensions.v1.JSONSchemaProps"})
_TEXT = frozenset({"meta.v1.Time", "meta.v1.MicroTime", "meta.v1.Duration"})
_LIST_OF_TEXT = frozenset({"authentication.v1.ExtraValue", "authorization.v1.ExtraValue"})
_TYPE_META = frozenset({"kind", "apiVersion"})
_LAYOUTS = {"meta.v1.Time": "2006-01-02T15:04:05Z07:00", "meta.v1.MicroTime": "2006-01-02T15:04:05.000000Z07:00"}
_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")
_INDEX = re.compile(r"\[\d+\]")

_Fields = dict[str, tuple[str, str]]
_NO_VALUE: dict[str, Any] = {"s": "", "n": 0, "b": False, "y": None, "api.resource.Quantity": "0"}
_NO_VALUE |= {"util.intstr.IntOrString": 0, **dict.fromkeys(_ANYTHING | _TEXT | _LIST_OF_TEXT)}


@functools.cache
def _fields_by_name(message: str) -> _Fields:
    """Shape and code by JSON name, inlined messages included."""
    result: _Fields = {}
    for name, shape, code in protobuf.read_schema()[message].values():
        if shape == "inline":
            result.update(_fields_by_name(code))
        else:
            result[name] = (shape.removesuffix(" always"), code)
    return result


@functools.cache
def _fields_always_in_json(message: str) -> tuple[tuple[str, str], ...]:
    """Name and code of the fields that JSON has even when they are zero; the code of lists and maps is empty."""
    result: dict[str, str] = {}
    for name, shape, code in protobuf.read_schema()[message].values():
        if shape == "inline":
            result.update(_fields_always_in_json(code))
        elif shape.endswith("always"):
            result[name] = code if shape == "always" else ""
    return tuple(result.items())


def zero_message(message: str) -> Object:
    """The message with nothing set, as it looks in JSON."""
    return {name: _zero_value(code) for name, code in _fields_always_in_json(message)}


def _zero_value(code: str) -> Any:
    """The value that JSON shows for a field of this type that is not set; None for lists and maps."""
    if not code:
        return None
    return _NO_VALUE[code] if code in _NO_VALUE else zero_message(code)


def initial_status(resource: Resource) -> Object:
    """The status of an object about which nothing is known yet."""
    fields = _fields_by_name(protobuf.message_name(resource.api_version, resource.kind))
    return zero_message(fields["status"][1]) if "status" in fields else {}


def _go_type_name(code: str) -> str:
    """The name of the type in Go, for messages."""
    return _GO_TYPES.get(code) or ".".join(code.split(".")[-2:])


def _json_type_name(value: object) -> str:
    """The name of the type of a JSON value in Go, for messages."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


class _TypeCheck:
    """The check of one body."""

    __slots__ = ("unknown",)

    def __init__(self) -> None:
        self.unknown: list[str] = []

    @staticmethod
    def _mismatch_error(value: object, path: str, expected: str, owner: str) -> api_errors.ApiError:
        """Make the error of a value of the wrong type, in the words of the API server."""
        struct, place = owner.rpartition(".")[2], _INDEX.sub("", path)
        return api_errors.bad_request(
            f"json: cannot unmarshal {_json_type_name(value)} into Go struct field {struct}.{place} of type {expected}"
        )

    def check_value(self, code: str, value: Any, path: str, owner: str) -> Any:
        """Return a value of a scalar's code or a message's name, cleaned. Raises: ApiError 400 for another type."""
        expected = _PYTHON_TYPES.get(code)
        if expected is not None:
            if type(value) is not expected:
                raise self._mismatch_error(value, path, _GO_TYPES[code], owner)
            return value
        if code == "api.resource.Quantity":
            try:
                return quantities.canonical(value)
            except ValueError as error:
                raise api_errors.bad_request(str(error)) from error
        if code in _ANYTHING:
            return value
        if code == "util.intstr.IntOrString":
            if type(value) not in (str, int):
                raise self._mismatch_error(value, path, "int32", owner)
            return value
        if code in _TEXT:
            return self._check_text(code, value, path, owner)
        if code in _LIST_OF_TEXT:
            return self._check_list("s", value, path, owner)
        return self.check_object(code, value, path, owner)

    def _check_text(self, code: str, value: Any, path: str, owner: str) -> str:
        """Check a text; one that stands for a time must begin like one. Raises: ApiError 400."""
        if not isinstance(value, str):
            raise self._mismatch_error(value, path, code.rpartition(".")[2], owner)
        if code in _LAYOUTS and not _TIME.match(value):
            text = f'parsing time "{value}" as "{_LAYOUTS[code]}": cannot parse "{value}" as "2006"'
            raise api_errors.bad_request(text)
        return value

    def _check_list(self, code: str, value: Any, path: str, owner: str) -> list[Any]:
        """Check a list and its elements, and return it cleaned. Raises: ApiError 400."""
        if not isinstance(value, list):
            raise self._mismatch_error(value, path, f"[]{_go_type_name(code)}", owner)
        if code == "s":
            for item in value:
                if type(item) is not str:
                    raise self._mismatch_error(item, path, "string", owner)
            return value
        return [self.check_value(code, item, f"{path}[{index}]", owner) for index, item in enumerate(value)]

    def _check_map(self, code: str, value: Any, path: str, owner: str) -> Object:
        """Check a map and its values, and return it cleaned, without nulls. Raises: ApiError 400."""
        if not isinstance(value, dict):
            raise self._mismatch_error(value, path, f"map[string]{_go_type_name(code)}", owner)
        return {
            key: self.check_value(code, item, f"{path}.{key}", owner) for key, item in value.items() if item is not None
        }

    def check_object(self, name: str, value: Any, path: str, owner: str = "") -> Object:
        """Return an object of a message's type, cleaned and with the fields that JSON always has.

        Raises: ApiError 400 for a value of the wrong type. Unknown fields are left out and noted.
        """
        if not isinstance(value, dict):
            raise self._mismatch_error(value, path, _go_type_name(name), owner)
        fields = _fields_by_name(name)
        result: Object = {}
        for key, item in value.items():
            field = fields.get(key)
            where = f"{path}.{key}" if path else key
            if field is None:
                self._note_unknown_field(name, key, item, where, result)
            elif item is not None:
                shape, code = field
                if shape == "repeated":
                    result[key] = self._check_list(code, item, where, name)
                elif shape == "map":
                    result[key] = self._check_map(code, item, where, name)
                else:
                    result[key] = self.check_value(code, item, where, name)
        for key, code in _fields_always_in_json(name):
            if key not in result:
                result[key] = _zero_value(code)
        return result

    def _note_unknown_field(self, message: str, key: str, item: Any, where: str, result: Object) -> None:
        # Whole objects name their kind, also within others, as the claim templates of a StatefulSet do.
        if key in _TYPE_META and "metadata" in _fields_by_name(message):
            result[key] = item
        else:
            self.unknown.append(where)


def conform_to_type(resource: Resource, body: Object, *, strict: bool) -> Object:
    """The body with only the fields of its type; a custom resource has all its fields, and is never refused as strict.

    Raises: ApiError 400 for a value of the wrong type, and if `strict` for an unknown field.
    """
    check = _TypeCheck()
    try:
        if resource.custom:
            return _conform_custom_resource(check, body)
        cleaned = check.check_object(protobuf.message_name(resource.api_version, resource.kind), body, "")
    except api_errors.ApiError as error:
        raise api_errors.bad_request(_cannot_be_handled_text(resource, error.message)) from error
    if strict and check.unknown:
        text = ", ".join(f'unknown field "{path}"' for path in check.unknown)
        raise api_errors.bad_request(_cannot_be_handled_text(resource, f"strict decoding error: {text}"))
    return cleaned


def _conform_custom_resource(check: _TypeCheck, body: Object) -> Object:
    """A custom resource unchanged, except for its metadata."""
    metadata = check.check_object(
        "meta.v1.ObjectMeta", body.get("metadata") or {}, "metadata", "meta.v1.PartialObjectMetadata"
    )
    metadata = {key: value for key, value in metadata.items() if value is not None}
    return {**body, "metadata": metadata}


def _cannot_be_handled_text(resource: Resource, why: str) -> str:
    """The API server's message for a body that it cannot decode."""
    kind = resource.kind
    return f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {why}'
