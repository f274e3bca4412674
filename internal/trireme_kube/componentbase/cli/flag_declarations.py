"""Flags that are declared once, as fields of frozen dataclasses; parsing, help and typed values follow from that.

    @dataclass(frozen=True, slots=True)
    class Serving:
        port: Annotated[int, Declared("secure-port", "Port that serves HTTPS; 0 turns it off.")] = 10259

A field of a class has the flag's name and help in its note, and its type and default as its own; rules that concern
flags are methods of their class. A class of classes, each noted as a `Group`, has the flags of all of them; the groups
are the sections of the help.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from trireme_kube.apimachinery.golang import Duration
from trireme_kube.apimachinery.quantity import Quantity
from trireme_kube.componentbase.cli import flag_values as kinds
from trireme_kube.componentbase.cli.flag_values import FlagType
from trireme_kube.componentbase.cli.flags import Flag, FlagSet, Parsed, Section

T = TypeVar("T")

_TYPES: Mapping[Any, FlagType] = {
    str: kinds.STRING,
    bool: kinds.BOOL,
    int: kinds.INT,
    float: kinds.FLOAT32,
    Duration: kinds.DURATION,
    Quantity: kinds.QUANTITY,
    tuple[str, ...]: kinds.STRINGS,
    tuple[int, ...]: kinds.INT32_LIST,
    tuple[kinds.NamedCertKey, ...]: kinds.NAMED_CERT_KEYS,
    tuple[kinds.VModule, ...]: kinds.VMODULE,
    Mapping[str, str] | None: kinds.STRING_MAP,
    Mapping[str, tuple[str, ...]]: kinds.COMPONENT_VALUES,
}
"""The type of a flag by its field's."""


class Declared(NamedTuple):
    """The note of a field that a flag sets."""

    name: str
    #: A function where the text is long to make.
    help: str | Callable[[], str]
    #: Where it does not follow from the field's type.
    type: FlagType | None = None
    letter: str = ""
    #: Trireme's own, unknown to kube-scheduler.
    own: bool = False
    #: The field of the configuration that the flag replaces where it is given: a path such as `client_connection.qps`.
    sets: str = ""


class Group(NamedTuple):
    """The note of a field whose class has flags: the section of the help."""

    section: str


def _noted(options: type, kind: type[T]) -> Iterator[tuple["dataclasses.Field[Any]", T]]:
    """The fields of a class with a note of this kind."""
    for each in dataclasses.fields(options):
        for note in getattr(each.type, "__metadata__", ()):
            if isinstance(note, kind):
                yield each, note


def _default_of(field: "dataclasses.Field[Any]") -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def flags_of(options: type) -> Iterator[Flag]:
    """The flags of one class, in its order."""
    for field, declared in _noted(options, Declared):
        text = declared.help if isinstance(declared.help, str) else declared.help()
        kind = declared.type or _TYPES[_type_of(field)]
        yield Flag(declared.name, kind, _default_of(field), text, declared.letter, declared.own)


def flag_set_of(options: type) -> FlagSet:
    """The flags of a class of groups, a section for each group."""
    return FlagSet(
        tuple(Section(group.section, tuple(flags_of(_type_of(field)))) for field, group in _noted(options, Group))
    )


def values_of(options: type[T], parsed: Parsed) -> T:
    """The class filled from a parsed command line."""
    values: dict[str, Any] = {field.name: parsed[declared.name] for field, declared in _noted(options, Declared)}
    groups: dict[str, Any] = {field.name: values_of(_type_of(field), parsed) for field, _ in _noted(options, Group)}
    return options(**values, **groups)


def with_given(configuration: T, options: type, parsed: Parsed) -> T:
    """The configuration with the flags of a class that were given, in the fields that they set."""
    for _, declared in _noted(options, Declared):
        if declared.sets and declared.name in parsed.given:
            configuration = _replace_at(configuration, declared.sets, parsed[declared.name])
    return configuration


def _type_of(field: "dataclasses.Field[Any]") -> Any:
    """The type of a field, without its notes."""
    return getattr(field.type, "__origin__", field.type)


def _replace_at(record: Any, path: str, value: Any) -> Any:
    name, _, rest = path.partition(".")
    return dataclasses.replace(record, **{name: _replace_at(getattr(record, name), rest, value) if rest else value})
