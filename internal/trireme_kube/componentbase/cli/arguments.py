"""Flags of programs that parse with argparse, declared once as fields of frozen dataclasses.

    @dataclass(frozen=True, slots=True)
    class Flags:
        listen: Annotated[str, Argument("host:port or unix:/path (default %(default)s)")] = "127.0.0.1:0"

`add` adds the flags to a parser, `read` makes the typed value of what it parsed. Rules that concern flags are methods
of their class. The frontend parses as kube-scheduler does, with `flag_declarations`.
"""

import argparse
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class Argument(NamedTuple):
    """The note of a field that a flag sets. The flag has the field's name, with dashes, and its type."""

    help: str
    letter: str = ""
    metavar: str | None = None
    choices: Sequence[str] | None = None
    #: Makes the value of the text; raises ValueError with what is wrong.
    parse: Callable[[str], Any] | None = None
    #: Each use of the flag adds one to a tuple.
    repeated: bool = False
    #: A boolean without a value.
    switch: bool = False


def add(parser: argparse.ArgumentParser, options: type, default: str | None = None) -> None:
    """Add the flags of a class to a parser; `default` replaces those of the class."""
    for field, argument in _declared(options):
        letter = [f"-{argument.letter}"] if argument.letter else []
        parser.add_argument(
            *letter,
            f"--{field.name.replace('_', '-')}",
            default=field.default if default is None else default,
            help=argument.help,
            **_settings(argument, getattr(field.type, "__origin__", field.type)),
        )


def _settings(argument: Argument, kind: Any) -> dict[str, Any]:
    """The arguments of argparse that make it read a value of this type."""
    if argument.switch:
        return {"action": "store_true"}
    settings: dict[str, Any] = {"metavar": argument.metavar, "choices": argument.choices}
    if argument.repeated:
        settings["action"] = _Repeated
    if argument.parse is not None:
        settings["type"] = _with_error(argument.parse)
    elif kind is bool:
        settings |= {"type": _with_error(parse_bool), "nargs": "?", "const": True}
    elif kind in (int, float):
        settings["type"] = kind
    return settings


def read(options: type[T], values: argparse.Namespace) -> T:
    """The class filled from what a parser read."""
    return options(**{field.name: getattr(values, field.name) for field, _ in _declared(options)})


def description_of(docstring: str | None) -> str:
    """The description of a command: its module's docstring without the lines that name tests."""
    return (docstring or "").partition("\n\nTests: ")[0]


def parse_bool(text: str) -> bool:
    """Parse a boolean as Go's flag package does. Raises: ValueError."""
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise ValueError(f"{text!r} is neither true nor false")


class _Repeated(argparse.Action):
    """Adds each use of a flag to a tuple."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        setattr(namespace, self.dest, (*getattr(namespace, self.dest), values))


def _declared(options: type) -> Iterator[tuple["dataclasses.Field[Any]", Argument]]:
    """The fields of a class that flags set."""
    for field in dataclasses.fields(options):
        for note in getattr(field.type, "__metadata__", ()):
            if isinstance(note, Argument):
                yield field, note


def _with_error(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """The function, with errors whose text argparse shows."""

    def parse_argument(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parse_argument
