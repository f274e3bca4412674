"""What `trireme simulate` shows: a SimulateResponse as text."""

import collections
from collections.abc import Sequence
from typing import Any

from rich import console, padding, text

from trireme.cli import display
from trireme.cli.display import Report
from trireme.framework import amounts

# How many rows of a table are shown, unless all are.
_ROWS = 10

_ORIGINS = {
    "POD_ORIGIN_QUEUED": "pending now",
    "POD_ORIGIN_ADDED": "added",
    "POD_ORIGIN_REPLACEMENT": "in place of one that left",
}


def render(report: Report, wide: bool = False) -> console.Group:
    """Render the answer as text; `wide` shows all rows."""
    parts: list[console.RenderableType] = []
    if report.get("capacity"):
        parts += _render_capacity(report["capacity"], wide)
    elif report.get("moves") or report.get("cordoned"):
        parts += _render_plan(report, wide)
    else:
        parts += _render_pods(report, wide)
    if report.get("before") and report.get("after"):
        parts += ["", _indent(_render_usage(report["before"], report["after"]))]
    age = int(report.get("disconnectedMs", 0)) / 1000
    if age:
        parts += ["", text.Text(f"Insight has lost the frontend: the cluster as of {age:.0f} s ago", display.BAD)]
    if report.get("notSimulated"):
        parts += ["", f"Not simulated: {'; '.join(report['notSimulated'])}"]
    return console.Group(*parts)


def _render_pods(report: Report, wide: bool) -> list[console.RenderableType]:
    """Placements, pods that stay pending, evictions, and what blocks drains."""
    placements, pending = report["placements"], report["pending"]
    waiting = sum(len(group["pods"]) for group in pending)
    summary = text.Text(
        f"{_count(len(placements), 'pod')} placed, {waiting} pending, {len(report['evictions'])} evicted",
        display.BAD if waiting or report["blocked"] else display.GOOD,
    )
    parts: list[console.RenderableType] = [summary]
    if placements:
        parts += ["", "Placed", _indent(_render_placements(placements, wide))]
    for group in pending if wide else pending[:_ROWS]:
        parts += ["", *_render_pending(group, wide)]
    if len(pending) > _ROWS and not wide:
        parts.append(f"… and {len(pending) - _ROWS} more reasons (-o wide shows them)")
    if report["evictions"]:
        parts += ["", "Evicted", _indent(_render_evictions(report["evictions"], wide))]
    if report["blocked"]:
        rows = [[_name(each["pod"]), each["nodeName"], ", ".join(each["budgets"])] for each in report["blocked"]]
        parts += ["", text.Text("Cannot leave", display.BAD), _indent(_table(("POD", "NODE", "BUDGETS"), rows, wide))]
    return parts


def _render_placements(placements: Sequence[Report], wide: bool) -> console.RenderableType:
    """A row for each pod, or, where there are many, for each node."""
    if wide or len(placements) <= _ROWS:
        rows = [[_name(each["pod"]), each["nodeName"], _origin(each)] for each in placements]
        return _table(("POD", "NODE", "POD IS"), rows, True)
    by_node = collections.Counter(each["nodeName"] for each in placements)
    rows = [[node, str(count)] for node, count in by_node.most_common()]
    return _table(("NODE", "PODS"), rows, wide, right=("PODS",))


def _origin(placement: Report) -> str:
    """Where the pod comes from, in words."""
    replaces = placement.get("replaces")
    return f"in place of {replaces['name']}" if replaces else _ORIGINS.get(placement["origin"], "")


def _render_pending(group: Report, wide: bool) -> list[console.RenderableType]:
    """Pods that stay pending for one reason."""
    names = [_name(pod) for pod in group["pods"]]
    shown = ", ".join(names if wide else names[:3]) + ("" if wide or len(names) <= 3 else " …")
    parts: list[console.RenderableType] = [text.Text(f"Pending: {_count(len(names), 'pod')}: {shown}", display.BAD)]
    if group["nominatedNode"]:
        parts.append(_indent(f"nominated to {group['nominatedNode']}"))
    if not group["message"]:
        parts.append(_indent("held back: it is not tried"))
    refusals = [group["preFilter"]] if group.get("preFilter") else group["refusals"]
    if refusals:
        rows = [
            [str(each["nodeCount"]), each["plugin"], ", ".join(each["messages"]), _examples(each, wide)]
            for each in refusals
        ]
        headers, texts = ("NODES", "REFUSED BY", "REASON", "EXAMPLES"), ("REASON", "EXAMPLES")
        parts.append(_indent(_table(headers, rows, wide, right=("NODES",), wrapped=texts)))
    elif group["message"]:
        parts.append(_indent(group["message"]))
    return parts


def _examples(refusal: Report, wide: bool) -> str:
    """Names of nodes, with an ellipsis where there are more; three of them, unless `wide`."""
    names = refusal["exampleNodes"] if wide else refusal["exampleNodes"][:3]
    return f"{', '.join(names)}{' …' if int(refusal['nodeCount']) > len(names) > 0 else ''}"


def _render_evictions(evictions: Sequence[Report], wide: bool) -> console.RenderableType:
    """The pods that leave their nodes, and for whom."""
    rows = [
        [_name(each["pod"]), each["nodeName"], _name(each["preemptor"]) if each.get("preemptor") else "drain"]
        for each in evictions
    ]
    return _table(("POD", "NODE", "FOR"), rows, wide)


def _render_capacity(capacity: Report, wide: bool) -> list[console.RenderableType]:
    """How many copies fit, and where."""
    count = int(capacity["pods"])
    parts: list[console.RenderableType] = [
        text.Text(f"{_count(count, 'copy', 'copies')} fit", display.GOOD if count else display.BAD)
    ]
    if capacity["nodes"]:
        rows = [[node["nodeName"], str(node["pods"])] for node in capacity["nodes"]]
        parts += ["", _indent(_table(("NODE", "COPIES"), rows, wide, right=("COPIES",)))]
    return parts


def _render_plan(report: Report, wide: bool) -> list[console.RenderableType]:
    """The nodes to empty, in order, and the moves."""
    moves, cordoned = report["moves"], report.get("cordoned", ())
    parts: list[console.RenderableType] = [f"{_count(len(moves), 'node')} can be emptied"]
    if cordoned:
        names = ", ".join(cordoned if wide else cordoned[:3]) + ("" if wide or len(cordoned) <= 3 else " …")
        parts.append(
            f"First cordon the {_count(len(cordoned), 'node')} without pods, so that no pod moves there: {names}"
        )
    for number, step in enumerate(moves, start=1):
        rows = [[each["replaces"]["name"], each["nodeName"]] for each in step["placements"]]
        parts += [
            "",
            f"{number}. drain {step['nodeName']}",
            _indent(_table(("POD", "GOES TO"), rows, wide)),
        ]
    return parts


def _render_usage(before: Report, after: Report) -> console.RenderableType:
    """The cluster before and after."""
    rows = [
        ["nodes", str(before["nodeCount"]), str(after["nodeCount"])],
        ["nodes in use", str(before["usedNodes"]), str(after["usedNodes"])],
        ["pods on nodes", str(before["placedPods"]), str(after["placedPods"])],
    ]
    were = {each["name"]: each for each in before["resources"]}
    rows += [[f"{each['name']} requested", _share(were.get(each["name"])), _share(each)] for each in after["resources"]]
    shape = " and ".join(
        f"{amounts.quantity_text(name, int(amount))} {name}"
        for name, amount in sorted(after["referenceRequests"].items())
    )
    if shape:
        rows.append(["fragmentation", f"{before['fragmentation']:.1%}", f"{after['fragmentation']:.1%}"])
        rows.append([f"pods of {shape} that fit", str(before["referencePods"]), str(after["referencePods"])])
    return display.table_of_rows(("", "BEFORE", "AFTER"), rows, right=("BEFORE", "AFTER"))


def _share(resource: Report | None) -> str:
    if resource is None or not int(resource["allocatable"]):
        return "-"
    return f"{int(resource['requested']) / int(resource['allocatable']):.1%}"


def _table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    wide: bool,
    right: Sequence[str] = (),
    wrapped: Sequence[str] = (),
) -> console.RenderableType:
    """A table; not `wide`: of the first rows, and below it how many more there are."""
    shown = rows if wide else rows[:_ROWS]
    out = display.table_of_rows(headers, shown, right=right, wrapped=wrapped)
    more = len(rows) - len(shown)
    return console.Group(out, f"… and {more} more (-o wide shows them)") if more else out


def _indent(what: console.RenderableType) -> padding.Padding:
    return padding.Padding(what, (0, 0, 0, 2))


def _name(pod: Any) -> str:
    return f"{pod['namespace']}/{pod['name']}"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or f'{one}s'}"
