"""What `trireme explain` prints of the decision about a bound pod, and of preemption."""

import re
from typing import Any

import pytest

from trireme.cli import display, explain_command
from trireme.frontend.serving import preemption_report
from trireme.v1 import decision_explanation_pb2

NODES = [f"worker-{number:02d}.eu-central-1.compute.internal" for number in range(12)]


def decision(**more: Any) -> dict[str, Any]:
    """A decision among nodes, as the frontend reports it."""
    plugins = ("NodeResourcesFit", "TaintToleration")
    scores = [{"NodeResourcesFit": 90 - number, "TaintToleration": 100} for number in range(10)]
    return {
        "node": NODES[0],
        "kind": "scored",
        "generation": 812,
        "decidedAt": 0.0,
        "profile": "default-scheduler",
        "exact": True,
        "same": True,
        "notKnown": [],
        "nodes": 12,
        "feasibleNodes": 11,
        "refusals": [
            {
                "plugin": "NodeResourcesFit",
                "code": "Unschedulable",
                "messages": ["Insufficient cpu"],
                "reasons": [],
                "nodes": 1,
                "names": [NODES[11]],
            }
        ],
        "scorePlugins": [{"plugin": plugin, "weight": 1, "skipped": False} for plugin in plugins],
        "feasible": [
            {"node": name, "total": sum(each.values()), "scores": each}
            for name, each in zip(NODES, scores, strict=False)
        ],
        "margin": 1,
        "tiedNodes": 0,
        "batch": {"pods": 8, "before": [{"pod": f"ns/web-{number}", "node": NODES[1]} for number in range(7)]},
        "steps": {"HeldBack": 0.25, "Queue": 1.5, "Filter": 0.002, "Place": 0.0, "Bind": 0.0005},
        "longestStep": "Queue",
        "attempts": 2,
        **more,
    }


def preemption(**more: Any) -> dict[str, Any]:
    """A preemption with a victim and pods that stay."""
    return {
        "nodesThatEvictionsDoNotHelp": 3,
        "nodesWithoutLowerPriority": 1,
        "nodesWithoutCandidate": 0,
        "node": "n1",
        "victims": [{"pod": "ns/low", "priority": 1}],
        "spared": [{"pod": f"ns/stays-{number}", "priority": 9, "reason": "priority"} for number in range(20)],
        "budgetViolations": 0,
        "candidates": [{"node": "n1"}, {"node": "n2"}],
        "candidateNodes": 4,
        "decidedBy": "highestPriority",
        **more,
    }


def shown(columns: int = 120, *, wide: bool = False, all_nodes: bool = False, **more: Any) -> str:
    report = {"pod": "ns/web-9", "summary": "is bound to node n", "place": "bound", "decision": decision(**more)}
    return display.as_text(explain_command.render(report, wide, all_nodes=all_nodes), columns)


@pytest.mark.parametrize("columns", [80, 120])
def test_a_decision_fits_the_terminal(columns: int) -> None:
    """Lines that the terminal breaks cannot be read as tables."""
    text = shown(columns, preemption=preemption())
    assert max(map(len, text.splitlines())) <= columns
    joined = " ".join(text.split())
    assert "11 of 12 nodes were feasible; it won by 1" in joined
    assert "6 more (-o wide names them)" in joined
    assert "The same answer placed 7 pods before it: … ns/web-2 on" in joined
    assert "2 attempts; held back before it could be tried 250.0 ms, waiting in the queue 1.5 s, Filter" in joined
    assert "Filter 2.0 ms, Bind 500 µs; longest: waiting in the queue" in joined
    assert "It preempted on n1" in joined
    assert "of 4 nodes with such pods; before n2, because its most important victim has a lower priority" in joined
    assert "ns/low 1 evicted" in joined
    assert "more that stay (-o wide names them)" in joined


def test_a_tie_is_named_as_one() -> None:
    """`won by 0` would be a riddle."""
    assert "3 other nodes had the same total, and the fixed order of nodes decided" in " ".join(
        shown(margin=0, tiedNodes=3).split()
    )


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"kind": "nominated", "node": "n1"}, "it was nominated to n1 and tried there first"),
        ({"kind": "onlyNode", "feasibleNodes": 1}, "1 of 12 nodes were feasible"),
        ({"same": False}, "Evaluated again, another node comes first"),
        ({"exact": False}, "it may have been decided on a later state"),
        ({"notKnown": ["what the remote plugin Sky answered"]}, "Not known is what the remote plugin Sky answered"),
    ],
    ids=["nominated", "only-node", "differs", "inexact", "not-known"],
)
def test_what_is_particular_is_said(more: dict[str, Any], text: str) -> None:
    """Who reads it would take it for an exact account of scores."""
    assert text in shown(**more)


def test_all_nodes_have_a_line_each_in_the_order_of_numbers() -> None:
    """`--all-nodes` is for the node that somebody has in mind."""
    text = shown(all_nodes=True)
    lines = [line.split() for line in text.splitlines() if line.startswith("  worker-")]
    assert [line[0] for line in lines] == [*NODES[:10], NODES[11]]
    assert lines[0][1:] == ["190", "feasible"]
    assert lines[-1][1:] == ["NodeResourcesFit", "Insufficient", "cpu"]


def test_a_decision_that_is_not_in_memory_is_said_to_be_unknown() -> None:
    """Nothing at all looks as if the command were broken."""
    report = {"pod": "ns/p", "summary": "is bound", "place": "bound", "decision": {"error": "it is too old"}}
    assert "How it was decided is not known: it is too old" in display.as_text(explain_command.render(report))


def test_a_group_preempts_on_several_nodes_or_says_why_not() -> None:
    """A group has no node of its own: with one named, it would seem that all victims are there."""

    def shown_of(found: decision_explanation_pb2.PreemptionExplanation) -> str:
        evaluation = {
            "nodes": 6, "feasibleNodes": 0, "refusals": [], "feasible": [], "scorePlugins": [],
            "preemption": preemption_report.preemption_json(found),
        }  # fmt: skip
        report = {"pod": "ns/m-0", "summary": "was refused", "evaluation": evaluation}
        return display.as_text(explain_command.render(report))

    found = decision_explanation_pb2.PreemptionExplanation(pod_group="gang")
    for number in range(12):
        victim = found.victims.add(priority=1, node_name=f"n{number}")
        victim.pod.namespace, victim.pod.name = "ns", f"low-{number}"
    for number in range(2):
        placement = found.placements.add(node_name=f"n{number}")
        placement.pod.namespace, placement.pod.name = "ns", f"m-{number}"
    text = shown_of(found)
    assert "Its group gang would preempt 12 pods" in text
    assert re.search(r"ns/low-9 +1  n9", text)
    assert "low-10" not in text
    assert "and 2 more (-o wide names them)" in text
    assert "then 2 members would fit: ns/m-0 on n0, ns/m-1 on n1" in text
    found = decision_explanation_pb2.PreemptionExplanation(pod_group="gang", reason="its members fit without evictions")
    assert "Its group gang preempts nobody: its members fit without evictions" in shown_of(found)


def test_why_nobody_is_preempted_comes_with_the_numbers_of_nodes() -> None:
    """One of the nodes may be the one that somebody expected."""
    found = preemption(reason="even without all pods of lower priority it fits on no node", nodesWithoutCandidate=2)
    evaluation = {
        "nodes": 6, "feasibleNodes": 0, "refusals": [], "feasible": [], "scorePlugins": [], "preemption": found
    }  # fmt: skip
    report = {"pod": "ns/p", "summary": "was refused", "evaluation": evaluation}
    text = display.as_text(explain_command.render(report))
    assert "It preempts nobody: even without all pods of lower priority it fits on no node" in text
    assert "3 nodes refuse it for what no eviction changes" in text
    assert "1 node have" not in text
    assert "1 node has no pod of lower priority" in text
