"""By which decision a pod got its node, and whom it preempts, as `trireme explain` shows it.

Also change: console/src/views/preemption.tsx,
internal/trireme/insight/preemption_explanation.py (the words for fates and criteria).
Also change: console/src/views/decision.tsx, console/src/documents.ts (how a decision is shown).
Also change: docs/explain.md.
Also change: protos/trireme/v1/decision_explanation.proto (the messages).
"""

from collections.abc import Iterable, Mapping, Sequence

from rich import console, text

from trireme.cli import display, node_tables
from trireme.v1 import cycle_pb2, decision_explanation_pb2

# How many pods of a list are named, unless all are.
_PODS = 5

_CRITERIA: Mapping[str, str] = {
    "budgetViolations": "it violates fewer disruption budgets",
    "highestPriority": "its most important victim has a lower priority",
    "prioritySum": "the priorities of its victims add up to less",
    "victims": "it has fewer victims",
    "startTime": "its most important victims started later",
    "order": "both cost the same, and it was tried first",
}
_REASONS: Mapping[int, str] = {
    decision_explanation_pb2.PREEMPTION_POD_REASON_PRIORITY: "stays: its priority is not lower",
    decision_explanation_pb2.PREEMPTION_POD_REASON_REPRIEVED: "stays: the pod fits beside it",
    decision_explanation_pb2.PREEMPTION_POD_REASON_BUDGET: (
        "stays: a disruption budget protects it, and the pod fits beside it"
    ),
    decision_explanation_pb2.PREEMPTION_POD_REASON_BUDGET_VIOLATED: ("evicted, though a disruption budget protects it"),
    decision_explanation_pb2.PREEMPTION_POD_REASON_TERMINATING: "is being deleted already",
    decision_explanation_pb2.PREEMPTION_POD_REASON_UNSPECIFIED: "evicted",
}
_STEPS: Mapping[str, str] = {
    "HeldBack": "held back before it could be tried",
    "Queue": "waiting in the queue",
    "Permit": "waiting on Permit",
}


def render_decision(
    found: decision_explanation_pb2.ExplainDecisionResponse, wide: bool, all_nodes: bool, now: float | None = None
) -> list[console.RenderableType]:
    """The decision about a bound pod; `wide`: with all names; `all_nodes`: a line for each node.

    Its age is as of `now`, in seconds since 1970; None: the present.
    """
    parts: list[console.RenderableType] = ["", _how_chosen(found, now)]
    if all_nodes:
        parts.append(display.with_indent(node_tables.all_nodes_table(found)))
    else:
        if found.score_plugins and found.feasible_nodes:
            parts.append(display.with_indent(node_tables.feasible_nodes_table(found, wide)))
        if found.refusals:
            refusals = node_tables.refusals_table(found.refusals, wide)
            parts += ["", "The nodes that refused it", display.with_indent(refusals)]
    if found.batch_before:
        named = _placement_texts(found.batch_before)
        parts += ["", f"The same answer placed {_count(len(named), 'pod')} before it: {_list_text(named, wide)}"]
    if found.HasField("preemption"):
        parts += render_preemption(found.preemption, "It preempted", wide)
    parts += ["", _steps_text(found)]
    if found.differs:
        parts.append(text.Text("Evaluated again, another node comes first", display.BAD))
    if found.inexact:
        parts.append("The cluster changed while it was decided: it may have been decided on a later state")
    return parts + render_not_known(found.not_known)


def error_text(error: str) -> str:
    """Insight's error without the field of the request that it begins with: who reads it named a pod, no field."""
    return error.removeprefix("pod: ")


def render_not_known(not_known: Sequence[str]) -> list[console.RenderableType]:
    """What an evaluation lacks, a line each."""
    return [f"Not known is {each}" for each in not_known]


def render_preemption(
    found: decision_explanation_pb2.PreemptionExplanation, subject: str, wide: bool
) -> list[console.RenderableType]:
    """Whom the pod preempts, which pods of the node stay, and why this node; or why it preempts nobody."""
    if found.pod_group:
        return _render_group_preemption(found, wide)
    if found.reason:
        return ["", f"It preempts nobody: {found.reason}", *_node_counts(found)]
    rows = [
        [_pod_name(each.pod), str(each.priority), _REASONS.get(each.reason, "")]
        for each in [*found.victims, *found.spared]
    ]
    shown = rows if wide else rows[: max(len(found.victims), 2 * _PODS)]
    table = display.table_of_rows(("POD", "PRIORITY", "WHAT HAPPENS"), shown, right=("PRIORITY",))
    parts: list[console.RenderableType] = ["", f"{subject} on {found.node_name}", display.with_indent(table)]
    if len(shown) < len(rows):
        parts.append(f"  and {len(rows) - len(shown)} more that stay (-o wide names them)")
    if found.decided_by and len(found.candidates) > 1:
        other = found.candidates[1].name
        why = _CRITERIA.get(found.decided_by, found.decided_by)
        parts.append(f"  of {found.candidate_count} nodes with such pods; before {other}, because {why}")
    return parts


def _render_group_preemption(
    found: decision_explanation_pb2.PreemptionExplanation, wide: bool
) -> list[console.RenderableType]:
    """Whom the pod's group preempts as a whole, and where its members go then; or why it preempts nobody."""
    group = found.pod_group
    if found.reason:
        return ["", f"Its group {group} preempts nobody: {found.reason}"]
    rows = [[_pod_name(each.pod), str(each.priority), each.node_name] for each in found.victims]
    shown = rows if wide else rows[: 2 * _PODS]
    table = display.table_of_rows(("POD", "PRIORITY", "EVICTED FROM"), shown, right=("PRIORITY",))
    parts: list[console.RenderableType] = [
        "",
        f"Its group {group} would preempt {_count(len(rows), 'pod')}",
        display.with_indent(table),
    ]
    if len(shown) < len(rows):
        parts.append(f"  and {len(rows) - len(shown)} more (-o wide names them)")
    placements = _placement_texts(found.placements)
    if placements:
        parts.append(f"  then {_count(len(placements), 'member')} would fit: {_list_text(placements, wide)}")
    return parts


def _placement_texts(placements: Iterable[decision_explanation_pb2.BatchPlacement]) -> list[str]:
    return [f"{_pod_name(each.pod)} on {each.node_name}" for each in placements]


def _pod_name(pod: cycle_pb2.PodIdentity) -> str:
    return f"{pod.namespace}/{pod.name}"


def _node_counts(found: decision_explanation_pb2.PreemptionExplanation) -> list[console.RenderableType]:
    """How many nodes cannot be made to take the pod, by the reason."""
    counts = (
        (found.unresolvable_count, "evicting pods would not help on {}"),
        (found.without_victims_count, "no pod of lower priority is on {}"),
        (found.not_enough_count, "evicting all pods of lower priority is not enough, or was not tried, on {}"),
    )
    return [f"  {text.format(_count(number, 'node'))}" for number, text in counts if number]


def _how_chosen(found: decision_explanation_pb2.ExplainDecisionResponse, now: float | None) -> str:
    """How the node was found, and by how much it was better than the next one."""
    when = f"Decided {display.age_text(found.decided_unix_ms / 1000, now)} ago at generation {found.generation}"
    nodes = f"{node_tables.feasible_text(found)} were feasible"
    if found.kind == decision_explanation_pb2.DECISION_KIND_NOMINATED:
        return f"{when}: it was nominated to {found.node_name} and tried there first"
    if found.kind == decision_explanation_pb2.DECISION_KIND_ONLY_NODE or not found.score_plugins:
        return f"{when}: {nodes}"
    if found.tied_count:
        tied = _count(found.tied_count, "other node")
        return f"{when}: {nodes}; {tied} had the same total, and the fixed order of nodes decided"
    return f"{when}: {nodes}" if found.differs else f"{when}: {nodes}; it won by {found.margin}"


def _steps_text(found: decision_explanation_pb2.ExplainDecisionResponse) -> str:
    """How long each step took, and which was the longest."""
    taken = [
        f"{_STEPS.get(step.name, step.name)} {_seconds_text(step.duration_us / 1e6)}"
        for step in found.steps
        if step.duration_us
    ]
    longest = found.longest_step
    attempts = f"{_count(found.attempts, 'attempt')}; " if found.attempts else ""
    if not taken:
        return f"How long it took: {attempts}less than a microsecond was measured"
    return f"How long it took: {attempts}{', '.join(taken)}; longest: {_STEPS.get(longest, longest)}"


def _seconds_text(seconds: float) -> str:
    """A duration in the unit that suits it."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _list_text(entries: Sequence[str], wide: bool) -> str:
    """The last entries, or all of them."""
    named = entries if wide else entries[-_PODS:]
    return ("… " if len(named) < len(entries) else "") + ", ".join(named)
