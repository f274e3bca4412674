"""What `trireme simulate -f` shows of manifests: whether they fit, and where, or why not and what would help.

Tests: tests/unit/cli/test_verdict_display.py.
"""

from collections.abc import Iterable

from google.protobuf import json_format
from rich import console, text

from trireme.cli import display, proposals_display
from trireme.cli.simulation_tables import count_text, pod_name, pods_text, reasons_of, table
from trireme.v1 import insight_pb2, simulation_pb2

_NODES = 5
_KINDS = {
    simulation_pb2.VERDICT_FITS: display.GOOD,
    simulation_pb2.VERDICT_FITS_AFTER_EVICTIONS: "yellow",
    simulation_pb2.VERDICT_DOES_NOT_FIT: display.BAD,
    simulation_pb2.VERDICT_HELD_BACK: "yellow",
    simulation_pb2.VERDICT_NO_PODS: "",
}


def render_verdicts(found: simulation_pb2.SimulateResponse, wide: bool) -> list[console.RenderableType]:
    """A paragraph for each manifest that makes pods, and what happens to others; `wide`: with all names."""
    parts: list[console.RenderableType] = []
    for verdict in found.verdicts:
        parts += ["", *_render_verdict(verdict, wide)] if parts else _render_verdict(verdict, wide)
    parts += _render_others(found, wide)
    return parts


def _render_verdict(verdict: simulation_pb2.ManifestVerdict, wide: bool) -> list[console.RenderableType]:
    name = f"{verdict.kind} {verdict.namespace}/{verdict.name}"
    heading = text.Text(f"{name}: {_summary(verdict, wide)}", _KINDS.get(verdict.verdict, ""))
    parts: list[console.RenderableType] = [heading]
    parts += [display.with_indent(note) for note in verdict.notes if verdict.verdict != simulation_pb2.VERDICT_NO_PODS]
    if verdict.evictions:
        rows = [[pod_name(each.pod), each.node_name] for each in verdict.evictions]
        parts.append(display.with_indent(table(("EVICTED", "NODE"), rows, wide)))
    held_back = verdict.verdict == simulation_pb2.VERDICT_HELD_BACK
    for unplaced in () if held_back and verdict.notes else verdict.unplaced:
        group = unplaced.pending
        if len(verdict.unplaced) > 1 or verdict.placed_count:
            parts.append(
                display.with_indent(
                    f"{count_text(len(group.pods), 'pod')} without a node: {pods_text(group.pods, wide)}"
                )
            )
        parts += [*reasons_of(group, wide), *_render_proposals(unplaced, wide)]
    return parts


def _summary(verdict: simulation_pb2.ManifestVerdict, wide: bool) -> str:
    """The verdict in a line."""
    pods = count_text(verdict.pod_count, "pod")
    where = f"{pods} on {_nodes_text(verdict.nodes, wide)}"
    match verdict.verdict:
        case simulation_pb2.VERDICT_FITS:
            return f"fits: {where}"
        case simulation_pb2.VERDICT_FITS_AFTER_EVICTIONS:
            return f"fits after evicting {count_text(len(verdict.evictions), 'pod')}: {where}"
        case simulation_pb2.VERDICT_DOES_NOT_FIT if verdict.placed_count:
            fit = f"{verdict.placed_count} of {pods} {'fits' if verdict.placed_count == 1 else 'fit'}"
            return f"does not fit: {fit}, on {_nodes_text(verdict.nodes, wide)}"
        case simulation_pb2.VERDICT_DOES_NOT_FIT:
            return f"does not fit: none of {pods} has a node" if verdict.pod_count > 1 else "does not fit"
        case simulation_pb2.VERDICT_HELD_BACK:
            return f"is held back: {verdict.pod_count - verdict.placed_count} of {pods} would not be tried"
        case simulation_pb2.VERDICT_NO_PODS:
            return f"makes no pods{''.join(f': {note}' for note in verdict.notes)}"
    return "an answer that this release of trireme does not know"


def _nodes_text(nodes: Iterable[simulation_pb2.NodeCapacity], wide: bool) -> str:
    """The nodes, with how many pods each has if more than one."""
    named = [f"{each.node_name} ({each.pods})" if each.pods > 1 else each.node_name for each in nodes]
    shown = named if wide else named[:_NODES]
    more = len(named) - len(shown)
    hidden = f" and {count_text(more, 'more node')} (-o wide shows them)" if more else ""
    return f"{', '.join(shown)}{hidden}"


def _render_proposals(unplaced: simulation_pb2.UnplacedPods, wide: bool) -> list[console.RenderableType]:
    """What would help, as `trireme explain --proposals` shows it."""
    if not unplaced.pending.message:
        return []
    proposals = [
        json_format.ParseDict(json_format.MessageToDict(each), insight_pb2.Proposal(), ignore_unknown_fields=True)
        for each in unplaced.proposals
    ]
    answer = insight_pb2.ExplainResponse(proposals=proposals)
    return [display.with_indent(each) for each in proposals_display.render_proposals(answer, wide, requested=True)[1:]]


def _render_others(found: simulation_pb2.SimulateResponse, wide: bool) -> list[console.RenderableType]:
    """Pods that are not of the manifests: those of them that get a node too, and those that wait as before."""
    placed = [each for each in found.placements if each.origin != simulation_pb2.POD_ORIGIN_ADDED]
    waiting = [
        pod
        for group in found.pending
        for pod, origin in zip(group.pods, group.origins, strict=True)
        if origin != simulation_pb2.POD_ORIGIN_ADDED
    ]
    parts: list[console.RenderableType] = []
    if placed:
        named = pods_text([each.pod for each in placed], wide)
        parts += ["", f"Beside them {count_text(len(placed), 'other pod')} would get a node: {named}"]
    if waiting:
        named = pods_text(waiting, wide)
        parts += ["", f"Still pending: {count_text(len(waiting), 'other pod')}: {named}"]
    return parts
