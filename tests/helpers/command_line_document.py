"""docs/reference/command-line.md, written from the parsers of `trireme`: `make docs` runs this, and a test compares."""

import argparse
import os
import pathlib
import re
from collections.abc import Iterator
from unittest import mock

from trireme.cli import main

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs/reference/command-line.md"

_HEAD = """# Command line

<!-- Written by `make docs` from the parsers in internal/trireme/cli. -->

`trireme COMMAND --help` shows the same. The programs of the services are in [flags](flags.md).
"""
# Help names paths that depend on the user.
_ENVIRONMENT = {
    "COLUMNS": "100",
    "XDG_STATE_HOME": "~/.local/state",
    "TRIREME_SOCKET": "",
    "XDG_RUNTIME_DIR": "/run/user/1000",
}


def write() -> str:
    """The document's text."""
    with mock.patch.dict(os.environ, _ENVIRONMENT):
        return "".join((_HEAD, *_sections(main.make_parser())))


def _sections(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The section of each command below this parser."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield f"\n## {command.prog}\n\n```text\n{_help(command)}```\n"
                yield from _sections(command)


def _help(command: argparse.ArgumentParser) -> str:
    return re.sub(r"[ \t]+$", "", command.format_help(), flags=re.MULTILINE)


if __name__ == "__main__":
    DOCUMENT.write_text(write())
