"""Holds a JSON body against the type that it claims to be, as decoding it into Go's types does for the real server.

A value of the wrong type is refused before any code sees it, so the code behind may rely on shapes. A field that the
type does not have is refused where the client asks for strict validation (`kubectl` does) and dropped otherwise; a null
is the same as nothing. The types come from the same table as the protobuf decoder's.
"""

from __future__ import annotations

import functools
from typing import Any

from trireme.embedded import problems, protobuf
from trireme.embedded.resources import Resource
from trireme.embedded.store import Object

_GO_TYPES = {"s": "string", "n": "int64", "b": "bool", "y": "[]uint8"}
_PYTHON_TYPES: dict[str, type] = {"s": str, "n": int, "b": bool, "y": str}
_ANYTHING = frozenset({"runtime.RawExtension", "meta.v1.FieldsV1"})
_TEXT = frozenset({"meta.v1.Time", "meta.v1.MicroTime", "meta.v1.Duration"})
_TEXT_OR_NUMBER = frozenset({"api.resource.Quantity", "util.intstr.IntOrString"})
_LIST_OF_TEXT = frozenset({"authentication.v1.ExtraValue", "authorization.v1.ExtraValue"})
_TYPE_META = frozenset({"kind", "apiVersion"})

_Fields = dict[str, tuple[str, str]]


@functools.cache
def _fields(message: str) -> _Fields:
    """Shape and code by JSON name, inlined messages included."""
    result: _Fields = {}
    for name, shape, code in protobuf.schema()[message].values():
        if shape == "inline":
            result.update(_fields(code))
        else:
            result[name] = (shape, code)
    return result


def _json_type(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


class _Check:
    """One walk through one body."""

    __slots__ = ("unknown",)

    def __init__(self) -> None:
        self.unknown: list[str] = []

    def _mismatch(self, value: object, path: str, wanted: str) -> problems.ApiError:
        return problems.bad_request(
            f"json: cannot unmarshal {_json_type(value)} into Go struct field {path} of type {wanted}"
        )

    def value(self, code: str, value: Any, path: str) -> Any:
        """A value of a scalar's code or a message's name, cleaned."""
        wanted = _PYTHON_TYPES.get(code)
        if wanted is not None:
            if type(value) is not wanted:
                raise self._mismatch(value, path, _GO_TYPES[code])
            return value
        if code in _ANYTHING:
            return value
        if code in _TEXT_OR_NUMBER:
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise self._mismatch(value, path, code.rpartition(".")[2])
            return value
        if code in _TEXT:
            if not isinstance(value, str):
                raise self._mismatch(value, path, code.rpartition(".")[2])
            return value
        if code in _LIST_OF_TEXT:
            return self._list("s", value, path)
        return self.message(code, value, path)

    def _list(self, code: str, value: Any, path: str) -> list[Any]:
        if not isinstance(value, list):
            raise self._mismatch(value, path, f"[]{_GO_TYPES.get(code, code)}")
        if code == "s":
            for item in value:
                if type(item) is not str:
                    raise self._mismatch(item, path, "string")
            return value
        return [self.value(code, item, f"{path}[{index}]") for index, item in enumerate(value)]

    def _map(self, code: str, value: Any, path: str) -> Object:
        if not isinstance(value, dict):
            raise self._mismatch(value, path, f"map[string]{_GO_TYPES.get(code, code)}")
        return {key: self.value(code, item, f"{path}.{key}") for key, item in value.items() if item is not None}

    def message(self, name: str, value: Any, path: str) -> Object:
        """An object of a message's type, cleaned."""
        if not isinstance(value, dict):
            raise self._mismatch(value, path, name)
        fields = _fields(name)
        result: Object = {}
        for key, item in value.items():
            field = fields.get(key)
            where = f"{path}.{key}" if path else key
            if field is None:
                if path or key not in _TYPE_META:
                    self._unknown(name, key, item, where, result)
                else:
                    result[key] = item
            elif item is not None:
                shape, code = field
                if shape == "repeated":
                    result[key] = self._list(code, item, where)
                elif shape == "map":
                    result[key] = self._map(code, item, where)
                else:
                    result[key] = self.value(code, item, where)
        return result

    def _unknown(self, message: str, key: str, item: Any, where: str, result: Object) -> None:
        # Templates of claims within a StatefulSet name their own kind.
        if key in _TYPE_META and "metadata" in _fields(message):
            result[key] = item
        else:
            self.unknown.append(where)


def conform(resource: Resource, body: Object, *, strict: bool) -> Object:
    """The body with nothing in it but what its type has.

    Raises: ApiError 400 for a value of the wrong type, and where `strict` for a field that the type does not have.
    """
    check = _Check()
    try:
        cleaned = check.message(protobuf.message_name(resource.api_version, resource.kind), body, "")
    except problems.ApiError as error:
        raise problems.bad_request(_handled(resource, error.message)) from error
    if strict and check.unknown:
        listed = ", ".join(f'unknown field "{path}"' for path in check.unknown)
        raise problems.bad_request(_handled(resource, f"strict decoding error: {listed}"))
    return cleaned


def _handled(resource: Resource, why: str) -> str:
    kind = resource.kind
    return f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {why}'
