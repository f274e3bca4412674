"""By which decision a pod got its node, and whom it preempts, as `trireme explain` shows it."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import console, text

from trireme.cli import display, node_tables

Report = Mapping[str, Any]

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
_REASONS: Mapping[str, str] = {
    "priority": "stays: its priority is not lower",
    "reprieved": "stays: the pod fits beside it",
    "budget": "stays: a disruption budget protects it, and the pod fits beside it",
    "budgetViolated": "evicted, though a disruption budget protects it",
    "terminating": "is being deleted already",
    "": "evicted",
}
_STEPS: Mapping[str, str] = {
    "HeldBack": "held back before it could be tried",
    "Queue": "waiting in the queue",
    "Permit": "waiting on Permit",
}


def render_decision(
    found: Report, wide: bool, all_nodes: bool, now: float | None = None
) -> list[console.RenderableType]:
    """The decision about a bound pod; `wide`: with all names; `all_nodes`: a line for each node.

    Its age is as of `now`, in seconds since 1970; None: the present.
    """
    if "error" in found:
        return ["", f"How it was decided is not known: {error_text(found['error'])}"]
    parts: list[console.RenderableType] = ["", _how_chosen(found, now)]
    if all_nodes:
        parts.append(node_tables.with_indent(node_tables.all_nodes_table(found)))
    else:
        if found["scorePlugins"] and found["feasible"]:
            parts.append(node_tables.with_indent(node_tables.feasible_nodes_table(found, wide)))
        if found["refusals"]:
            refusals = [{**refusal, "examples": refusal["names"][:10]} for refusal in found["refusals"]]
            parts += [
                "",
                "The nodes that refused it",
                node_tables.with_indent(node_tables.refusals_table(refusals, wide)),
            ]
    before = found["batch"]["before"]
    if before:
        named = [f"{each['pod']} on {each['node']}" for each in before]
        parts += ["", f"The same answer placed {_count(len(before), 'pod')} before it: {_list_text(named, wide)}"]
    if "preemption" in found:
        parts += render_preemption(found["preemption"], "It preempted", wide)
    parts += ["", _steps_text(found)]
    if not found["same"]:
        parts.append(text.Text("Evaluated again, another node comes first", display.BAD))
    if not found["exact"]:
        parts.append("The cluster changed while it was decided: it may have been decided on a later state")
    return parts + render_not_known(found["notKnown"])


def error_text(error: str) -> str:
    """Insight's error without the field of the request that it begins with: who reads it named a pod, no field."""
    return error.removeprefix("pod: ")


def render_not_known(not_known: Sequence[str]) -> list[console.RenderableType]:
    """What an evaluation lacks, a line each."""
    return [f"Not known is {each}" for each in not_known]


def render_preemption(found: Report, subject: str, wide: bool) -> list[console.RenderableType]:
    """Whom the pod preempts, which pods of the node stay, and why this node; or why it preempts nobody."""
    if found.get("podGroup"):
        return _render_group_preemption(found, wide)
    if "reason" in found:
        return ["", f"It preempts nobody: {found['reason']}", *_node_counts(found)]
    rows = [
        [each["pod"], str(each["priority"]), _REASONS.get(each.get("reason", ""), each.get("reason", ""))]
        for each in [*found["victims"], *found["spared"]]
    ]
    shown = rows if wide else rows[: max(len(found["victims"]), 2 * _PODS)]
    table = display.table_of_rows(("POD", "PRIORITY", "WHAT HAPPENS"), shown, right=("PRIORITY",))
    parts: list[console.RenderableType] = ["", f"{subject} on {found['node']}", node_tables.with_indent(table)]
    if len(shown) < len(rows):
        parts.append(f"  and {len(rows) - len(shown)} more that stay (-o wide names them)")
    if found["decidedBy"] and len(found["candidates"]) > 1:
        other = found["candidates"][1]["node"]
        why = _CRITERIA.get(found["decidedBy"], found["decidedBy"])
        parts.append(f"  of {found['candidateNodes']} nodes with such pods; before {other}, because {why}")
    return parts


def _render_group_preemption(found: Report, wide: bool) -> list[console.RenderableType]:
    """Whom the pod's group preempts as a whole, and where its members go then; or why it preempts nobody."""
    group = found["podGroup"]
    if "reason" in found:
        return ["", f"Its group {group} preempts nobody: {found['reason']}"]
    victims = found["victims"]
    rows = [[each["pod"], str(each["priority"]), each["node"]] for each in victims]
    shown = rows if wide else rows[: 2 * _PODS]
    table = display.table_of_rows(("POD", "PRIORITY", "EVICTED FROM"), shown, right=("PRIORITY",))
    parts: list[console.RenderableType] = [
        "",
        f"Its group {group} would preempt {_count(len(victims), 'pod')}",
        node_tables.with_indent(table),
    ]
    if len(shown) < len(rows):
        parts.append(f"  and {len(rows) - len(shown)} more (-o wide names them)")
    placements = [f"{each['pod']} on {each['node']}" for each in found["placements"]]
    if placements:
        parts.append(f"  then {_count(len(placements), 'member')} would fit: {_list_text(placements, wide)}")
    return parts


def _node_counts(found: Report) -> list[console.RenderableType]:
    """How many nodes cannot be made to take the pod, by the reason."""
    counts = (
        (found["nodesThatEvictionsDoNotHelp"], "refuses", "refuse", "it for what no eviction changes"),
        (found["nodesWithoutLowerPriority"], "has", "have", "no pod of lower priority"),
        (
            found["nodesWithoutCandidate"],
            "has",
            "have",
            "pods of lower priority, and evicting them is not enough or was not tried",
        ),
    )
    return [
        f"  {_count(number, 'node')} {one if number == 1 else many} {what}"
        for number, one, many, what in counts
        if number
    ]


def _how_chosen(found: Report, now: float | None) -> str:
    """How the node was found, and by how much it was better than the next one."""
    when = f"Decided {display.age_text(found['decidedAt'], now)} ago at generation {found['generation']}"
    nodes = f"{node_tables.feasible_text(found)} were feasible"
    if found["kind"] == "nominated":
        return f"{when}: it was nominated to {found['node']} and tried there first"
    if found["kind"] == "onlyNode" or not found["scorePlugins"]:
        return f"{when}: {nodes}"
    if found["tiedNodes"]:
        tied = _count(found["tiedNodes"], "other node")
        return f"{when}: {nodes}; {tied} had the same total, and the fixed order of nodes decided"
    return f"{when}: {nodes}; it won by {found['margin']}" if found["same"] else f"{when}: {nodes}"


def _steps_text(found: Report) -> str:
    """How long each step took, and which was the longest."""
    taken = [
        f"{_STEPS.get(name, name)} {_seconds_text(seconds)}" for name, seconds in found["steps"].items() if seconds
    ]
    longest = found["longestStep"]
    attempts = f"{_count(found['attempts'], 'attempt')}; " if found.get("attempts") else ""
    if not taken:
        return f"How long it took: {attempts}less than a microsecond was measured"
    return f"How long it took: {attempts}{', '.join(taken)}; longest: {_STEPS.get(longest, longest)}"


def _seconds_text(seconds: float) -> str:
    """A duration in the unit that suits it."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _count(number: int, what: str) -> str:
    """The number with the noun."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _list_text(entries: Sequence[str], wide: bool) -> str:
    """The last entries, or all of them."""
    named = entries if wide else entries[-_PODS:]
    return ("… " if len(named) < len(entries) else "") + ", ".join(named)
