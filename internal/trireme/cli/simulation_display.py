"""What `trireme simulate` shows: a SimulateResponse as text.

Also change: console/src/views/simulation.tsx, internal/trireme/insight/http_api/simulation_page.py,
console/src/documents.ts (what a simulation is asked and answers).
Also change: protos/trireme/v1/simulation.proto (the messages).

Tests: tests/unit/cli/test_simulate_command.py.
"""

import collections
from collections.abc import Iterable, Sequence

from rich import console, text

from trireme.cli import display, verdict_display
from trireme.cli.display import Report
from trireme.cli.simulation_tables import ROWS, count_text, pod_name, pods_text, reasons_of, table
from trireme.framework import amount_words, amounts
from trireme.v1 import simulation_pb2
from trireme.wire import json_documents

_ORIGINS = {
    simulation_pb2.POD_ORIGIN_QUEUED: "pending now",
    simulation_pb2.POD_ORIGIN_ADDED: "added",
    simulation_pb2.POD_ORIGIN_REPLACEMENT: "in place of one that left",
}


def render(report: Report, wide: bool = False) -> console.Group:
    """Render the answer as text; `wide` shows all rows."""
    found = json_documents.parse(report, simulation_pb2.SimulateResponse())
    parts: list[console.RenderableType] = []
    if found.verdicts:
        parts += verdict_display.render_verdicts(found, wide)
    elif found.HasField("capacity"):
        parts += _render_capacity(found.capacity, wide)
    elif found.moves or found.cordoned:
        parts += _render_plan(found, wide)
    else:
        parts += _render_pods(found, wide)
    if found.HasField("before") and found.HasField("after") and (wide or not found.verdicts):
        parts += ["", display.with_indent(_render_usage(found.before, found.after))]
    if found.disconnected_ms:
        age = found.disconnected_ms / 1000
        parts += ["", text.Text(f"Insight has lost the frontend: the cluster as of {age:.0f} s ago", display.BAD)]
    if found.not_simulated:
        parts += ["", f"Not simulated: {'; '.join(found.not_simulated)}"]
    return console.Group(*parts)


def _render_pods(found: simulation_pb2.SimulateResponse, wide: bool) -> list[console.RenderableType]:
    """Placements, pods that stay pending, evictions, and what blocks drains."""
    placements, pending = found.placements, found.pending
    waiting = sum(len(group.pods) for group in pending)
    summary = text.Text(
        f"{count_text(len(placements), 'pod')} placed, {waiting} pending, {len(found.evictions)} evicted",
        display.BAD if waiting or found.blocked else display.GOOD,
    )
    parts: list[console.RenderableType] = [summary]
    if placements:
        parts += ["", "Placed", display.with_indent(_render_placements(placements, wide))]
    for group in pending if wide else pending[:ROWS]:
        parts += ["", *_render_pending(group, wide)]
    if len(pending) > ROWS and not wide:
        parts.append(f"… and {len(pending) - ROWS} more reasons (-o wide shows them)")
    if found.evictions:
        parts += ["", "Evicted", display.with_indent(_render_evictions(found.evictions, wide))]
    if found.blocked:
        rows = [[pod_name(each.pod), each.node_name, ", ".join(each.budgets)] for each in found.blocked]
        parts += [
            "",
            text.Text("Cannot leave", display.BAD),
            display.with_indent(table(("POD", "NODE", "BUDGETS"), rows, wide)),
        ]
    return parts


def _render_placements(placements: Sequence[simulation_pb2.PodPlacement], wide: bool) -> console.RenderableType:
    """A row for each pod, or, where there are many, for each node."""
    if wide or len(placements) <= ROWS:
        rows = [[pod_name(each.pod), each.node_name, _origin(each)] for each in placements]
        return table(("POD", "NODE", "POD IS"), rows, True)
    by_node = collections.Counter(each.node_name for each in placements)
    rows = [[node, str(count)] for node, count in by_node.most_common()]
    return table(("NODE", "PODS"), rows, wide, right=("PODS",))


def _origin(placement: simulation_pb2.PodPlacement) -> str:
    """Where the pod comes from, in words."""
    if placement.HasField("replaces"):
        return f"in place of {placement.replaces.name}"
    return _ORIGINS.get(placement.origin, "")


def _render_pending(group: simulation_pb2.PendingPods, wide: bool) -> list[console.RenderableType]:
    """Pods that stay pending for one reason."""
    heading = f"Pending: {count_text(len(group.pods), 'pod')}: {pods_text(group.pods, wide)}"
    return [text.Text(heading, display.BAD), *reasons_of(group, wide)]


def _render_evictions(evictions: Iterable[simulation_pb2.PodEviction], wide: bool) -> console.RenderableType:
    """The pods that leave their nodes, and for whom."""
    rows = [
        [pod_name(each.pod), each.node_name, pod_name(each.preemptor) if each.HasField("preemptor") else "drain"]
        for each in evictions
    ]
    return table(("POD", "NODE", "FOR"), rows, wide)


def _render_capacity(capacity: simulation_pb2.PodCapacity, wide: bool) -> list[console.RenderableType]:
    """How many copies fit, and where."""
    parts: list[console.RenderableType] = [
        text.Text(f"{count_text(capacity.pods, 'copy', 'copies')} fit", display.GOOD if capacity.pods else display.BAD)
    ]
    if capacity.nodes:
        rows = [[node.node_name, str(node.pods)] for node in capacity.nodes]
        parts += ["", display.with_indent(table(("NODE", "COPIES"), rows, wide, right=("COPIES",)))]
    return parts


def _render_plan(found: simulation_pb2.SimulateResponse, wide: bool) -> list[console.RenderableType]:
    """The nodes to empty, in order, and the moves."""
    cordoned = found.cordoned
    parts: list[console.RenderableType] = [f"{count_text(len(found.moves), 'node')} can be emptied"]
    if cordoned:
        names = ", ".join(cordoned if wide else cordoned[:3]) + ("" if wide or len(cordoned) <= 3 else " …")
        parts.append(
            f"First cordon the {count_text(len(cordoned), 'node')} without pods, so that no pod moves there: {names}"
        )
    for number, step in enumerate(found.moves, start=1):
        rows = [[each.replaces.name, each.node_name] for each in step.placements]
        parts += ["", f"{number}. drain {step.node_name}", display.with_indent(table(("POD", "GOES TO"), rows, wide))]
    return parts


def _render_usage(before: simulation_pb2.ClusterUsage, after: simulation_pb2.ClusterUsage) -> console.RenderableType:
    """The cluster before and after."""
    rows = [
        ["nodes", str(before.node_count), str(after.node_count)],
        ["nodes in use", str(before.used_nodes), str(after.used_nodes)],
        ["pods on nodes", str(before.placed_pods), str(after.placed_pods)],
    ]
    were = {each.name: each for each in before.resources}
    rows += [[f"{each.name} requested", _share(were.get(each.name)), _share(each)] for each in after.resources]
    shape = " and ".join(
        amount_words.amount(name, amounts.quantity_text(name, amount))
        for name, amount in sorted(after.reference_requests.items())
    )
    if shape:
        rows.append(["fragmentation", f"{before.fragmentation:.1%}", f"{after.fragmentation:.1%}"])
        rows.append([f"pods of {shape} that fit", str(before.reference_pods), str(after.reference_pods)])
    return display.table_of_rows(("", "BEFORE", "AFTER"), rows, right=("BEFORE", "AFTER"))


def _share(resource: simulation_pb2.ResourceUsage | None) -> str:
    if resource is None or not resource.allocatable:
        return "-"
    return f"{resource.requested / resource.allocatable:.1%}"
