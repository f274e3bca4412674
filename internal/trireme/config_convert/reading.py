"""Reads an old object field by field.

Old formats were decoded leniently: case did not matter, and unknown fields were ignored. So a `Reader` finds a field in
any case and records which ones were read; fields that remain are no error, but the conversion notes them.

Tests: tests/unit/config_convert/test_policies.py.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from trireme.config.loading import parse
from trireme_kube.apimachinery import golang, json_document
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.apimachinery.field_errors import child, index


class ConversionError(ConfigurationError):
    """The old configuration cannot be read."""


@dataclass(frozen=True, slots=True)
class Note:
    """A setting without an equivalent, or with a changed effect."""

    #: The field, flag or plugin that it is about.
    about: str
    text: str

    def __str__(self) -> str:
        return f"{self.about}: {self.text}" if self.about else self.text


def read_document(data: bytes) -> dict[str, Any]:
    """An object from JSON or YAML.

    Raises:
        ConversionError: it is neither, or no object.
    """
    try:
        value = json_document.plain(parse(data).node)
    except ConfigurationError as error:
        raise ConversionError(str(error)) from error
    if not isinstance(value, dict):
        raise ConversionError("holds no object")
    return value


def _json_text(value: Any) -> str:
    """The value as JSON, for messages."""
    return golang.json_text(value)


@dataclass(slots=True)
class Reader:
    """Reads the fields of an object one at a time."""

    value: dict[str, Any]
    path: str = ""
    _remaining: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self._remaining = dict(self.value)

    def at(self, name: str) -> str:
        """The path of a field."""
        return child(self.path, name) if self.path else name

    def take(self, name: str) -> Any:
        """Read a field; `None` if it is missing."""
        if name not in self._remaining:
            name = next((other for other in self._remaining if other.lower() == name.lower()), name)
        return self._remaining.pop(name, None)

    def _take_of_type(self, name: str, kind: type, what: str) -> Any:
        """Read a field of this type; None if it is missing. Raises: ConversionError for another type."""
        value = self.take(name)
        if value is not None and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
            raise ConversionError(f"{self.at(name)}: must be {what}, not {_json_text(value)}")
        return value

    def text(self, name: str) -> str:
        """Read a field that is a string; empty where there is none."""
        return self._take_of_type(name, str, "a string") or ""

    def integer(self, name: str) -> int | None:
        """Read a field that is a whole number; None where there is none."""
        integer: int | None = self._take_of_type(name, int, "a whole number")
        return integer

    def boolean(self, name: str) -> bool:
        """Read a field that is a truth value; False where there is none."""
        return self._take_of_type(name, bool, "true or false") or False

    def reader(self, name: str) -> "Reader | None":
        """Read a field that is an object, as a reader of its fields; None where there is none."""
        value = self._take_of_type(name, dict, "an object")
        return None if value is None else Reader(value, self.at(name))

    def _take_list(self, name: str) -> list[Any] | None:
        """Read a list; None if it is missing."""
        entries: list[Any] | None = self._take_of_type(name, list, "a list")
        return entries

    def readers(self, name: str) -> "list[Reader] | None":
        """Read a field that is a list of objects, as readers of their fields; None where there is none."""
        values = self._take_list(name)
        if values is None:
            return None
        for position, value in enumerate(values):
            if not isinstance(value, dict):
                raise ConversionError(f"{index(self.at(name), position)}: must be an object, not {_json_text(value)}")
        return [Reader(value, index(self.at(name), position)) for position, value in enumerate(values)]

    def texts(self, name: str) -> list[str]:
        """Read a field that is a list of strings; empty where there is none."""
        values = self._take_list(name) or []
        for position, value in enumerate(values):
            if not isinstance(value, str):
                raise ConversionError(f"{index(self.at(name), position)}: must be a string, not {_json_text(value)}")
        return values

    def copy(self, names: Iterable[str], into: dict[str, Any]) -> None:
        """Copy fields that are unchanged in `v1`."""
        for name in names:
            value = self.take(name)
            if value is not None:
                into[name] = value

    def unknown(self) -> list[Note]:
        """Notes about the fields that were not read."""
        return [
            Note(self.at(name), "is not a field of any version; it was dropped")
            for name, value in self._remaining.items()
            if value is not None
        ]
