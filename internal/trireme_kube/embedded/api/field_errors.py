"""Problems of single fields, in the API server's words (Source: k8s.io/apimachinery, pkg/util/validation/field).

Also change: internal/trireme_kube/apimachinery/field_errors.py (the texts of field errors).

Tests: tests/unit/embedded/validation/test_refusals.py, tests/unit/embedded/registry/test_resizes.py,
tests/unit/embedded/test_parts.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import orjson


@dataclass(frozen=True, slots=True)
class Cause:
    """The problem of one field, which becomes a cause of a `Status`."""

    kind: str
    """The machine-readable type: FieldValueRequired, FieldValueInvalid, FieldValueForbidden …"""
    field: str
    body: str
    """The text without the field's name, as Kubernetes words it."""

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


def required(field: str, detail: str = "") -> Cause:
    """A required field is missing."""
    return Cause("FieldValueRequired", field, f"Required value: {detail}" if detail else "Required value")


def invalid(field: str, value: object, detail: str) -> Cause:
    """A field's value is invalid."""
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, str):
        text = f'"{value}"'
    elif isinstance(value, dict | list):
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    else:
        text = "null" if value is None else str(value)
    return Cause("FieldValueInvalid", field, f"Invalid value: {text}: {detail}")


def unsupported(field: str, value: str, allowed: Sequence[str]) -> Cause:
    """A field's value is not one of the supported ones."""
    quoted = ", ".join(f'"{one}"' for one in allowed)
    return Cause("FieldValueNotSupported", field, f'Unsupported value: "{value}": supported values: {quoted}')


def duplicate(field: str, value: str) -> Cause:
    """A field's value is a duplicate."""
    return Cause("FieldValueDuplicate", field, f'Duplicate value: "{value}"')


def not_found(field: str, value: str) -> Cause:
    """A field refers to something that does not exist."""
    return Cause("FieldValueNotFound", field, f'Not found: "{value}"')


def forbidden(field: str, detail: str) -> Cause:
    """A field that may not be set or changed."""
    return Cause("FieldValueForbidden", field, f"Forbidden: {detail}")
