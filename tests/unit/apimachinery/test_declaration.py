"""API types that are declared once: what follows from the fields of a dataclass."""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from trireme_kube.apimachinery import declaration, schema
from trireme_kube.apimachinery.declaration import AtLeast, AtMost, Change, InContext, NotEmpty, OneOf, Written
from trireme_kube.apimachinery.field_errors import Problem, child, invalid
from trireme_kube.apimachinery.golang import Duration


class Colour(enum.StrEnum):
    """The colours of a part."""

    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a thing."""

    GO_TYPE: ClassVar = "v2.PartType"

    name: Annotated[str, "Its name.", NotEmpty(), Written(omitempty=False)]
    colours: Annotated[tuple[Colour, ...], "Its colours.", OneOf(("red",))] = ()
    size: Annotated[int, "Its size,", "in metres.", AtLeast(1, "too small"), AtMost(9, "too large")] = 3


def _even_where_asked(path: str, value: int, even: Any) -> list[Problem]:
    return [invalid(path, value, "odd")] if even and value % 2 else []


@dataclass(frozen=True, slots=True)
class Thing:
    """A thing."""

    CHECKED_FIRST: ClassVar = ("wait_for",)

    part: Annotated[Part, "Its part."] = Part("default", size=5)
    spare_parts: Annotated[tuple[Part, ...], "More parts.", Change.AT_RESTART] = ()
    wait_for: Annotated[Duration, "How long it waits.", AtLeast(Duration(1), "too short")] = Duration(7)
    count: Annotated[int, "How many.", Written(type=schema.OPTIONAL_INT64), InContext(_even_where_asked)] = 2
    other: Annotated[Part | None, "Another part.", Change.AT_RESTART] = None
    computed: int = 0

    def problems(self, path: str) -> Iterable[Problem]:
        """More things than parts have room for."""
        return [invalid(child(path, "count"), self.count, "too many")] if self.count > self.part.size else []


def test_the_schema_has_the_fields_by_their_names_in_the_file() -> None:
    found = declaration.schema_of(Thing, is_object=True)
    assert list(found.fields) == ["kind", "apiVersion", "part", "spareParts", "waitFor", "count", "other"]
    assert found.fields["spareParts"].type.type_name == "[]v2.PartType"
    assert found.fields["other"].type == declaration.schema_of(Part, optional=True)
    assert found.fields["count"].type is schema.OPTIONAL_INT64
    name = declaration.schema_of(Part).fields["name"]
    assert (name.type, name.omitempty) == (schema.STRING, False)


def test_what_is_missing_has_its_default() -> None:
    """A nested object has the default of the object that contains it, an element of a list that of its type."""
    assert declaration.read(Thing, {}) == Thing()
    found = declaration.read(Thing, {"part": {"name": "p"}, "spareParts": [{"colours": ["red"]}], "count": 0})
    assert found.part == Part("p", size=5)
    assert found.spare_parts == (Part("", (Colour.RED,), 3),)
    assert found.count == 0


def test_an_instance_is_written_as_it_is_read() -> None:
    thing = Thing(part=Part("p", (Colour.BLUE,)), spare_parts=(Part("q"),), other=Part("o"))
    assert declaration.read(Thing, declaration.write(thing)) == thing


def test_defaults_replace_zero_where_go_has_no_unset() -> None:
    value: dict[str, Any] = {"part": {"size": 0}, "count": 0, "waitFor": Duration()}
    declaration.set_defaults(Thing, value)
    assert value == {"part": {"size": 3}, "count": 0, "waitFor": Duration(7)}


def test_problems_are_in_the_order_of_the_fields_then_those_of_combinations() -> None:
    thing = Thing(
        part=Part("", size=0), spare_parts=(Part("s", (Colour.RED, Colour.BLUE), 10),), wait_for=Duration(), count=5
    )
    assert declaration.problems_of(thing, context=True) == [
        'waitFor: Invalid value: "0s": too short',
        "part.name: Required value",
        "part.size: Invalid value: 0: too small",
        'spareParts[0].colours[1]: Unsupported value: "blue": supported values: "red"',
        "spareParts[0].size: Invalid value: 10: too large",
        "count: Invalid value: 5: odd",
        "count: Invalid value: 5: too many",
    ]


def test_a_name_that_an_enumeration_lacks_is_a_problem_and_no_exception() -> None:
    part = declaration.read(Part, {"name": "p", "colours": ["green"]})
    assert declaration.problems_of(part) == [
        'colours[0]: Unsupported value: "green": supported values: "red"',
    ]


def test_only_changes_that_take_a_restart_are_named() -> None:
    new = Thing(part=Part("p"), spare_parts=(Part("s"),), other=Part("o"))
    assert declaration.changes_at_restart(Thing(), new) == ["spareParts", "other"]
    assert declaration.changes_at_restart(new, new) == []


def test_the_help_of_a_field_is_all_of_its_texts() -> None:
    assert declaration.members(Part)[2].help == "Its size, in metres."
