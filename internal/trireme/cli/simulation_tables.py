"""Parts of what `trireme simulate` shows: tables that end after some rows, and why pods are pending.

Also change: protos/trireme/v1/simulation.proto (the messages).

Tests: tests/unit/cli/test_simulate_command.py, tests/unit/cli/test_verdict_display.py.
"""

from collections.abc import Sequence

from rich import console

from trireme.cli import display, node_tables
from trireme.v1 import cycle_pb2, simulation_pb2

ROWS = 10
"""How many rows of a table are shown, unless all are."""
_NAMED = 3


def pods_text(pods: Sequence[cycle_pb2.PodIdentity], wide: bool) -> str:
    """The names of the pods; the first of them unless `wide`."""
    names = [pod_name(pod) for pod in pods]
    return ", ".join(names if wide else names[:_NAMED]) + ("" if wide or len(names) <= _NAMED else " …")


def reasons_of(group: simulation_pb2.PendingPods, wide: bool) -> list[console.RenderableType]:
    """Why pods stay pending: who refuses them on how many nodes, or the message of the last attempt."""
    parts: list[console.RenderableType] = []
    if group.nominated_node:
        parts.append(display.with_indent(f"nominated to {group.nominated_node}"))
    if not group.message:
        parts.append(display.with_indent("held back: it is not tried"))
    refusals = [group.pre_filter] if group.HasField("pre_filter") else list(group.refusals)
    if refusals:
        rows = [
            [
                str(each.node_count),
                node_tables.refused_by(each.plugin),
                _reason_text(each),
                _examples(each, wide),
            ]
            for each in refusals
        ]
        headers, texts = ("NODES", "REFUSED BY", "REASON", "EXAMPLES"), ("REASON", "EXAMPLES")
        parts.append(display.with_indent(table(headers, rows, wide, right=("NODES",), wrapped=texts)))
    elif group.message:
        parts.append(display.with_indent(group.message))
    return parts


def _reason_text(refusal: simulation_pb2.SimulatedStatus) -> str:
    """The messages, and the reasons behind them."""
    details = node_tables.reasons_text(refusal.plugin, refusal.reasons)
    return f"{', '.join(refusal.messages)}{f' ({details})' if details else ''}"


def _examples(refusal: simulation_pb2.SimulatedStatus, wide: bool) -> str:
    """Names of nodes, with an ellipsis where there are more; three of them, unless `wide`."""
    names = refusal.example_nodes if wide else refusal.example_nodes[:3]
    return f"{', '.join(names)}{' …' if refusal.node_count > len(names) > 0 else ''}"


def table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    wide: bool,
    right: Sequence[str] = (),
    wrapped: Sequence[str] = (),
) -> console.RenderableType:
    """A table; not `wide`: of the first rows, and below it how many more there are."""
    shown = rows if wide else rows[:ROWS]
    out = display.table_of_rows(headers, shown, right=right, wrapped=wrapped)
    more = len(rows) - len(shown)
    return console.Group(out, f"… and {more} more (-o wide shows them)") if more else out


def pod_name(pod: cycle_pb2.PodIdentity) -> str:
    """Namespace and name."""
    return f"{pod.namespace}/{pod.name}"


def count_text(number: int, one: str, many: str = "") -> str:
    """A number of things, in words."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"
