"""`trireme shadow`: runs beside any scheduler, and reports how Trireme would have decided. It only reads.

Tests: tests/unit/cli/test_plugin_command.py, tests/unit/cli/test_flags_before_subcommands.py.
"""

# Also change: docs/shadow.md.

import argparse

from trireme.shadow import flags
from trireme_kube.componentbase.cli import arguments

_CHECK = """Reads the cluster's kube-scheduler as far as it is visible (its static pod, its ConfigMap), or a given
file, and says what carries over to Trireme, what differs, and which step comes next."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `trireme shadow` and `trireme shadow check` to the commands."""
    parser = commands.add_parser(
        "shadow",
        help="compare Trireme with the cluster's scheduler, only reading",
        description=arguments.description_of(__doc__),
    )
    arguments.add(parser, flags.ConnectionFlags)
    arguments.add(parser, flags.Flags)
    parser.set_defaults(run=run)
    actions = parser.add_subparsers(metavar="[check]")
    check = actions.add_parser("check", help="what carries over from the cluster's kube-scheduler", description=_CHECK)
    # What is given before `check` counts as well, so there is no default to overwrite it.
    arguments.add(check, flags.ConnectionFlags, default=argparse.SUPPRESS)
    check.add_argument(
        "--kube-scheduler-config", default="", metavar="FILE", help="a KubeSchedulerConfiguration to judge instead"
    )
    check.add_argument(
        "--kube-scheduler-flags",
        action="append",
        default=[],
        metavar="FLAG",
        help="with the file: a flag of that kube-scheduler, as `--kube-scheduler-flags=--feature-gates=A=true`",
    )
    check.set_defaults(run=run_check)


def run(options: argparse.Namespace) -> int:
    """Run shadow. Returns the exit code."""
    # The scheduler, which no other command loads.
    from trireme.shadow import process

    return process.run(options)


def run_check(options: argparse.Namespace) -> int:
    """Print the migration check. Returns the exit code."""
    from trireme.shadow import process

    return process.run_check(options)
