"""`trireme status`: what a running frontend is doing."""

import argparse
import functools
from collections.abc import Mapping
from typing import Any

from trireme.cli import frontend_connection, numbers_given

LINES = 20
# More than any cluster has.
_ALL = 1 << 31


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("status", help="show what the scheduler is doing", description=__doc__)
    frontend_connection.add_arguments(parser)
    parser.add_argument(
        "--pods",
        type=numbers_given.whole(0),
        help=f"name so many pending pods, one a line (default: {LINES} lines, one for all that wait for the same; all "
        "pods as JSON)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show it. Returns the exit code."""
    named: int | None = options.pods
    pods = named if named is not None else _ALL if options.output == "json" else 0
    text = functools.partial(as_text, one_by_one=named is not None)
    return frontend_connection.show(options, "/trireme/v1/status", {"pods": str(pods)}, text)


def as_text(report: Mapping[str, Any], *, one_by_one: bool = False) -> str:
    """A status as people read it; the pending pods by name, or those that wait for the same together."""
    leading = report["leadership"]
    lines = [
        f"leads with epoch {leading['epoch']}, {leading['secondsLeft']} s of the lease left"
        if leading["leading"]
        else "does not lead",
        "caches are synced" if report["synced"] else "caches are not synced yet",
    ]
    if report["missing"]:
        lines.append(f"missing: {', '.join(report['missing'])}")
    lines.append("queue: " + ", ".join(f"{count} {name}" for name, count in report["queue"].items()))
    cluster = report["cluster"]
    lines.append(
        f"cluster: {cluster['nodes']} nodes, {cluster['pods']} pods ({cluster['assumedPods']} assumed), "
        f"{cluster['podClasses']} pod classes"
    )
    for phase, replicas in report["replicas"].items():
        for replica in replicas:
            state = "in step" if replica["inStep"] else f"out of step: {replica['lastError'] or 'not reached yet'}"
            behind = f", {replica['behind']} generations behind" if replica.get("behind") else ""
            lines.append(f"{phase:<7}{replica['address']}: {state}{behind}")
    if one_by_one:
        lines += [f"  {pod['pod']}: {pod['summary']} (attempts: {pod['attempts']})" for pod in report["pending"]]
        named = len(report["pending"])
    else:
        shown = report["pendingAlike"][:LINES]
        lines += [f"  {_together(alike)}" for alike in shown]
        named = sum(alike["pods"] for alike in shown)
    more = report["pendingPods"] - named
    if more > 0:
        lines.append(f"  … and {more} more pending pods")
    return "\n".join(lines)


def _together(alike: Mapping[str, Any]) -> str:
    least, most = alike["attempts"]
    attempts = f"attempts: {least}" if least == most else f"attempts: {least} to {most}"
    who = alike["example"] if alike["pods"] == 1 else f"{alike['pods']} pods like {alike['example']}"
    return f"{who}: {alike['summary']} ({attempts})"
