"""`trireme replay`: decides the decisions of a recording again, and says which are others now.

It reads a file that `trireme record export` has written, or one recording of insight, and reaches no scheduler.
"""

import argparse
import pathlib


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `trireme replay` to the commands."""
    parser = commands.add_parser("replay", help="decide a recording's decisions again", description=__doc__)
    parser.add_argument("file", type=pathlib.Path, metavar="FILE", help="a file of `trireme record export`")
    parser.add_argument(
        "--config",
        type=pathlib.Path,
        metavar="FILE",
        help="decide with the profiles of this KubeSchedulerConfiguration, and show all decisions that it would change",
    )
    parser.add_argument("--all", action="store_true", help="go on after the first difference")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="default %(default)s")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Replay a recording. Returns the exit code."""
    # The engines and all plugins, which no other command loads.
    from trireme.cli import replay_run

    return replay_run.run(options)
