"""What `trireme explain` prints of the decision about a bound pod, and of preemption."""

import re
from typing import Any

import pytest

from trireme.cli import display, explain_command
from trireme.v1 import cycle_pb2, decision_explanation_pb2, insight_pb2, snapshot_pb2, status_pb2
from trireme.wire import json_documents

NODES = [f"worker-{number:02d}.eu-central-1.compute.internal" for number in range(12)]


def decision(**more: Any) -> decision_explanation_pb2.ExplainDecisionResponse:
    """A decision among nodes."""
    out = decision_explanation_pb2.ExplainDecisionResponse(
        node_name=NODES[0],
        kind=decision_explanation_pb2.DECISION_KIND_SCORED,
        generation=812,
        profile="default-scheduler",
        node_count=12,
        feasible_count=11,
        margin=1,
        batch_size=8,
        longest_step="Queue",
        attempts=2,
    )
    refusal = out.refusals.add(node_count=1, nodes=[NODES[11]]).status
    refusal.plugin, refusal.code = "NodeResourcesFit", status_pb2.CODE_UNSCHEDULABLE
    refusal.messages.append("Insufficient cpu")
    for plugin in ("NodeResourcesFit", "TaintToleration"):
        out.score_plugins.add(name=plugin, weight=1)
    for number, name in enumerate(NODES[:10]):
        out.feasible_nodes.add(name=name, total=190 - number, scores=[90 - number, 100])
    for number in range(7):
        out.batch_before.add(pod=cycle_pb2.PodIdentity(namespace="ns", name=f"web-{number}"), node_name=NODES[1])
    steps = {"HeldBack": 250_000, "Queue": 1_500_000, "Filter": 2_000, "Place": 0, "Bind": 500}
    for name, duration in steps.items():
        out.steps.add(name=name, duration_us=duration)
    out.MergeFrom(decision_explanation_pb2.ExplainDecisionResponse(**more))
    return out


def preemption(**more: Any) -> decision_explanation_pb2.PreemptionExplanation:
    """A preemption with a victim and pods that stay."""
    out = decision_explanation_pb2.PreemptionExplanation(
        unresolvable_count=3,
        without_victims_count=1,
        node_name="n1",
        candidate_count=4,
        decided_by="highestPriority",
        **more,
    )
    out.victims.add(pod=cycle_pb2.PodIdentity(namespace="ns", name="low"), priority=1)
    for number in range(20):
        pod = cycle_pb2.PodIdentity(namespace="ns", name=f"stays-{number}")
        out.spared.add(pod=pod, priority=9, reason=decision_explanation_pb2.PREEMPTION_POD_REASON_PRIORITY)
    for name in ("n1", "n2"):
        out.candidates.add(name=name)
    return out


def rendered(columns: int = 120, *, wide: bool = False, all_nodes: bool = False, **fields: Any) -> str:
    """What is shown of an explanation with these fields."""
    pod = cycle_pb2.PodIdentity(namespace="ns", name="web-9")
    found = json_documents.document(insight_pb2.ExplainResponse(pod=pod, **fields))
    return display.as_text(explain_command.render(found, wide, all_nodes=all_nodes), columns)


def shown(columns: int = 120, *, all_nodes: bool = False, **more: Any) -> str:
    """What is shown of a decision."""
    return rendered(columns, all_nodes=all_nodes, node_name="n", decision=decision(**more))


def shown_of_preemption(found: decision_explanation_pb2.PreemptionExplanation) -> str:
    """What is shown of a pending pod that would preempt."""
    return rendered(queued_pod=snapshot_pb2.QueuedPod(pod_class=1), node_count=6, preemption=found)


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
        shown(tied_count=3).split()
    )


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (
            {"kind": decision_explanation_pb2.DECISION_KIND_NOMINATED, "node_name": "n1"},
            "it was nominated to n1 and tried there first",
        ),
        (
            {"kind": decision_explanation_pb2.DECISION_KIND_ONLY_NODE, "feasible_count": 1},
            "1 of 12 nodes were feasible",
        ),
        ({"differs": True}, "Evaluated again, another node comes first"),
        ({"inexact": True}, "it may have been decided on a later state"),
        ({"not_known": ["what the remote plugin Sky answered"]}, "Not known is what the remote plugin Sky answered"),
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
    text = rendered(node_name="n", insight_error="pod: it is too old")
    assert "How it was decided is not known: it is too old" in text


def test_a_group_preempts_on_several_nodes_or_says_why_not() -> None:
    """A group has no node of its own: with one named, it would seem that all victims are there."""
    found = decision_explanation_pb2.PreemptionExplanation(pod_group="gang")
    for number in range(12):
        victim = found.victims.add(priority=1, node_name=f"n{number}")
        victim.pod.namespace, victim.pod.name = "ns", f"low-{number}"
    for number in range(2):
        placement = found.placements.add(node_name=f"n{number}")
        placement.pod.namespace, placement.pod.name = "ns", f"m-{number}"
    text = shown_of_preemption(found)
    assert "Its group gang would preempt 12 pods" in text
    assert re.search(r"ns/low-9 +1  n9", text)
    assert "low-10" not in text
    assert "and 2 more (-o wide names them)" in text
    assert "then 2 members would fit: ns/m-0 on n0, ns/m-1 on n1" in text
    found = decision_explanation_pb2.PreemptionExplanation(pod_group="gang", reason="its members fit without evictions")
    assert "Its group gang preempts nobody: its members fit without evictions" in shown_of_preemption(found)


def test_why_nobody_is_preempted_comes_with_the_numbers_of_nodes() -> None:
    """One of the nodes may be the one that somebody expected."""
    reason = "even without all pods of lower priority it fits on no node"
    text = shown_of_preemption(preemption(reason=reason, not_enough_count=2))
    assert "It preempts nobody: even without all pods of lower priority it fits on no node" in text
    assert "  evicting pods would not help on 3 nodes\n" in text
    assert "  no pod of lower priority is on 1 node\n" in text
    assert "  evicting all pods of lower priority is not enough, or was not tried, on 2 nodes\n" in text
