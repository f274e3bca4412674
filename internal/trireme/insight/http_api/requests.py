"""Turns paths and queries into the requests of RPCs: `{name}` of a path and names of the query are fields.

A path consists of names of API objects only, so it has one spelling: nothing is decoded, and `..` or `%2f` fits no
route.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf import descriptor, message

from trireme.insight import path_names, request_errors
from trireme.insight.request_errors import BadRequest

FieldDescriptor = descriptor.FieldDescriptor

_TRUE, _FALSE = ("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False")
_INTEGERS = frozenset(
    {
        FieldDescriptor.TYPE_INT32,
        FieldDescriptor.TYPE_INT64,
        FieldDescriptor.TYPE_UINT32,
        FieldDescriptor.TYPE_UINT64,
        FieldDescriptor.TYPE_SINT32,
        FieldDescriptor.TYPE_SINT64,
    }
)


@dataclass(frozen=True, slots=True)
class PodPath:
    """The path of a page about a pod: `/v1/namespaces/{namespace}/pods/{name}/` and the page's name."""

    page: str

    def pod_of(self, path: str) -> tuple[str, str] | None:
        """Namespace and name in a path of this page, which may be no names; None: the path is of another one."""
        match path.split("/"):
            case ["", "v1", "namespaces", namespace, "pods", name, self.page]:
                return namespace, name
        return None

    def __str__(self) -> str:
        return f"/v1/namespaces/{{namespace}}/pods/{{name}}/{self.page}"


def check_names(namespace: str, name: str) -> None:
    """Check namespace and name of a pod. Raises: BadRequest."""
    if not path_names.is_namespace(namespace):
        raise BadRequest("the namespace in the path is no DNS label: name one as `kubectl get namespaces` does")
    if not path_names.is_name(name):
        raise BadRequest("the pod's name in the path is no DNS subdomain: name one as `kubectl get pods` does")


def fill_from_query(request: message.Message, query: Mapping[str, Sequence[str]]) -> None:
    """Set the request's fields by the query: by their names in JSON, lists with commas.

    Fields that are messages cannot be set. Raises: BadRequest.
    """
    known = {
        field.json_name: field
        for field in request.DESCRIPTOR.fields
        if field.message_type is None and (field.type in _PARSERS or field.type in _INTEGERS)
    }
    for name, values in query.items():
        field = known.get(name)
        if field is None:
            raise request_errors.unknown_name(known)
        parse = _PARSERS.get(field.type, int)
        try:
            if field.is_repeated:
                parts = [part for value in values for part in value.split(",") if part]
                getattr(request, field.name).extend(parse(part) for part in parts)
            elif len(values) > 1:
                raise request_errors.repeated(name)
            else:
                setattr(request, field.name, parse(values[0]))
        except BadRequest:
            raise
        except ValueError as error:
            raise request_errors.wrong_value(name, _KINDS.get(field.type, "number")) from error


def _parse_boolean(text: str) -> bool:
    """Parse a boolean as Go does. Raises: ValueError."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(text)


def _parse_text(text: str) -> str:
    """The text, if it is UTF-8 without control characters. Raises: ValueError."""
    if not text.isprintable():
        raise ValueError
    return text


_PARSERS: Mapping[int, Callable[[str], Any]] = {
    FieldDescriptor.TYPE_BOOL: _parse_boolean,
    FieldDescriptor.TYPE_STRING: _parse_text,
}
_KINDS = {FieldDescriptor.TYPE_BOOL: "boolean (true or false)", FieldDescriptor.TYPE_STRING: "printable text"}
