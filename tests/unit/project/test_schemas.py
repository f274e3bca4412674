"""The published JSON schemas are those of the code, are schemas, and each command with `-o json` has one."""

import argparse
import json
from collections.abc import Iterator

import jsonschema
import pytest

from tests.helpers import schemas_document
from trireme.cli import main

# What the store of traces answers: OTLP's JSON, which is not ours.
_FOREIGN = {"trace"}


def _commands(parser: argparse.ArgumentParser, path: str = "") -> Iterator[str]:
    """The commands that print JSON."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, each in action.choices.items():
                yield from _commands(each, f"{path} {name}".strip())
        elif action.dest == "output" and "json" in (action.choices or ()):
            yield path


@pytest.mark.parametrize("name", list(schemas_document.SCHEMAS))
def test_the_file_is_what_the_code_says(name: str) -> None:
    assert (schemas_document.FOLDER / f"{name}.schema.json").read_text() == schemas_document.text(name), "make docs"


def test_there_is_no_other_file() -> None:
    found = {path.name for path in schemas_document.FOLDER.iterdir()}
    assert found == {f"{name}.schema.json" for name in schemas_document.SCHEMAS}


@pytest.mark.parametrize("name", list(schemas_document.SCHEMAS))
def test_it_is_a_schema_that_refuses_something(name: str) -> None:
    schema = json.loads((schemas_document.FOLDER / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    assert not jsonschema.Draft202012Validator(schema).is_valid([])


def test_each_command_that_prints_json_has_a_schema() -> None:
    """If this fails, a program has to guess what a new command prints."""
    described = "\n".join(each.about for each in schemas_document.SCHEMAS.values())
    commands = set(_commands(main.make_parser())) - _FOREIGN
    assert {"status", "explain", "record check", "replay", "plugin verify"} <= commands
    assert {command for command in commands if f"`trireme {command}`" not in described} == set()
