"""`trireme explain NAMESPACE/POD`: why a pod is where it is."""

import argparse
import datetime
import functools
from collections.abc import Sequence
from typing import Any

from rich import console, text

from trireme.cli import (
    decision_display,
    display,
    frontend_connection,
    leadership_display,
    node_tables,
    pod_names,
    proposals_display,
)
from trireme.cli.display import Report
from trireme.framework import event_phrases

# How many of the events that may wake a pod are shown.
_EVENTS = 8


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `trireme explain` to the commands."""
    parser = commands.add_parser("explain", help="explain the state of a pod", description=__doc__)
    pod = parser.add_argument(
        "pod", type=pod_names.parse, metavar="NAMESPACE/POD", help="the pod; without a namespace, in `default`"
    )
    pod.completer = frontend_connection.pending_pods  # type: ignore[attr-defined]  # argcomplete reads it there
    parser.add_argument(
        "--nodes", default="", metavar="NODE[,NODE]", help="only why these nodes refuse it, or how they score (insight)"
    )
    parser.add_argument(
        "--proposals", action="store_true", help="also changes that would let it be scheduled, each simulated (insight)"
    )
    parser.add_argument(
        "--all-nodes",
        action="store_true",
        help="a line for every node: its total, or the first plugin that refuses it (insight)",
    )
    frontend_connection.add_arguments(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the explanation of a pod. Returns the exit code."""
    query = {"pod": options.pod, "preemption": "true", **({"nodes": options.nodes} if options.nodes else {})}
    if options.proposals:
        query["proposals"] = "true"
    if options.all_nodes or options.output != "text":
        query["allNodes"] = "true"
    show = functools.partial(render, all_nodes=options.all_nodes)
    return frontend_connection.print_report(options, "/trireme/v1/explain", query, show)


def render(report: Report, wide: bool = False, *, all_nodes: bool = False) -> console.Group:
    """Render an explanation as text; `wide` names all events that may wake the pod, and more nodes.

    `all_nodes`: a line for each node.
    """
    parts: list[console.RenderableType] = [
        text.Text.assemble((report["pod"], display.HEADER), " ", _summary_line(report))
    ]
    parts += leadership_display.remarks_on_explanation(report)
    if "gap" in report:
        parts += ["", text.Text(_gap_text(report["gap"]), display.BAD)]
    if "refusedPlacement" in report:
        parts += ["", _refused_placement_text(report["refusedPlacement"])]
    evaluation = report.get("evaluation", {})
    if "error" in evaluation:
        parts += [
            "",
            text.Text(f"Insight does not evaluate it: {decision_display.error_text(evaluation['error'])}", display.BAD),
        ]
    if "feasibleNodes" in evaluation:
        parts += _render_evaluation(evaluation, wide, all_nodes, "at" in report)
    else:
        parts += _render_last_answer(report, wide)
    if "decision" in report:
        parts += decision_display.render_decision(report["decision"], wide, all_nodes, _moment(report))
    events = report.get("waitsFor", {}).get("events", ())
    if events:
        parts += ["", "It is tried again when", node_tables.with_indent(_events_text(events, wide))]
    condition = report.get("condition")
    if condition and condition["message"]:
        parts += ["", f"Condition {condition['reason']}: {condition['message']}"]
    if report.get("invalid"):
        parts += ["", text.Text(f"Its fields cannot be read: {report['invalid']}", display.BAD)]
    if report.get("history"):
        parts += ["", _render_history(report["history"])]
    return console.Group(*parts)


_GAPS = {
    "notRecorded": "Nothing was recorded from {from} to {to}: this is what was known before.",
    "noStream": "Nothing came from the scheduler from {from} to {to}: this is what was known before.",
    "clockSetBack": "Insight's clock was set back: what was from {from} to {to} is not certain.",
}


def _moment(report: Report) -> float | None:
    """As of when a report about the past is, in seconds since 1970; None: it is about the present."""
    return datetime.datetime.fromisoformat(report["moment"]).timestamp() if "moment" in report else None


def _gap_text(gap: Report) -> str:
    """Why it is not certain what was at the moment of a recording, and from when to when."""
    return _GAPS[gap["reason"]].format(**gap)


def _refused_placement_text(refused: Report) -> str:
    """Which plugin refused the node that the last attempt had chosen, at which step, and why."""
    verb = "failed" if refused["code"] == "Error" else "refused it"
    where = f"{refused['plugin']} {verb} at {refused['extensionPoint']}, on node {refused['node']}"
    return f"{where}: {node_tables.refusal_text(refused)}"


def _render_last_answer(report: Report, wide: bool) -> list[console.RenderableType]:
    """What filter answered in the last attempt."""
    if "feasibleNodes" not in report:
        return []
    parts: list[console.RenderableType] = ["", f"{report['feasibleNodes']} of {report['nodes']} nodes are feasible"]
    if report.get("refusals"):
        parts.append(node_tables.with_indent(node_tables.refusals_table(report["refusals"], wide)))
    return parts


def _render_evaluation(found: Report, wide: bool, all_nodes: bool, past: bool) -> list[console.RenderableType]:
    """What insight evaluated just now: refusals, and the feasible nodes in the order in which score would choose."""
    age = found.get("disconnectedSeconds", 0)
    when = f"are feasible {age:.0f} s ago, when insight last heard of the frontend" if age else "are feasible now"
    if past:
        when = "were feasible then"
    parts: list[console.RenderableType] = ["", f"{node_tables.feasible_text(found)} {when}"]
    if "preFilter" in found:
        parts.append(
            node_tables.with_indent(f"{found['preFilter']['plugin']}: {', '.join(found['preFilter']['messages'])}")
        )
    if all_nodes:
        parts += ["", node_tables.with_indent(node_tables.all_nodes_table(found))]
    elif found["refusals"]:
        refusals = [{**refusal, "examples": refusal["names"][:10]} for refusal in found["refusals"]]
        parts.append(node_tables.with_indent(node_tables.refusals_table(refusals, wide)))
        shortages = node_tables.shortages_table(found["refusals"], wide)
        parts += [] if shortages is None else ["", node_tables.with_indent(shortages)]
    if "scoreFailure" in found:
        failure = found["scoreFailure"]
        line = f"Scoring fails by {failure['plugin']}: {', '.join(failure['messages'])}"
        parts.append(node_tables.with_indent(text.Text(line, display.BAD)))
    elif found["feasible"] and not all_nodes:
        parts += [
            "",
            "The feasible nodes, best first",
            node_tables.with_indent(node_tables.feasible_nodes_table(found, wide)),
        ]
    if found.get("notEvaluated"):
        parts += ["", f"HTTP extenders may refuse more: {', '.join(found['notEvaluated'])}"]
    if "preemption" in found:
        parts += decision_display.render_preemption(found["preemption"], "It would preempt", wide)
    parts += decision_display.render_not_known(found.get("notKnown", ()))
    return parts if past else parts + proposals_display.render_proposals(found, wide)


def _summary_line(report: Report) -> str:
    """The frontend's sentence about the pod; for a bound pod with its age."""
    summary: str = report["summary"]
    if report.get("boundAt"):
        return f"{summary} {display.age_text(report['boundAt'])} ago"
    if report.get("startedAt"):
        return f"{summary} and was started there {display.age_text(report['startedAt'])} ago"
    return summary


def _events_text(events: Sequence[str], wide: bool) -> str:
    """The events that may wake the pod, as a list; the most likely ones, unless `wide`."""
    listing = events if wide else events[:_EVENTS]
    lines = [f"- {event_phrases.event_phrase(label)}" for label in listing]
    if len(events) > len(listing):
        lines.append(f"- or on {len(events) - len(listing)} rarer events (-o wide names them)")
    return "\n".join(lines)


def _render_history(moves: Sequence[Any]) -> console.RenderableType:
    """A table of the pod's last moves in the queue."""
    entries = [
        [
            f"{display.age_text(move['at'])} ago",
            _states.get(move["to"], move["to"]),
            event_phrases.event_cause(move["cause"]),
        ]
        for move in moves
    ]
    return display.table_of_rows(("WHEN", "STATE", "BECAUSE"), entries)


# The queue's states in words.
_states = {
    "active": "ready to be tried",
    "backoff": "backing off",
    "unschedulable": "waiting for an event",
    "pre-enqueue pending": "waiting for PreEnqueue or QueueSort",
    "incomplete": "waiting for the rest of its group",
    "pending": "waiting for the attempt of its group to end",
    "in flight": "being tried",
    "done": "being bound",
    "gone": "left the queue",
}
