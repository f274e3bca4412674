"""API types that are declared once, as frozen dataclasses.

A field of such a type holds all that is known about it: its type, its default, its help, its rules, and how it is
written where that does not follow from its Python name and type.

    @dataclass(frozen=True, slots=True)
    class Batch:
        max_pods: Annotated[int, "Most pods in a batch.", AtLeast(1, "must be positive")] = 100

What is needed of a type follows from its fields: the schema for strict decoding and encoding (`schema_of`), its
defaults (`read`, `set_defaults`), its problems (`problems_of`), its document (`write`), and documentation (`members`).
A field without `Annotated` is not in the file. A rule that concerns several fields is the method `problems` of their
class, which gets the path of the instance.
"""

import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, NamedTuple

from trireme_kube.apimachinery import golang, schema
from trireme_kube.apimachinery.field_errors import Problem, child, index, invalid, not_supported, required

#: What is wrong with a field's value: (path, value) -> problems.
Rule = Callable[[str, Any], Iterable[Problem]]

_SCALARS: Mapping[type, schema.Scalar] = {
    str: schema.STRING,
    bool: schema.BOOL,
    int: schema.INT32,
    float: schema.FLOAT32,
    bytes: schema.BYTES,
    golang.Duration: schema.DURATION,
}


class Written(NamedTuple):
    """How a field is written: what differs from its Python name, its Python type, and from `omitempty`."""

    name: str = ""
    type: schema.Type | None = None
    omitempty: bool = True
    embedded_in: str = ""
    #: From the decoded value to the field's, and back, for types whose form differs from that of the file.
    read: Callable[[Any], Any] | None = None
    write: Callable[[Any], Any] | None = None


class Change(enum.Enum):
    """When a change of a field in the file of a running process takes effect."""

    #: Only a restart changes it.
    AT_RESTART = "at restart"


class AtLeast(NamedTuple):
    """The lowest value of a number or duration."""

    lowest: Any
    text: str

    def __call__(self, path: str, value: Any) -> list[Problem]:
        """The problem of a lower value."""
        return [invalid(path, value, self.text)] if value < self.lowest else []


class AtMost(NamedTuple):
    """The highest value of a number or duration."""

    highest: Any
    text: str

    def __call__(self, path: str, value: Any) -> list[Problem]:
        """The problem of a higher value."""
        return [invalid(path, value, self.text)] if value > self.highest else []


class OneOf(NamedTuple):
    """The possible values of a string, or of the strings of a list; `or_empty`: it may be empty as well."""

    choices: tuple[str, ...]
    or_empty: bool = False

    def __call__(self, path: str, value: Any) -> list[Problem]:
        """A problem for each other value."""
        if self.or_empty and not value:
            return []
        named = (
            [(path, value)] if isinstance(value, str) else [(index(path, at), each) for at, each in enumerate(value)]
        )
        return [not_supported(where, str(each), self.choices) for where, each in named if each not in self.choices]


class NotEmpty(NamedTuple):
    """A value that must be there."""

    text: str = ""

    def __call__(self, path: str, value: Any) -> list[Problem]:
        """The problem of an empty value."""
        return [] if value else [required(path, self.text)]


class InContext(NamedTuple):
    """A rule that depends on what `problems_of` gets as its context, such as feature gates."""

    rule: Callable[[str, Any, Any], Iterable[Problem]]


class Member(NamedTuple):
    """A declared field."""

    attribute: str
    #: Its name in the file, and its type there.
    name: str
    api_type: schema.Type
    #: Its type in Python; of a list that of the elements. `many`: it is a list.
    of: Any
    many: bool
    default: Any
    help: str
    rules: tuple[Rule | InContext, ...]
    written: Written
    change: Change | None

    @property
    def is_required(self) -> bool:
        """Whether it has no default."""
        return self.default is dataclasses.MISSING

    @property
    def nested(self) -> type[Any] | None:
        """The declared type of its value, or of its elements."""
        declared: type[Any] = self.of
        return declared if dataclasses.is_dataclass(declared) and members(declared) else None

    def choices(self) -> tuple[str, ...]:
        """The values that it may have, if they are few."""
        return next((rule.choices for rule in self.rules if isinstance(rule, OneOf)), ())


_MEMBERS: dict[type[Any], tuple[Member, ...]] = {}


def members(of: type[Any]) -> tuple[Member, ...]:
    """The declared fields of a type, in order."""
    if of not in _MEMBERS:
        fields = (field for field in dataclasses.fields(of) if typing.get_origin(field.type) is Annotated)
        _MEMBERS[of] = tuple(map(_member, fields))
    return _MEMBERS[of]


def _member(field: dataclasses.Field[Any]) -> Member:
    """Read the declaration of a field."""
    declared, *notes = typing.get_args(field.type)
    optional = isinstance(declared, types.UnionType)
    if optional:
        declared = next(each for each in typing.get_args(declared) if each is not types.NoneType)
    many = typing.get_origin(declared) is tuple
    if many:
        declared = typing.get_args(declared)[0]
    written = next((note for note in notes if isinstance(note, Written)), Written())
    default = field.default
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    return Member(
        attribute=field.name,
        name=written.name or _camel_case(field.name),
        api_type=written.type or _type_of(declared, many=many, optional=optional),
        of=declared,
        many=many,
        default=default,
        help=" ".join(note for note in notes if isinstance(note, str)),
        rules=tuple(note for note in notes if callable(note) or isinstance(note, InContext)),
        written=written,
        change=next((note for note in notes if isinstance(note, Change)), None),
    )


def _camel_case(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)


def _type_of(declared: type[Any], *, many: bool, optional: bool) -> schema.Type:
    """The type in the file that follows from a Python type."""
    found: schema.Type
    if dataclasses.is_dataclass(declared) and declared not in _SCALARS:
        found = schema_of(declared, optional=optional and not many)
    elif issubclass(declared, enum.Enum):
        found = schema.STRING
    else:
        found = _SCALARS[declared]
        if optional and not many:
            found = dataclasses.replace(found, optional=True)
    return schema.Many(found) if many else found


def schema_of(of: type[Any], *, is_object: bool = False, optional: bool = False) -> schema.Struct:
    """The schema of a type. `is_object`: it begins with kind and version.

    Messages name it by its `GO_TYPE`, where it has one (`v1.Extender`), or else by its own name.
    """
    package, _, name = getattr(of, "GO_TYPE", f"v1.{of.__name__}").partition(".")
    fields = [
        schema.Field(
            member.name, member.api_type, omitempty=member.written.omitempty, embedded_in=member.written.embedded_in
        )
        for member in members(of)
    ]
    return schema.struct(package, name, *(schema.TYPE_META if is_object else ()), *fields, optional=optional)


# Values.


def read(of: type[Any], value: Mapping[str, Any], default: Any = None) -> Any:
    """Make an instance of a decoded value; what is missing is as in `default`, or has its declared default."""
    return of(**{member.attribute: _read_member(member, value, default) for member in members(of)})


def _read_member(member: Member, value: Mapping[str, Any], default: Any) -> Any:
    """The value of one field; without value or default it is empty."""
    before = member.default if default is None else getattr(default, member.attribute)
    if member.name not in value:
        if before is not dataclasses.MISSING:
            return before
        return () if member.many else member.of()
    found = value[member.name]
    if found is None:
        return None
    if member.written.read is not None:
        return member.written.read(found)
    if member.many:
        return tuple(_read_value(member, each, None) for each in found)
    return _read_value(member, found, None if before is dataclasses.MISSING else before)


def _read_value(member: Member, value: Any, default: Any) -> Any:
    """One value of the field's type. A name that an enumeration lacks stays as it is, for the rules to refuse."""
    if member.nested is not None:
        return read(member.nested, value, default)
    if issubclass(member.of, enum.Enum):
        return member.of(value) if value in tuple(member.of) else value
    return value


def write(instance: Any) -> dict[str, Any]:
    """An instance as the value that its schema encodes."""
    return {
        member.name: _write_member(member, getattr(instance, member.attribute)) for member in members(type(instance))
    }


def _write_member(member: Member, value: Any) -> Any:
    """The value of one field, to be encoded."""
    if member.written.write is not None:
        return member.written.write(value)
    if value is None or member.nested is None:
        return value
    return [write(each) for each in value] if member.many else write(value)


def set_defaults(of: type[Any], value: dict[str, Any]) -> None:
    """Fill in the defaults of a decoded value, in place, those of the structs in it included.

    As in Go, a field whose type has no "unset" has its default in place of its zero value too.
    """
    for member in members(of):
        if isinstance(member.api_type, schema.Struct) and member.nested is not None and not member.api_type.optional:
            set_defaults(member.nested, value.setdefault(member.name, {}))
        elif isinstance(member.api_type, schema.Scalar) and not member.is_required and member.default is not None:
            unset = None if member.api_type.optional else type(member.default)()
            if value.get(member.name) in (None, unset) and member.default != unset:
                value[member.name] = member.default


def problems_of(instance: Any, path: str = "", context: Any = None) -> list[Problem]:
    """What is wrong with an instance: its fields in the order of their declaration, then their combinations.

    Fields that the class names as `CHECKED_FIRST` come first, in that order.
    """
    problems: list[Problem] = []
    for member in _checked_members(type(instance)):
        value, where = getattr(instance, member.attribute), child(path, member.name)
        for rule in member.rules:
            problems.extend(rule.rule(where, value, context) if isinstance(rule, InContext) else rule(where, value))
        if member.nested is not None and value is not None:
            named = [(index(where, at), each) for at, each in enumerate(value)] if member.many else [(where, value)]
            for place, each in named:
                problems.extend(problems_of(each, place, context))
    combined = getattr(instance, "problems", None)
    return problems if combined is None else problems + list(combined(path))


def _checked_members(of: type[Any]) -> Iterable[Member]:
    first: tuple[str, ...] = getattr(of, "CHECKED_FIRST", ())
    return sorted(members(of), key=lambda member: (*first, member.attribute).index(member.attribute))


def changes_at_restart(before: Any, after: Any, path: str = "") -> list[str]:
    """The paths of fields that differ, though only a restart changes them."""
    paths: list[str] = []
    for member in members(type(before)):
        old, new = getattr(before, member.attribute), getattr(after, member.attribute)
        where = child(path, member.name)
        if member.change is Change.AT_RESTART:
            paths += [where] * (old != new)
        elif member.nested is not None and not member.many:
            paths += changes_at_restart(old, new, where)
    return paths
