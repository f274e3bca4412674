"""Settings and flags change something: the code reads each of them."""

import dataclasses
import pathlib
import re
import typing
from collections.abc import Iterator
from typing import Any

import pytest

from trireme.bind import flags as bind_flags
from trireme.config import command_flags, trireme_configuration
from trireme.insight import flags as insight_flags
from trireme.phases import process_flags
from trireme.shadow import flags as shadow_flags

_INTERNAL = pathlib.Path(__file__).parents[3] / "internal"

_DECLARATIONS = (
    trireme_configuration.TriremeConfiguration,
    command_flags.TriremeOptions,
    process_flags.ProcessFlags,
    bind_flags.BindFlags,
    insight_flags.InsightFlags,
    shadow_flags.Flags,
)


def _names(declared: Any) -> Iterator[str]:
    """The fields of a declaration, and of those within it."""
    if isinstance(declared, type) and dataclasses.is_dataclass(declared):
        yield from (field.name for field in dataclasses.fields(declared))
        inner: tuple[Any, ...] = tuple(typing.get_type_hints(declared).values())
    else:
        inner = typing.get_args(declared)
    for each in inner:
        yield from _names(each)


@pytest.fixture(scope="module")
def attributes() -> set[str]:
    """The names of all attributes that the code reads."""
    sources = (path for path in _INTERNAL.rglob("*.py") if "_pb2" not in path.name)
    return {name for path in sources for name in re.findall(r"\.(\w+)", path.read_text())}


@pytest.mark.parametrize("declared", _DECLARATIONS, ids=lambda declared: declared.__name__)
def test_each_setting_is_read(declared: Any, attributes: set[str]) -> None:
    """One that nothing reads is documented, decoded and checked, and changes nothing."""
    names = set(_names(declared))
    assert names
    assert names - attributes == set()
