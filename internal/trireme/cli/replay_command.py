"""`trireme replay`: makes the decisions of a recording again, and says which differ now; or shows it as of a time.

It reads a file that `trireme record export` has written, or one recording of insight, and reaches no scheduler. With
--serve it also reads the folder in which insight is recording, which it leaves as it is.
"""

# Also change: docs/recording.md.
# Also change: docs/console.md.

import argparse
import datetime
import pathlib
import sys

from trireme.cli import display, pod_names
from trireme_kube.componentbase.cli import arguments


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `trireme replay` to the commands."""
    parser = commands.add_parser(
        "replay", help="decide a recording's decisions again", description=arguments.description_of(__doc__)
    )
    parser.add_argument(
        "file",
        type=pathlib.Path,
        metavar="FILE",
        help="a file of `trireme record export`; with --serve also the folder that insight records in",
    )
    parser.add_argument(
        "--config",
        type=pathlib.Path,
        metavar="FILE",
        help="decide with the profiles of this KubeSchedulerConfiguration, and show all decisions that it would change",
    )
    parser.add_argument(
        "--at",
        type=_parse_time,
        metavar="TIME",
        help="with `explain` and --serve: as of this time, as `trireme record check` shows times (default: the end)",
    )
    parser.add_argument(
        "--serve",
        nargs="?",
        const="127.0.0.1:0",
        metavar="HOST:PORT",
        help="show the console as of a moment that a slider sets, on this machine alone (default: a free port)",
    )
    parser.add_argument("--all", action="store_true", help="go on after the first difference")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="default %(default)s")
    parser.set_defaults(run=run, action="")
    actions = parser.add_subparsers(required=False, metavar="[explain POD]")
    explain = actions.add_parser("explain", help="explain a pod as of that time, instead of replaying")
    explain.add_argument("pod", type=pod_names.parse, metavar="NAMESPACE/POD", help="without a namespace, in `default`")
    explain.set_defaults(run=run, action="explain")


def run(options: argparse.Namespace) -> int:
    """Replay a recording. Returns the exit code."""
    try:
        return _run(options)
    except MemoryError:
        return display.print_memory_error(options.file)


def _run(options: argparse.Namespace) -> int:
    """As `run`. Raises: MemoryError."""
    # The engines and all plugins, which no other command loads.
    from trireme.cli import replay_explanation, replay_run, replay_site

    if options.serve is not None:
        wrong = next((name for name in ("config", "all", "action") if getattr(options, name)), "")
        if wrong:
            other = "explain" if wrong == "action" else f"--{wrong}"
            print(f"Error: --serve: not together with {other}", file=sys.stderr)
            return 1
        return replay_site.run(options)
    if options.file.is_dir():
        text = "is a folder: join its recordings by `trireme record export`, or show them by --serve"
        print(f"Error: {options.file}: {text}", file=sys.stderr)
        return 1
    if options.action == "explain":
        return replay_explanation.run(options)
    if options.at is not None:
        print("Error: --at: this is for `explain POD` and --serve; a replay decides all", file=sys.stderr)
        return 1
    return replay_run.run(options)


def _parse_time(text: str) -> int:
    """A time of RFC 3339, in nanoseconds since 1970. Raises: ArgumentTypeError."""
    try:
        parsed = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 2026-01-02T03:04:05Z") from error
    if parsed.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} has no time zone: end it with Z for UTC")
    since = parsed - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1000
