"""`trireme explain NAMESPACE/POD`: why a pod is where it is."""

import argparse
import datetime
from collections.abc import Mapping
from typing import Any

from trireme.cli import frontend_connection


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("explain", help="say why a pod is where it is", description=__doc__)
    parser.add_argument("pod", type=_pod, metavar="NAMESPACE/POD", help="the pod; without a namespace, in `default`")
    frontend_connection.add_arguments(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Say it. Returns the exit code."""
    return frontend_connection.show(options, "/trireme/v1/explain", {"pod": options.pod}, as_text)


def _pod(text: str) -> str:
    namespace, slash, name = text.rpartition("/")
    if not name or "/" in namespace or (slash and not namespace):
        raise argparse.ArgumentTypeError(f"{text!r} is neither NAMESPACE/POD nor POD")
    return f"{namespace or 'default'}/{name}"


def as_text(report: Mapping[str, Any]) -> str:
    """An explanation as people read it."""
    lines = [f"{report['pod']} {report['summary']}"]
    if "feasibleNodes" in report:
        lines.append(f"{report['feasibleNodes']} of {report['nodes']} nodes take it")
    for refusal in report.get("refusals", ()):
        lines += _refusal(refusal)
    condition = report.get("condition")
    if condition and condition["message"]:
        lines.append(f"condition: {condition['reason']}: {condition['message']}")
    if report.get("invalid"):
        lines.append(f"its fields cannot be read: {report['invalid']}")
    if report["story"]:
        lines.append("what happened:")
        lines += [f"  {_moment(move['at'])} to {move['to']}: {move['cause']}" for move in report["story"]]
    return "\n".join(lines)


def _moment(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds).astimezone().isoformat(sep=" ", timespec="milliseconds")


def _refusal(refusal: Mapping[str, Any]) -> list[str]:
    said = ", ".join(refusal["messages"]) or refusal["code"]
    where = f", such as {', '.join(refusal['examples'])}" if refusal["examples"] else ""
    lines = [f"  {refusal['nodes']} refused by {refusal['plugin'] or 'PreFilter'}: {said}{where}"]
    for reason in refusal["reasons"]:
        details = ", ".join(f"{name} {value}" for name, value in reason.items() if name != "code")
        lines.append(f"    {reason['code']}{f' ({details})' if details else ''}")
    return lines
