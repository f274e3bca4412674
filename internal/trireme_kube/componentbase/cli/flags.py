"""Command lines in the style of Kubernetes' programs: named sections of long flags, some with a letter.

The standard library's argparse differs in what an operator sees: abbreviations, `--flag=` and `--flag ""`, `_` for `-`,
repeated flags, every message. So this is a small parser of that style: `FlagSet` describes, `parse` reads.

Source: github.com/spf13/pflag, k8s.io/component-base/cli/flag.

Tests: tests/unit/componentbase/cli/test_flag_declarations.py, tests/unit/config/test_command_flags.py.
"""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trireme_kube.apimachinery.golang import quote, quote_rune
from trireme_kube.componentbase.cli.flag_values import FlagType


class FlagError(ValueError):
    """The command line cannot be read."""


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag."""

    name: str
    type: FlagType
    default: Any
    help: str
    letter: str = ""
    #: Trireme's own, unknown to kube-scheduler.
    own: bool = False

    @property
    def default_text(self) -> str:
        """The default as text."""
        return self.type.show(self.default)

    @property
    def _flag_label(self) -> str:
        """The flag as messages name it: `-v, --verbosity`."""
        return f"-{self.letter}, --{self.name}" if self.letter else f"--{self.name}"

    def parse(self, text: str, before: Any, given: bool) -> Any:
        """The value after one more use of the flag. Raises: FlagError: the text is invalid."""
        try:
            return self.type.parse(text, before, given)
        except ValueError as error:
            raise FlagError(f"invalid argument {quote(text)} for {quote(self._flag_label)} flag: {error}") from error


@dataclass(frozen=True, slots=True)
class Section:
    """Flags that help shows together."""

    name: str
    flags: tuple[Flag, ...]

    @property
    def title(self) -> str:
        """The name as help shows it."""
        return self.name[:1].upper() + self.name[1:]


@dataclass(frozen=True, slots=True)
class FlagSet:
    """All flags of a program."""

    sections: tuple[Section, ...]

    def flags(self) -> Iterable[Flag]:
        """Every flag, section by section."""
        for section in self.sections:
            yield from section.flags


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed command line."""

    values: Mapping[str, Any]
    given: frozenset[str]
    positional: tuple[str, ...] = ()
    #: Every use of a flag, as name and text.
    uses: tuple[tuple[str, str], ...] = ()

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


def normalize(name: str) -> str:
    """A flag's name with dashes for underscores."""
    return name.replace("_", "-")


@dataclass(slots=True)
class _CommandLineReader:
    """Reads a command line as pflag does: flags and arguments may mix, up to `--`."""

    flags: Mapping[str, Flag]
    letters: Mapping[str, Flag]
    rest: list[str]
    values: dict[str, Any]
    given: set[str] = field(default_factory=set)
    positional: list[str] = field(default_factory=list)
    uses: list[tuple[str, str]] = field(default_factory=list)

    def read(self) -> None:
        """Read the whole command line. Raises: FlagError."""
        while self.rest:
            argument = self.rest.pop(0)
            if len(argument) < 2 or not argument.startswith("-"):
                self.positional.append(argument)
            elif argument == "--":
                self.positional.extend(self.rest)
                return
            elif argument.startswith("--"):
                self._read_long_flag(argument)
            else:
                self._read_short_flags(argument[1:])

    def _set_flag(self, flag: Flag, text: str) -> None:
        """Set a flag from text, and note that it was given. Raises: FlagError."""
        self.values[flag.name] = flag.parse(text, self.values[flag.name], flag.name in self.given)
        self.given.add(flag.name)
        self.uses.append((flag.name, text))

    def _read_long_flag(self, argument: str) -> None:
        """Read `--name=value` or `--name value`; a flag with a bare value never takes the next argument."""
        text = argument[2:]
        if text[0] in "-=":
            raise FlagError(f"bad flag syntax: {argument}")
        name, equals, value = text.partition("=")
        flag = self.flags.get(normalize(name))
        if flag is None:
            raise FlagError(f"unknown flag: --{name}")
        if not equals:
            if flag.type.bare:
                value = flag.type.bare
            elif self.rest:
                value = self.rest.pop(0)
            else:
                raise FlagError(f"flag needs an argument: --{name}")
        self._set_flag(flag, value)

    def _read_short_flags(self, letters: str) -> None:
        """Read the flags after a single dash: `-v2`, `-v=2`, `-v 2`. Raises: FlagError with pflag's message."""
        while letters:
            letter = letters[0]
            flag = self.letters.get(letter)
            if flag is None:
                shown = letters[0].encode("utf-8", "surrogateescape")[:1].decode("latin-1")
                raise FlagError(f"unknown shorthand flag: {quote_rune(shown)} in -{letters}")
            following = letters[1:]
            if len(following) > 1 and following[0] == "=":
                value, following = following[1:], ""
            elif flag.type.bare:
                value = flag.type.bare
            elif following:
                value, following = following, ""
            elif self.rest:
                value = self.rest.pop(0)
            else:
                raise FlagError(f"flag needs an argument: {quote_rune(letter)} in -{letters}")
            self._set_flag(flag, value)
            letters = following


def parse(flag_set: FlagSet, arguments: Sequence[str]) -> Parsed:
    """Parses a command line.

    Raises:
        FlagError: it cannot be read.
    """
    flags = {flag.name: flag for flag in flag_set.flags()}
    reader = _CommandLineReader(
        flags=flags,
        letters={flag.letter: flag for flag in flags.values() if flag.letter},
        rest=list(arguments),
        values={name: flag.default for name, flag in flags.items()},
    )
    reader.read()
    return Parsed(reader.values, frozenset(reader.given), tuple(reader.positional), tuple(reader.uses))


# Help.

# The width of the text beside the flags; if there is less room, it goes below them.
_LEAST_COLUMNS = 24
_INDENT_BELOW = 16


def _help_flag_column(flag: Flag) -> str:
    """Return a flag's left column in the help: letter, name and type."""
    text = f"  -{flag.letter}, --{flag.name}" if flag.letter else f"      --{flag.name}"
    if flag.type.name != "bool":
        text += f" {flag.type.name}"
        if flag.type.bare:
            text += f"[={flag.type.bare}]"
    return text


def _help_text_column(flag: Flag) -> str:
    """Return a flag's right column in the help: its text, and its default if it has one worth showing."""
    if flag.default_text in flag.type.silent:
        return flag.help
    shown = quote(flag.default_text) if flag.type.name == "string" else flag.default_text
    return f"{flag.help} (default {shown})"


def section_help(section: Section, columns: int = 0) -> str:
    """The help of one section; wrapped where the terminal's width is known."""
    rows = [
        (_help_flag_column(flag), _help_text_column(flag)) for flag in sorted(section.flags, key=lambda flag: flag.name)
    ]
    width = max(len(left) for left, _ in rows) + 3
    out = [f"\n{section.title} flags:\n", *(_help_row(left, right, width, columns) for left, right in rows)]
    return "\n".join(out) + "\n"


def _help_row(left: str, right: str, width: int, columns: int) -> str:
    """One flag, its text from column `width` on; below it if that leaves too little room, as in pflag."""
    longest = max(map(len, right.split()), default=0)
    below = 0 < columns - width < max(_LEAST_COLUMNS, longest) or 0 < columns <= width
    indent = _INDENT_BELOW if below else width
    margin = "\n" + " " * indent
    lines = "\n".join(wrapped(line, columns - indent) for line in right.split("\n")).replace("\n", margin)
    return (left + margin if below else left.ljust(width)) + lines


def wrapped(text: str, columns: int) -> str:
    """Wrap one paragraph to so many columns, more for a longer word; unchanged without columns."""
    if columns <= 0:
        return text
    return "\n".join(textwrap.wrap(text, columns, break_long_words=False, break_on_hyphens=False))


def usage(program: str, flag_set: FlagSet, columns: int = 0) -> str:
    """How to call a program, and its flags section by section."""
    sections = "".join(section_help(section, columns) for section in flag_set.sections if section.flags)
    return f"Usage:\n  {program} [flags]\n{sections}"


def dump(flag_set: FlagSet, parsed: Parsed) -> list[str]:
    """Return a line for each flag with its value, as the log shows them; Trireme's own only where they were given."""
    return [
        f"FLAG: --{flag.name}={quote(flag.type.show(parsed[flag.name]))}"
        for flag in sorted(flag_set.flags(), key=lambda flag: flag.name)
        if not flag.own or flag.name in parsed.given
    ]
