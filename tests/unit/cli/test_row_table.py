"""Tables of rows at the widths of terminals: no column is lost when another one is long."""

from collections.abc import Sequence
from typing import Any

import pytest

from trireme.cli import display, node_tables, simulation_display, status_command
from trireme.v1 import insight_pb2, status_pb2

# As charts and workflow engines name pods, and clouds name nodes.
POD = "default/a-pod-with-a-rather-long-name-as-operators-generate-them-in-real-life-7f9c6d5b8-x2x4q"
LONG = {"namespace": "default", "name": POD.removeprefix("default/")}
NODE = "ip-10-0-131-27.eu-central-1.compute.internal"
REASON = (
    "was refused by NodeAffinity: 30 node(s) didn't match Pod's node affinity/selector; is tried again when a node is "
    "added, a node's labels change or on 12 rarer events"
)
SUMMARY = {
    "leadership": {"leading": True, "epoch": 7, "holder": "me", "secondsLeft": 12.3}, "synced": True,
    "queue": {"active": 1}, "cluster": {"nodes": 5, "pods": 9, "assumedPods": 0, "podClasses": 2},
    "pendingPods": 2,
}  # fmt: skip


def _status(columns: int, *, wide: bool, one_by_one: bool) -> str:
    pod = {"attempts": 12, "priority": 1000, "profile": "default-scheduler", "summary": REASON}
    alike = {"count": 1, "podClass": 4711, "minAttempts": 1, "maxAttempts": 12, "summary": REASON}
    short = {"namespace": "default", "name": "short"}
    report = {
        **SUMMARY,
        "pending": [{**pod, "pod": LONG}, {**pod, "pod": short}],
        "pendingAlike": [{**alike, "example": LONG}, {**alike, "example": short}],
    }
    return display.as_text(status_command.render(report, wide, one_by_one=one_by_one), columns)


MESSAGE = "node(s) didn't match Pod's node affinity/selector"


def _refusals() -> list[insight_pb2.NodeRefusal]:
    code = status_pb2.CODE_UNSCHEDULABLE_AND_UNRESOLVABLE
    status = status_pb2.Status(plugin="NodeAffinity", code=code, messages=[MESSAGE])
    return [insight_pb2.NodeRefusal(status=status, node_count=30, nodes=[NODE] * 30)]


def _simulated() -> Any:
    refusal = {"plugin": "NodeAffinity", "messages": [MESSAGE], "nodeCount": 30, "exampleNodes": [NODE] * 10}
    name = LONG
    return {
        "placements": [{"pod": name, "nodeName": NODE, "origin": "POD_ORIGIN_ADDED"}],
        "pending": [{"pods": [name], "message": "0/30", "refusals": [refusal], "nominatedNode": ""}],
        "evictions": [{"pod": name, "nodeName": NODE, "preemptor": name}],
        "blocked": [{"pod": name, "nodeName": NODE, "budgets": [POD]}],
    }


def _evaluated() -> insight_pb2.ExplainResponse:
    plugins = [insight_pb2.WeightedScorePlugin(name=name, weight=3) for name in ("NodeResourcesFit", "TaintToleration")]
    node = insight_pb2.FeasibleNode(name=NODE * 2, total=793, scores=[91, 100])
    return insight_pb2.ExplainResponse(
        score_plugins=plugins, refusals=_refusals(), feasible_nodes=[node], feasible_count=1
    )


@pytest.mark.parametrize("one_by_one", [False, True], ids=["alike", "one by one"])
@pytest.mark.parametrize("wide", [False, True], ids=["text", "wide"])
@pytest.mark.parametrize("columns", [80, 100, 120])
def test_one_long_name_leaves_each_pod_its_reason(columns: int, wide: bool, one_by_one: bool) -> None:
    """The operator sees neither why pods wait, nor that a column was left out."""
    shown = _status(columns, wide=wide, one_by_one=one_by_one)
    lines = shown.splitlines()
    assert max(map(len, lines)) <= columns
    assert "…" not in shown
    header = next(line for line in lines if line.endswith("STATUS"))
    assert {"AGE", "ATTEMPTS", "POD" if one_by_one else "EXAMPLE"} <= set(header.split())
    at = header.index("STATUS")
    reasons = " ".join(line[at:].strip() for line in lines[lines.index(header) + 1 :])
    assert reasons == f"{REASON} {REASON}"
    assert columns - at >= columns // 5
    begin, end = header.index("POD" if one_by_one else "EXAMPLE"), header.index("AGE") - 2
    assert POD in "".join(line[begin:end].strip() for line in lines[lines.index(header) + 1 :])


@pytest.mark.parametrize("columns", [80, 100, 120])
@pytest.mark.parametrize(
    ("what", "texts"),
    [
        (node_tables.refusals_table(_refusals(), wide=False), ["match Pod's"]),
        (node_tables.refusals_table(_refusals(), wide=True), ["match Pod's"]),
        (node_tables.all_nodes_table(_evaluated()), ["match Pod's"]),
        (node_tables.feasible_nodes_table(_evaluated(), wide=False), ["NodeResourcesFit 91×3,"]),
        (simulation_display.render(_simulated()), ["match Pod's", "added"]),
        (simulation_display.render(_simulated(), wide=True), ["match Pod's", "added"]),
        (
            display.table_of_rows(
                ("POD", "PRIORITY", "WHAT HAPPENS"), [[POD, "-1000000000", "evicted, though a budget protects it"]],
                right=("PRIORITY",),
            ),
            ["-1000000000", "evicted, though"],
        ),
    ],
    ids=["refusals", "refusals wide", "all nodes", "feasible nodes", "simulate", "simulate wide", "preemption"],
)  # fmt: skip
def test_long_names_leave_room_for_reasons(what: Any, texts: Sequence[str], columns: int) -> None:
    """A column of a few letters a line is no text; one that is left out is a wrong answer."""
    shown = display.as_text(what, columns)
    assert max(map(len, shown.splitlines())) <= columns
    assert all(text in shown for text in texts)
