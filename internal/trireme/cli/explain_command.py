"""`trireme explain NAMESPACE/POD`: why a pod is where it is.

Tests: tests/unit/cli/test_explain_command.py, tests/unit/cli/test_display.py.
"""

# Also change: protos/trireme/v1/scheduler_explanation.proto (the messages).
# Also change: protos/trireme/v1/insight.proto (the messages).
# Also change: docs/explain.md.
# Also change: console/src/recording.tsx, internal/trireme/recording/frame_times.py (causes of gaps).
# Also change: console/src/views/pod.tsx, console/src/documents.ts (what is shown of an explanation).

import argparse
import datetime
import functools
from collections.abc import Iterable, Sequence

from rich import console, text

from trireme.cli import (
    decision_display,
    display,
    frontend_connection,
    leadership_display,
    node_tables,
    pod_names,
    proposals_display,
    wake_ups_display,
)
from trireme.cli.display import Report
from trireme.framework import event_phrases, programs
from trireme.v1 import insight_pb2, scheduler_explanation_pb2, snapshot_pb2, status_pb2
from trireme.wire import json_documents
from trireme_kube.componentbase.cli import arguments

# How many of the events that may wake a pod are shown.
_EVENTS = 8


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `trireme explain` to the commands."""
    parser = commands.add_parser(
        "explain", help="explain the state of a pod", description=arguments.description_of(__doc__)
    )
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
    show = functools.partial(render, all_nodes=options.all_nodes, with_proposals=options.proposals)
    return frontend_connection.print_report(options, programs.EXPLAIN_PATH, query, show)


def render(
    report: Report, wide: bool = False, *, all_nodes: bool = False, with_proposals: bool = False
) -> console.Group:
    """Render an explanation as text; `wide` names all events that may wake the pod, and more nodes.

    `all_nodes`: a line for each node; `with_proposals`: proposals were requested.
    """
    found = json_documents.parse(report, insight_pb2.ExplainResponse())
    parts: list[console.RenderableType] = [
        text.Text.assemble((f"{found.pod.namespace}/{found.pod.name}", display.HEADER), " ", _summary_line(found))
    ]
    own = found.scheduler
    if found.HasField("scheduler"):
        parts += leadership_display.remarks_on_explanation(own)
    if found.recorded.HasField("gap"):
        parts += ["", text.Text(_gap_text(found.recorded.gap), display.BAD)]
    if own.HasField("refused_placement"):
        parts += ["", _refused_placement_text(own.refused_placement)]
    if found.HasField("queued_pod"):
        parts += _render_evaluation(found, wide, all_nodes=all_nodes, with_proposals=with_proposals)
    else:
        parts += _render_without_evaluation(found, wide)
    if found.HasField("decision"):
        parts += decision_display.render_decision(found.decision, wide, all_nodes, _moment(found))
    if found.HasField("missed_wake_up"):
        parts += ["", text.Text(wake_ups_display.sentence_about_pod(found.missed_wake_up), display.BAD)]
    events = own.pending.waits_for.events
    if events:
        parts += [
            "",
            "It is tried again when one of these can help it",
            display.with_indent(_events_text(events, wide)),
        ]
    if own.condition.message:
        parts += ["", f"Condition {own.condition.reason}: {own.condition.message}"]
    if own.invalid:
        parts += ["", text.Text(f"Its fields cannot be read: {own.invalid}", display.BAD)]
    return console.Group(*parts, *_render_past(own))


def _render_past(own: scheduler_explanation_pb2.SchedulerExplanation) -> list[console.RenderableType]:
    """The pod's last moves in the queue, and where its trace is."""
    parts: list[console.RenderableType] = ["", _render_history(own.history)] if own.history else []
    if own.HasField("trace"):
        parts += ["", f"Trace {own.trace.id}, if it is kept", *([own.trace.url] if own.trace.url else [])]
    return parts


_GAPS = {
    "notRecorded": "Nothing was recorded from {} to {}: this is what was known before.",
    "noStream": "Nothing came from the scheduler from {} to {}: this is what was known before.",
    "clockSetBack": "Insight's clock was set back: what was from {} to {} is not certain.",
}


def _moment(found: insight_pb2.ExplainResponse) -> float | None:
    """As of when an explanation of the past is, in seconds since 1970; None: it is about the present."""
    return datetime.datetime.fromisoformat(found.recorded.at).timestamp() if found.HasField("recorded") else None


def _gap_text(gap: insight_pb2.RecordedGap) -> str:
    """Why a recording is uncertain at its moment, and for which period."""
    return _GAPS[gap.reason].format(gap.since, gap.until)


def _refused_placement_text(refused: scheduler_explanation_pb2.RefusedPlacement) -> str:
    """Which plugin refused the node that the last attempt had chosen, at which step, and why."""
    verb = "failed" if refused.status.code == status_pb2.CODE_ERROR else "refused it"
    where = f"{refused.status.plugin} {verb} at {refused.extension_point}, on node {refused.node_name}"
    return f"{where}: {node_tables.refusal_text(refused.status)}"


def _render_without_evaluation(found: insight_pb2.ExplainResponse, wide: bool) -> list[console.RenderableType]:
    """Why insight gives no evaluation or decision, and what Filter answered in the last attempt."""
    parts: list[console.RenderableType] = []
    if found.insight_error:
        error = decision_display.error_text(found.insight_error)
        is_bound = bool(found.node_name)
        parts += ["", f"How it was decided is not known: {error}"] if is_bound else []
        parts += [] if is_bound else ["", text.Text(f"Insight does not evaluate it: {error}", display.BAD)]
    if found.scheduler.HasField("last_answer"):
        last = found.scheduler.last_answer
        parts += ["", f"{last.feasible_count} of {last.node_count} nodes are feasible"]
        if last.refusals:
            parts.append(display.with_indent(node_tables.refusals_table(last.refusals, wide)))
    return parts


def _render_evaluation(
    found: insight_pb2.ExplainResponse, wide: bool, *, all_nodes: bool, with_proposals: bool
) -> list[console.RenderableType]:
    """Insight's present evaluation: refusals, and the feasible nodes in the order in which score would choose."""
    past, age = found.HasField("recorded"), found.disconnected_ms / 1000
    when = f"are feasible {age:.0f} s ago, when insight last heard of the frontend" if age else "are feasible now"
    if past:
        when = "were feasible then"
    parts: list[console.RenderableType] = ["", f"{node_tables.feasible_text(found)} {when}"]
    if found.HasField("pre_filter"):
        refusal = found.pre_filter
        line = f"{node_tables.refused_by(refusal.plugin)}: {node_tables.refusal_text(refusal)}"
        parts.append(display.with_indent(line))
    if all_nodes:
        parts += ["", display.with_indent(node_tables.all_nodes_table(found))]
    elif found.refusals:
        parts.append(display.with_indent(node_tables.refusals_table(found.refusals, wide)))
        shortages = node_tables.shortages_table(found.refusals, wide)
        parts += [] if shortages is None else ["", display.with_indent(shortages)]
    if found.HasField("score_failure"):
        failure = found.score_failure
        line = f"Scoring fails by {failure.plugin}: {', '.join(failure.messages)}"
        parts.append(display.with_indent(text.Text(line, display.BAD)))
    elif found.feasible_nodes and not all_nodes:
        table = node_tables.feasible_nodes_table(found, wide)
        parts += ["", "The feasible nodes, best first", display.with_indent(table)]
    if found.HasField("preemption"):
        parts += decision_display.render_preemption(found.preemption, "It would preempt", wide)
    parts += decision_display.render_not_known(found.not_known)
    return parts if past else parts + proposals_display.render_proposals(found, wide, requested=with_proposals)


def _summary_line(found: insight_pb2.ExplainResponse) -> str:
    """The state of the pod as a sentence without its subject; for a bound pod with its age."""
    if found.HasField("recorded"):
        return _past_summary(found)
    own = found.scheduler
    if own.bound.bound_at_ms:
        return f"{own.summary} {display.age_text(own.bound.bound_at_ms / 1000)} ago"
    if own.bound.started_at_ms:
        return f"{own.summary} and was started there {display.age_text(own.bound.started_at_ms / 1000)} ago"
    return own.summary


def _past_summary(found: insight_pb2.ExplainResponse) -> str:
    """The state of the pod at a moment of a recording."""
    when = found.recorded.known_at
    if not found.HasField("queued_pod"):
        return f"was on node {found.node_name} at {when}"
    return f"{_PAST_STATES.get(found.queued_pod.state, 'was in the queue')} at {when}"


_PAST_STATES = {
    snapshot_pb2.QUEUED_POD_STATE_ACTIVE: "waited for its turn",
    snapshot_pb2.QUEUED_POD_STATE_BACKOFF: "was backing off",
    snapshot_pb2.QUEUED_POD_STATE_UNSCHEDULABLE: "was refused, and waited for an event",
    snapshot_pb2.QUEUED_POD_STATE_GATED: "was held back before the queue",
    snapshot_pb2.QUEUED_POD_STATE_PRE_ENQUEUE_PENDING: (
        "waited for plugins called before the queue (PreEnqueue, QueueSort)"
    ),
    snapshot_pb2.QUEUED_POD_STATE_WAITING_FOR_GROUP: "waited for the rest of its group",
    snapshot_pb2.QUEUED_POD_STATE_GROUP_IN_FLIGHT: "waited for the attempt of its group to end",
    snapshot_pb2.QUEUED_POD_STATE_IN_FLIGHT: "was being tried",
}


def _events_text(events: Sequence[str], wide: bool) -> str:
    """The events that may wake the pod, as a list; the most likely ones, unless `wide`."""
    listing = events if wide else events[:_EVENTS]
    lines = [f"- {event_phrases.event_phrase(label)}" for label in listing]
    if len(events) > len(listing):
        lines.append(f"- or on {len(events) - len(listing)} rarer events (-o wide names them)")
    return "\n".join(lines)


def _render_history(moves: Iterable[scheduler_explanation_pb2.PodTransition]) -> console.RenderableType:
    """A table of the pod's last moves in the queue."""
    entries = [
        [
            f"{display.age_text(move.at_ms / 1000)} ago",
            _states.get(move.to, move.to),
            event_phrases.event_cause(move.cause),
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
