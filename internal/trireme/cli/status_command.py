"""`trireme status`: what a running frontend is doing."""

import argparse
from collections.abc import Mapping
from typing import Any

from trireme.cli import frontend_connection, numbers_given


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("status", help="show what the scheduler is doing", description=__doc__)
    frontend_connection.add_arguments(parser)
    some = numbers_given.whole(0)
    parser.add_argument("--pods", type=some, default=20, help="pending pods to show (default %(default)s)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show it. Returns the exit code."""
    return frontend_connection.show(options, "/trireme/v1/status", {"pods": str(options.pods)}, as_text)


def as_text(report: Mapping[str, Any]) -> str:
    """A status as people read it."""
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
    lines += [f"  {pod['pod']}: {pod['summary']} (attempts: {pod['attempts']})" for pod in report["pending"]]
    more = report["pendingPods"] - len(report["pending"])
    if more > 0:
        lines.append(f"  … and {more} more pending pods")
    return "\n".join(lines)
