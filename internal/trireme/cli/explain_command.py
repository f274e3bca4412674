"""`trireme explain NAMESPACE/POD`: why a pod is where it is."""

import argparse
from collections.abc import Sequence
from typing import Any

from rich import console, padding, text

from trireme.cli import display, frontend_connection, proposals_display
from trireme.cli.display import Report
from trireme.framework import event_phrases
from trireme.registry import explain_sides

# How many of the events that may wake a pod are shown, and of the feasible nodes.
_EVENTS = 8
_NODES = 5


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `trireme explain` to the commands."""
    parser = commands.add_parser("explain", help="explain the state of a pod", description=__doc__)
    pod = parser.add_argument(
        "pod", type=_parse_pod_name, metavar="NAMESPACE/POD", help="the pod; without a namespace, in `default`"
    )
    pod.completer = frontend_connection.pending_pods  # type: ignore[attr-defined]  # argcomplete reads it there
    parser.add_argument(
        "--nodes", default="", metavar="NODE[,NODE]", help="only why these nodes refuse it, or how they score (insight)"
    )
    parser.add_argument(
        "--proposals", action="store_true", help="also changes that would let it be scheduled, each simulated (insight)"
    )
    frontend_connection.add_arguments(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the explanation of a pod. Returns the exit code."""
    query = {"pod": options.pod, **({"nodes": options.nodes} if options.nodes else {})}
    if options.proposals:
        query["proposals"] = "true"
    return frontend_connection.print_report(options, "/trireme/v1/explain", query, render)


def _parse_pod_name(name: str) -> str:
    """NAMESPACE/POD, in `default` without a namespace. Raises: ArgumentTypeError."""
    namespace, slash, pod = name.rpartition("/")
    if not pod or "/" in namespace or (slash and not namespace):
        raise argparse.ArgumentTypeError(f"{name!r} is neither NAMESPACE/POD nor POD")
    return f"{namespace or 'default'}/{pod}"


def render(report: Report, wide: bool = False) -> console.Group:
    """Render an explanation as text; `wide` names all events that may wake the pod, and more nodes."""
    parts: list[console.RenderableType] = [
        text.Text.assemble((report["pod"], display.HEADER), " ", _summary_line(report))
    ]
    evaluation = report.get("evaluation", {})
    if "error" in evaluation:
        parts += ["", text.Text(f"Insight does not evaluate it: {evaluation['error']}", display.BAD)]
    parts += (
        _render_evaluation(evaluation, wide) if "feasibleNodes" in evaluation else _render_last_answer(report, wide)
    )
    events = report.get("waitsFor", {}).get("events", ())
    if events:
        parts += ["", "It is tried again when", _with_indent(_events_text(events, wide))]
    condition = report.get("condition")
    if condition and condition["message"]:
        parts += ["", f"Condition {condition['reason']}: {condition['message']}"]
    if report.get("invalid"):
        parts += ["", text.Text(f"Its fields cannot be read: {report['invalid']}", display.BAD)]
    if report.get("history"):
        parts += ["", _render_history(report["history"])]
    return console.Group(*parts)


def _render_last_answer(report: Report, wide: bool) -> list[console.RenderableType]:
    """What filter answered in the last attempt."""
    if "feasibleNodes" not in report:
        return []
    parts: list[console.RenderableType] = ["", f"{report['feasibleNodes']} of {report['nodes']} nodes are feasible"]
    if report.get("refusals"):
        parts.append(_with_indent(_render_refusals(report["refusals"], wide)))
    return parts


def _render_evaluation(found: Report, wide: bool) -> list[console.RenderableType]:
    """What insight evaluated just now: refusals, and the feasible nodes in the order in which score would choose."""
    age = found.get("disconnectedSeconds", 0)
    when = f"{age:.0f} s ago, when insight was connected last" if age else "now"
    parts: list[console.RenderableType] = [
        "",
        f"{found['feasibleNodes']} of {found['nodes']} nodes are feasible {when}",
    ]
    if "preFilter" in found:
        parts.append(_with_indent(f"{found['preFilter']['plugin']}: {', '.join(found['preFilter']['messages'])}"))
    if found["refusals"]:
        refusals = [{**refusal, "examples": refusal["names"][:10]} for refusal in found["refusals"]]
        parts.append(_with_indent(_render_refusals(refusals, wide)))
    if "scoreFailure" in found:
        failure = found["scoreFailure"]
        line = f"Scoring fails by {failure['plugin']}: {', '.join(failure['messages'])}"
        parts.append(_with_indent(text.Text(line, display.BAD)))
    elif found["feasible"]:
        parts += ["", "The feasible nodes, best first", _with_indent(_render_feasible_nodes(found, wide))]
    if found.get("notEvaluated"):
        parts += ["", f"HTTP extenders may refuse more: {', '.join(found['notEvaluated'])}"]
    return parts + proposals_display.render_proposals(found, wide)


def _render_feasible_nodes(found: Report, wide: bool) -> console.RenderableType:
    """The first nodes with what adds to their totals."""
    weights = {plugin["plugin"]: plugin["weight"] for plugin in found["scorePlugins"]}
    nodes = found["feasible"] if wide else found["feasible"][:_NODES]
    entries = [
        [
            node["node"],
            str(node["total"]),
            ", ".join(
                f"{plugin} {_score_text(score, weights[plugin])}" for plugin, score in node["scores"].items() if score
            ),
        ]
        for node in nodes
    ]
    if len(found["feasible"]) > len(nodes):
        entries.append(["…", "", f"{len(found['feasible']) - len(nodes)} more (-o wide names them)"])
    return display.table_of_rows(("NODE", "TOTAL", "SCORES"), entries, right=("TOTAL",))


def _score_text(score: int, weight: int) -> str:
    """A plugin's score, with its weight unless that is 1."""
    return f"{score}×{weight}" if weight > 1 else str(score)


def _summary_line(report: Report) -> str:
    """The frontend's sentence about the pod; for a bound pod with its age."""
    summary: str = report["summary"]
    if report.get("boundAt"):
        return f"{summary} {display.age_text(report['boundAt'])} ago"
    if report.get("startedAt"):
        return f"{summary} and was started there {display.age_text(report['startedAt'])} ago"
    return summary


def _with_indent(what: console.RenderableType) -> padding.Padding:
    """The part, indented."""
    return padding.Padding(what, (0, 0, 0, 2))


def _render_refusals(refusals: Sequence[Report], wide: bool) -> console.RenderableType:
    """A table of the refusals, a row for all nodes with the same one. `wide`: with all its examples, else three."""
    entries = []
    for refusal in refusals:
        reason = ", ".join(refusal["messages"]) or refusal["code"]
        details = [_reason_details(refusal["plugin"], reason) for reason in refusal["reasons"]]
        examples = refusal["examples"] if wide else refusal["examples"][:3]
        more = " …" if refusal["nodes"] > len(examples) and examples else ""
        parameters = "; ".join(detail for detail in details if detail)
        entries.append(
            [
                str(refusal["nodes"]),
                refusal["plugin"] or "PreFilter",
                f"{reason}{f' ({parameters})' if parameters else ''}",
                f"{', '.join(examples)}{more}",
            ]
        )
    return display.table_of_rows(
        ("NODES", "REFUSED BY", "REASON", "EXAMPLES"), entries, right=("NODES",), wrapped=("REASON", "EXAMPLES")
    )


def _reason_details(plugin: str, reason: Report) -> str:
    """A reason in the plugin's words, e.g. `100 cpu requested`; without such words, its parameters."""
    parameters = {name: value for name, value in reason.items() if name != "code"}
    text = explain_sides.reason_text(plugin, reason["code"], parameters)
    return text or ", ".join(f"{name} {value}" for name, value in parameters.items())


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
    "pre-enqueue pending": "waiting for the answer of a PreEnqueue plugin",
    "incomplete": "waiting for the rest of its group",
    "pending": "waiting for the attempt of its group to end",
    "in flight": "being tried",
    "done": "being bound",
    "gone": "left the queue",
}
