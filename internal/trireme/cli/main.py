"""`trireme`: one command a task; each is a module of this package."""

import argparse
from collections.abc import Sequence

from trireme.cli import config_command, explain_command, status_command, up


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="trireme", description="The Trireme scheduler, for people.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in (up, status_command, explain_command, config_command):
        command.add_parser(commands)
    options = parser.parse_args(argv)
    code: int = options.run(options)
    return code
