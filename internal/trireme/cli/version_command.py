"""`trireme version`: the version of this command, and of the scheduler if one can be reached.

Tests: tests/unit/cli/test_display.py, tests/contract/test_image_contents.py.
"""

import argparse
from typing import NotRequired, TypedDict

from rich import console

from trireme.cli import display, frontend_connection
from trireme.cli.display import Report
from trireme.framework import programs, release
from trireme_kube.componentbase.cli import arguments


class Version(TypedDict):
    """The releases of Trireme, of the kube-scheduler that it follows, and of Python."""

    trireme: str
    kubernetes: str
    python: str


class Versions(TypedDict):
    """What `-o json` prints; `unanswered` says why the scheduler's are not known."""

    client: Version
    scheduler: NotRequired[Version]
    unanswered: NotRequired[str]


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `trireme version` to the commands."""
    parser = commands.add_parser("version", help="print versions", description=arguments.description_of(__doc__))
    parser.add_argument("--client", action="store_true", help="print the version of this command alone")
    frontend_connection.add_arguments(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print Trireme's version and the scheduler's. Returns the exit code."""

    async def fetch_versions() -> Report:
        """Our version, and the scheduler's or why that is not known."""
        report: dict[str, object] = {"client": release.installed_version()}
        if not options.client:
            try:
                status = await frontend_connection.fetch_report(options, programs.STATUS_PATH, {"pods": "0"})
            except frontend_connection.ReportUnavailable as error:
                report["unanswered"] = str(error)
            else:
                names = {"trireme": "version", "kubernetes": "kubernetesVersion", "python": "pythonVersion"}
                report["scheduler"] = {name: status[key] for name, key in names.items()}
        return report

    return frontend_connection.print_report_of(options, fetch_versions, render)


def render(report: Report, wide: bool = False) -> console.RenderableType:
    """The versions, a line each."""
    entries = [("Client", _version_in_words(report["client"]))]
    if "scheduler" in report:
        entries.append(("Scheduler", _version_in_words(report["scheduler"])))
    elif "unanswered" in report:
        entries.append(("Scheduler", report["unanswered"]))
    return display.table_of_fields(entries)


def _version_in_words(each: Report) -> str:
    return f"Trireme {each['trireme']}, as kube-scheduler {each['kubernetes']}, on Python {each['python']}"
