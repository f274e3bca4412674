"""docs/reference/flags.md, written from the declarations of flags: `make docs` runs this, and a test compares."""

import argparse
import pathlib
import re
from collections.abc import Iterable, Iterator

from trireme.bind.flags import BindFlags
from trireme.config import command_flags
from trireme.insight.flags import InsightFlags
from trireme.phases.process_flags import ProcessFlags
from trireme.shadow import flags as shadow_flags
from trireme_kube.componentbase.cli import arguments, log_flags
from trireme_kube.componentbase.cli.flags import Flag

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs/reference/flags.md"

_HEAD = """# Flags

<!-- Written by `make docs` from the declarations of flags in internal/trireme. -->

The flags of each process, as its `--help` shows them; those of `trireme` are in [command line](command-line.md).

## trireme-frontend

Names, types and defaults are kube-scheduler's, except in the section Trireme.
"""
_TABLE = "\n| flag | type | default | meaning |\n| --- | --- | --- | --- |\n"
_GATES = "Features to turn on or off: see [feature gates](../feature-gates.md)."

# The classes of flags by title.
_OTHERS: tuple[tuple[str, tuple[type, ...]], ...] = (
    ("trireme-filter, -score, -bind and -insight", (ProcessFlags, log_flags.LogFlags)),
    ("trireme-bind, in addition", (BindFlags,)),
    ("trireme-insight, in addition", (InsightFlags,)),
    ("trireme-shadow", (shadow_flags.ConnectionFlags, shadow_flags.Flags, log_flags.LogFlags)),
)
_DEFAULT = re.compile(r" \(default:? ([^()]+)\)")


def write() -> str:
    """The document's text."""
    sections = command_flags.flag_set().sections
    frontend = (f"\n### {section.title}\n{_TABLE}{''.join(map(_row, section.flags))}" for section in sections)
    others = (f"\n## {title}\n{_TABLE}{''.join(_rows(classes))}" for title, classes in _OTHERS)
    return "".join((_HEAD, *frontend, *others))


def _row(flag: Flag) -> str:
    names = f"`-{flag.letter}`, `--{flag.name}`" if flag.letter else f"`--{flag.name}`"
    default = "" if flag.default_text in flag.type.silent else flag.default_text
    return _line(names, flag.type.name, default, _GATES if flag.name == "feature-gates" else flag.help)


def _rows(classes: Iterable[type]) -> Iterator[str]:
    """The rows of flags that argparse parses, whose help names a default where it is not obvious."""
    parser = argparse.ArgumentParser(add_help=False)
    for each in classes:
        arguments.add(parser, each)
    for action in parser._actions:
        text = (action.help or "") % vars(action)
        named = _DEFAULT.search(text)
        default = named[1] if named else action.default
        kind = action.metavar or ", ".join(action.choices or ()) or getattr(action.type, "__name__", "string")
        yield _line(
            ", ".join(f"`{name}`" for name in action.option_strings),
            "switch" if action.nargs == 0 else str(kind),
            str(default) if default else "",
            _DEFAULT.sub("", text),
        )


def _line(names: str, kind: str, default: str, text: str) -> str:
    cells = (names, kind, f"`{default}`" if default else "", " ".join(text.split()))
    return "| " + " | ".join(cell.replace("|", "\\|").replace("<", "&lt;") for cell in cells) + " |\n"


if __name__ == "__main__":
    DOCUMENT.write_text(write())
