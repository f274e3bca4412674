# PYTHON_ARGCOMPLETE_OK
"""`trireme`: one command for each task; each is a module of this package.

Tests: tests/unit/cli/test_top.py.
"""

import argparse
import os
import sys
from collections.abc import Sequence

import argcomplete

from trireme.cli import (
    cluster_connection,
    completion_command,
    config_command,
    explain_command,
    plugin_command,
    record_command,
    replay_command,
    shadow_command,
    simulate_command,
    status_command,
    top_command,
    trace_command,
    up,
    version_command,
)

_COMMANDS = (
    up,
    status_command,
    top_command,
    explain_command,
    trace_command,
    simulate_command,
    record_command,
    replay_command,
    shadow_command,
    config_command,
    plugin_command,
    version_command,
    completion_command,
)
# The exit code that a shell reports for a program ended by a closed pipe: 128 and the number of SIGPIPE.
_PIPE_CLOSED = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Returns the exit code."""
    return _run("trireme", argv, in_cluster=False)


def main_under_kubectl(argv: Sequence[str] | None = None) -> int:
    """Run the command as `kubectl trireme`, against the cluster's frontend. Returns the exit code."""
    return _run("kubectl trireme", argv, in_cluster=True)


def _run(program: str, argv: Sequence[str] | None, *, in_cluster: bool) -> int:
    try:
        code = _run_command(program, argv, in_cluster=in_cluster)
        # The rest of the buffer meets the closed pipe here, where the error can be caught.
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe (`| head`). Python flushes again at exit: redirect that to nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    return code


def make_parser(program: str = "trireme") -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(prog=program, description="Run and inspect the Trireme scheduler.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add_parser(commands)
    return parser


def _run_command(program: str, argv: Sequence[str] | None, *, in_cluster: bool) -> int:
    """Parse the arguments and run the command; returns its exit code."""
    parser = make_parser(program)
    argcomplete.autocomplete(parser)
    options = parser.parse_args(argv)
    if in_cluster and hasattr(options, "cluster"):
        options.cluster = True
    with cluster_connection.connected(options):
        code: int = options.run(options)
    return code
