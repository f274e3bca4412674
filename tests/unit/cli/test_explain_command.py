"""What `trireme explain` prints of insight's evaluation, and what it prints without insight."""

from typing import Any, get_args

import pytest

from tests.helpers import console_states
from trireme.cli import display, explain_command, proposals_display
from trireme.queueing import states
from trireme.v1 import insight_pb2
from trireme.wire import json_documents


def report(**evaluation: Any) -> dict[str, Any]:
    """A pod that NodeResourcesFit refused, with what filter answered then; and insight's evaluation, if any."""
    status = {"plugin": "NodeResourcesFit", "code": "CODE_UNSCHEDULABLE", "messages": ["Insufficient cpu"]}
    refusals = [{"status": status, "nodeCount": 3, "nodes": ["old-node"]}]
    own = {
        "summary": "was refused",
        "lastAnswer": {"nodeCount": 3, "refusals": refusals},
        "leadership": {"leading": True},
        "synced": True,
    }
    return {"pod": {"namespace": "ns", "name": "p"}, "scheduler": own, **evaluation}


def evaluated(open_nodes: int = 7, **more: Any) -> dict[str, Any]:
    names = [f"worker-{number:04d}.eu-central-1.compute.internal" for number in range(40)]
    weights = {
        "NodeResourcesFit": 1, "TaintToleration": 3, "PodTopologySpread": 2, "InterPodAffinity": 2, "Zero": 1
    }  # fmt: skip
    status = {
        "plugin": "TaintToleration",
        "code": "CODE_UNSCHEDULABLE_AND_UNRESOLVABLE",
        "messages": ["node(s) had untolerated taint(s)"],
    }
    scores = [66, 100, 87, 3, 0]
    return {
        "queuedPod": {"podClass": 1},
        "evaluatedGeneration": "9",
        "nodeCount": 40 + open_nodes,
        "feasibleCount": open_nodes,
        "refusals": [{"status": status, "nodeCount": len(names), "nodes": names}],
        "feasibleNodes": [
            {"name": f"n{number}", "total": 500 - number, "scores": scores} for number in range(open_nodes)
        ],
        "scorePlugins": [{"name": name, "weight": weight} for name, weight in weights.items()],
        **more,
    }


@pytest.mark.parametrize("columns", [80, 120])
def test_an_evaluation_fits_the_terminal(columns: int) -> None:
    """Lines that are cut off or broken by the terminal cannot be read as a table."""
    shown = display.as_text(explain_command.render(report(**evaluated())), columns)
    assert max(map(len, shown.splitlines())) <= columns
    assert "7 of 47 nodes are feasible now" in shown
    assert "TaintToleration" in shown
    assert "worker-0000" in shown
    lines = shown.splitlines()
    best = next(number for number, line in enumerate(lines) if line.startswith("  n0 "))
    assert lines[best].split()[:3] == ["n0", "500", "NodeResourcesFit"]
    assert "TaintToleration 100×3" in " ".join(line.strip() for line in lines[best : best + 2])
    assert "Zero" not in shown
    assert "2 more (-o wide names them)" in shown


@pytest.mark.parametrize("columns", [80, 120])
def test_many_examples_hide_neither_the_count_nor_the_reason(columns: int) -> None:
    names = [f"worker-{number:04}.example.internal" for number in range(10)]
    own = report()
    (refusal,) = own["scheduler"]["lastAnswer"]["refusals"]
    refusal |= {"nodeCount": 1234, "nodes": names}
    shown = display.as_text(explain_command.render(own, True), columns)
    assert max(map(len, shown.splitlines())) <= columns
    row = next(line for line in shown.splitlines() if "1234" in line and "Fit" in line)
    assert row.split()[:4] == ["1234", "NodeResourcesFit", "Insufficient", "cpu"]
    assert all(name in shown for name in names)


def test_an_evaluation_replaces_filters_last_answer() -> None:
    shown = display.as_text(explain_command.render(report(**evaluated())))
    assert "old-node" not in shown
    assert "0 of 3" not in shown


def test_without_insight_filters_last_answer_is_shown() -> None:
    """Insight is optional."""
    shown = display.as_text(explain_command.render(report()))
    assert "0 of 3 nodes are feasible" in shown
    assert "old-node" in shown


def test_where_insight_does_not_answer_its_problem_is_named() -> None:
    shown = display.as_text(explain_command.render(report(insightError="no replica of insight is in step")))
    assert "Insight does not evaluate it: no replica of insight is in step" in shown
    assert "0 of 3 nodes are feasible" in shown


def test_what_is_missing_from_an_evaluation_is_named() -> None:
    """Insight calls no HTTP extenders, may be cut off, and plugins may fail."""
    refused = {"plugin": "VolumeBinding", "code": "CODE_ERROR", "messages": ["claim not found"]}
    missing = {
        "feasibleNodes": [],
        "scorePlugins": [],
        "notKnown": ["what HTTP extenders would refuse: http://extender"],
        "disconnectedMs": "61400",
        "preFilter": refused,
    }
    shown = display.as_text(explain_command.render(report(**evaluated(0, **missing))))
    assert "0 of 40 nodes are feasible 61 s ago, when insight last heard of the frontend" in shown
    assert "VolumeBinding: claim not found" in shown
    assert "Not known is what HTTP extenders would refuse: http://extender" in shown
    failed = display.as_text(explain_command.render(report(**evaluated(2, scoreFailure=refused))))
    assert "Scoring fails by VolumeBinding: claim not found" in failed


def test_every_state_of_the_queue_has_words() -> None:
    assert {state.label for state in get_args(states.QueueState)} <= explain_command._states.keys()


def proposed(*proposals: dict[str, Any], **more: Any) -> str:
    """What is shown of these proposals, in 80 columns."""
    found = report(**evaluated(0, proposals=list(proposals), **more))
    shown = display.as_text(explain_command.render(found, with_proposals=True), 80)
    assert max(map(len, shown.splitlines())) <= 80
    return shown


TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}
ZONE_IN = {"key": "zone", "operator": "In", "values": ["a", "b"]}
CPU_3500M = {"current": {"string": "4"}, "proposed": {"string": "3500m"}}
CPU_2 = {"current": {"string": "4"}, "proposed": {"string": "2"}}
VICTIMS = [{"namespace": "ns", "name": f"v{number}"} for number in range(4)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"tolerateTaints": {"taints": [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]}},
            "tolerate gpu=true:NoSchedule",
        ),
        (
            {"lowerRequest": {"container": "main", "resource": "cpu", **CPU_3500M}},
            "requests.cpu 4 → 3.5 (container main)",
        ),
        ({"lowerRequest": {"resource": "cpu", **CPU_2}}, "requests.cpu 4 → 2 (the pod)"),
        (
            {"dropConstraint": {"field": "f", "nodeSelector": {"key": "zone", "values": ["c"]}}},
            "drop nodeSelector zone=c",
        ),
        ({"dropConstraint": {"field": "f", "nodeAffinity": ZONE_IN}}, "drop node affinity zone In (a, b)"),
        (
            {"dropConstraint": {"field": "f", "requiredNodeAffinity": {"nodeSelectorTerms": [{}, {}]}}},
            "drop all 2 terms of node affinity",
        ),
        ({"dropConstraint": {"field": "f", "podAntiAffinity": TERM}}, "drop pod anti-affinity to app=db by zone"),
        (
            {"dropConstraint": {"field": "f", "topologySpread": {**TERM, "maxSkew": 1}}},
            "drop the spread of app=db over zone (maxSkew 1)",
        ),
        ({"dropConstraint": {"field": "spec.later"}}, "drop spec.later"),
        (
            {"labelNode": {"nodeName": "n17", "labels": {"pool": "batch", "disk": "ssd"}}},
            "label a node: kubectl label node n17 disk=ssd pool=batch",
        ),
        ({"addNode": {"likeNode": "n17"}}, "1 more node of the shape of n17"),
        (
            {"deletePods": {"nodeName": "n3", "pods": VICTIMS, "budgetViolations": 1}},
            "delete 4 pods of lower priority on n3: ns/v0, ns/v1, ns/v2 … (violates a disruption budget)",
        ),
    ],
)
def test_each_proposal_has_words(change: dict[str, Any], words: str) -> None:
    """Proposals are shown in words, not by their message names."""
    assert proposals_display.change_text(json_documents.parse(change, insight_pb2.Proposal())) == words


def test_proposals_stand_under_their_heading() -> None:
    """With the number of nodes that each of them opens; long names wrap, and what was not tried is named."""
    names = [f"worker-{number:04d}.eu-central-1.compute.internal" for number in range(3)]
    tolerate = {"tolerateTaints": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}}
    add = {"addNode": {"likeNode": names[0]}, "feasibleCount": 1}
    limits = [{"kind": "tolerate_taints", "tried": 16, "candidates": 40}]
    shown = proposed({**tolerate, "feasibleCount": 12, "exampleNodes": names}, add, proposalSearchLimits=limits)
    assert "What would help\n" in shown
    (row,) = [line for line in shown.splitlines() if "tolerate gpu:NoSchedule" in line]
    assert row.split()[0] == "12"
    assert "Not all was tried: 16 of 40 sets of taints" in shown
    assert "--proposals" not in shown


def test_where_nothing_helps_it_is_said_and_where_nothing_was_tried_too() -> None:
    assert "What would help\n  no single change that was tried" in proposed()
    assert "--proposals" in display.as_text(explain_command.render(report(**evaluated(0))), 80)
    assert "What would help" not in display.as_text(explain_command.render(report(**evaluated(3))), 80)


@pytest.mark.parametrize(
    ("refused", "line"),
    [
        (
            {
                "plugin": "Licences",
                "code": "CODE_PENDING",
                "messages": ["no licence is free"],
                "reasons": [{"code": "noFreeLicence", "parameters": {"inUse": "3", "product": "cad"}}],
            },
            "Licences refused it at Reserve, on node n7: no licence is free (noFreeLicence: inUse 3, product cad)",
        ),
        (
            {"plugin": "Quota", "code": "CODE_ERROR", "messages": ["the service is down"]},
            "Quota failed at Reserve, on node n7: the service is down",
        ),
    ],
    ids=["a refusal", "an error"],
)
def test_who_refused_the_chosen_node_is_named(refused: dict[str, Any], line: str) -> None:
    """If this fails, the plugin's author sees feasible nodes, and not that the plugin itself holds the pod back."""
    found = report(**evaluated())
    found["scheduler"]["refusedPlacement"] = {"extensionPoint": "Reserve", "nodeName": "n7", "status": refused}
    shown = display.as_text(explain_command.render(found), 120)
    assert line in shown
    assert shown.index(line) < shown.index("7 of 47 nodes are feasible now")


def test_a_refusal_of_no_one_plugin_is_one_of_pre_filter() -> None:
    """Plugins that each leave nodes, and together none, are not named by the scheduler either."""
    status = {"code": "CODE_UNSCHEDULABLE_AND_UNRESOLVABLE", "messages": ["node(s) didn't satisfy plugin(s) [A B]"]}
    evaluation = {"queuedPod": {"podClass": 1}, "evaluatedGeneration": "9", "nodeCount": 4, "preFilter": status}
    shown = display.as_text(explain_command.render(report(**evaluation)))
    assert "  PreFilter: node(s) didn't satisfy plugin(s) [A B]" in shown.splitlines()


def test_a_missed_wake_up_is_told_with_its_plugin_and_events() -> None:
    """If this fails, a pod was bound late and its explanation names no reason."""
    missed = json_documents.document(console_states.missed_wake_up(1))
    shown = " ".join(display.as_text(explain_command.render(report(missedWakeUp=missed))).split())
    assert "Its wake-up was missed, which insight found at " in shown
    assert "it fitted on n1; NodeAffinity had refused it" in shown
    assert "none of these events woke it: “a node is added” (n1); it was woken" in shown
