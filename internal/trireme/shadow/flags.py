"""The flags of shadow, for `trireme shadow` and the program trireme-shadow alike."""

import argparse
import os
import pathlib
from dataclasses import dataclass

from trireme_kube.client.rest import credentials

_REPORT = "trireme-shadow.html"


class FlagsError(Exception):
    """A flag cannot be used; the text names it and what to do."""


@dataclass(frozen=True, slots=True)
class Flags:
    """The checked flags. Units: seconds; `duration` 0: until a signal."""

    source: credentials.Source
    config: str
    feature_gates: list[str]
    report: pathlib.Path
    interval: float
    duration: float
    simulated_cluster: bool
    as_json: bool
    listen: str
    start_timeout: float


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a run."""
    add_connection(parser)
    parser.add_argument(
        "--config",
        default="",
        metavar="FILE",
        help="KubeSchedulerConfiguration to decide with (default: the built-in one)",
    )
    parser.add_argument(
        "--feature-gates", action="append", default=[], metavar="NAME=BOOL", help="as the frontend's (may be repeated)"
    )
    parser.add_argument("--report", default=_REPORT, metavar="FILE", help="HTML file to write (default %(default)s)")
    parser.add_argument(
        "--interval", type=float, default=30.0, metavar="SECONDS", help="time between reports (default %(default)g)"
    )
    parser.add_argument(
        "--duration", type=float, default=0.0, metavar="SECONDS", help="end after this time (default: until Ctrl-C)"
    )
    parser.add_argument("--no-own-world", action="store_true", help="only compare decisions, place no pods")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="lines of the terminal")
    parser.add_argument(
        "--listen", default="", metavar="HOST:PORT", help="also serve the report, /healthz and /readyz over HTTP"
    )
    parser.add_argument(
        "--start-timeout",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="give up if the cluster cannot be listed within this time (default %(default)g)",
    )


def add_connection(parser: argparse.ArgumentParser, default: str = "") -> None:
    """Add the flags of the connection to the API server; `default` is what each has when it is not given."""
    parser.add_argument(
        "--kubeconfig",
        default=default,
        metavar="FILE",
        help="credentials; reading is enough (default: $KUBECONFIG, else the pod's service account)",
    )
    parser.add_argument(
        "--master", default=default, metavar="URL", help="address of the API server, in place of the file's"
    )


def source(options: argparse.Namespace) -> credentials.Source:
    """Where the connection is configured."""
    in_pod = bool(os.environ.get("KUBERNETES_SERVICE_HOST"))
    default = "" if options.master or in_pod else os.environ.get("KUBECONFIG", "")
    return credentials.Source(options.kubeconfig or default, options.master)


def check(options: argparse.Namespace) -> Flags:
    """The flags of a run. Raises: FlagsError."""
    if not 1 <= options.interval <= 86_400:
        raise FlagsError("--interval: must be between 1 and 86400 seconds")
    if options.duration < 0:
        raise FlagsError("--duration: must not be negative")
    if options.start_timeout <= 0:
        raise FlagsError("--start-timeout: must be positive")
    report = pathlib.Path(options.report)
    if report.is_dir() or not report.name:
        raise FlagsError(f"--report: {options.report} is a folder; name a file in it")
    if not report.parent.is_dir():
        raise FlagsError(f"--report: there is no folder {report.parent}; make it, or name another file")
    if options.listen and not options.listen.rpartition(":")[2].isdigit():
        raise FlagsError(f"--listen: {options.listen} is not HOST:PORT")
    return Flags(
        source(options),
        options.config,
        options.feature_gates,
        report,
        options.interval,
        options.duration,
        not options.no_own_world,
        options.output == "json",
        options.listen,
        options.start_timeout,
    )
