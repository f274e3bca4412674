"""The flags for logging that filter, score and bind have; the frontend's are kube-scheduler's, see `config`."""

import argparse

from trireme_kube.componentbase.logs import klog


def add(parser: argparse.ArgumentParser) -> None:
    """Add --logging-format, -v, --vmodule and --contextual-logging."""
    parser.add_argument("--logging-format", choices=("text", "json"), default="text", help="default %(default)s")
    parser.add_argument("-v", "--v", type=int, default=0, help="log verbosity")
    parser.add_argument(
        "--vmodule",
        type=_parse_modules,
        default=(),
        metavar="PATTERN=N,...",
        help="verbosities of single modules, by patterns of their names",
    )
    parser.add_argument(
        "--contextual-logging",
        choices=("true", "false"),
        default="true",
        help="name the part of the scheduler that a line is of (default %(default)s)",
    )


def options(values: argparse.Namespace, package: str) -> klog.LogOptions:
    """The logging options of the flags; `package` is the program's own, whose loggers they concern."""
    return klog.LogOptions(
        values.logging_format,
        values.v,
        values.vmodule,
        contextual=values.contextual_logging == "true",
        packages=(package,),
    )


def _parse_modules(text: str) -> tuple[tuple[str, int], ...]:
    """Parse `PATTERN=N,…`. Raises: argparse.ArgumentTypeError."""
    found = []
    for entry in filter(None, text.split(",")):
        pattern, _, level = entry.partition("=")
        if not pattern or not (level.isascii() and level.isdigit()):
            raise argparse.ArgumentTypeError(f"{entry!r} is not PATTERN=N")
        found.append((pattern, int(level)))
    return tuple(found)
