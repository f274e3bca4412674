"""Comparing leaders' decisions with those of Kubernetes' own framework: what counts as a difference, and that it is."""

import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.conformance.oracle_fixture import require_oracle
from tests.simulation.decision_records import Decision, Reservoir
from tests.simulation.oracle_checks import differences

ROOT = pathlib.Path(__file__).parents[2]
# The remote plugin keeps pods off the last one.
NODES = ("node-1", "node-2", "node-13")
FULL = {"code": "Unschedulable", "plugin": "NodeResourcesFit", "reasons": ["Insufficient cpu"]}
CLOSED = {"code": "UnschedulableAndUnresolvable", "plugin": "NodeUnschedulable", "reasons": ["node(s) were cordoned"]}
REMOTE = {"code": "UnschedulableAndUnresolvable", "plugin": "ClosedNodes", "reasons": ["node(s) were closed"]}


def _decision(**fields: Any) -> Decision:
    case = {"nodes": [{"metadata": {"name": name}} for name in NODES]}
    return Decision("default/pod-1", case, closed=frozenset(NODES[2:]), **fields)


def _placed(chosen: str, nominated_node: str = "") -> Decision:
    return _decision(chosen=chosen, nominated_node=nominated_node)


def _refused(node_2: Any = FULL, preemption: Any = None) -> Decision:
    statuses = {"node-1": FULL, "node-2": node_2, "node-13": REMOTE}
    found = {name: said for name, said in statuses.items() if said is not None}
    return _decision(has_statuses=True, statuses=found, preemption=preemption)


def _expect(totals: dict[str, int], **more: Any) -> dict[str, Any]:
    filtered = {name: FULL if name != "node-13" else CLOSED for name in NODES if name not in totals}
    return {"expect": {"feasible": list(totals), "total": totals, "filter": filtered}, **more}


def _weighted(chosen: str) -> Decision:
    """By a configuration in which NodeResourcesFit has another weight than in the framework."""
    return _decision(chosen=chosen, weights={"NodeResourcesFit": 9, "TaintToleration": 3})


def _scored() -> dict[str, Any]:
    scores = {"node-1": {"TaintToleration": 300, "NodeResourcesFit": 0}, "node-2": {"NodeResourcesFit": 100}}
    scores["node-1"]["ImageLocality"] = 200
    row = _expect({"node-1": 500, "node-2": 100})
    row["expect"]["scores"] = scores
    return row


def _ways(*ways: dict[str, Any]) -> dict[str, Any]:
    row = _expect({})
    row["expect"]["preemption"] = ways[0]
    return row if len(ways) == 1 else {**row, "either": {"preemption": list(ways)}, "varies": ["preemption"]}


WAY, OTHER = {"nominatedNode": "node-1", "victims": ["b", "a"]}, {"nominatedNode": "node-2", "victims": ["c"]}
PREEMPTION = {"nominatedNode": "node-2", "victims": ["c"]}
BOTH = {"node-1": 200, "node-2": 100}


@pytest.mark.parametrize(
    ("decision", "row", "difference"),
    [
        (_placed("node-1"), _expect(BOTH), ""),
        (_placed("node-1"), _expect({"node-1": 100, "node-2": 100}), ""),
        (_placed("node-2"), _expect(BOTH), "placed on node-2 with 100, not on one with 200"),
        (_weighted("node-2"), _scored(), ""),
        (_weighted("node-1"), _scored(), "placed on node-1 with 500, not on one with 900"),
        (_placed("node-2"), _expect(BOTH, varies=["feasible"]), ""),
        (_placed("node-2"), {"error": "it failed"}, ""),
        (_placed("node-2"), _expect({"node-1": 100}), "placed on node-2, which refuses it"),
        (_placed("node-2", "node-2"), _expect(BOTH), ""),
        (_placed("node-1", "node-2"), _expect(BOTH), "though it is nominated to node-2"),
        (_refused(), _expect({}), ""),
        (_refused({**FULL, "reasons": ["Too many pods"]}), _expect({}), "node-2 says"),
        (_refused(None), _expect({}), "only here pass ['node-2']"),
        (_refused(), _expect({"node-2": 1}), "only there ['node-2']"),
        (_refused(preemption=PREEMPTION), _ways(OTHER), ""),
        (_refused(preemption=PREEMPTION), _ways(WAY), "PostFilter does"),
        (_refused(preemption=PREEMPTION), _ways(WAY, OTHER), ""),
        (_refused(preemption=PREEMPTION), _ways(WAY, {"nominatedNode": "node-1"}), "PostFilter does"),
    ],
    ids=[
        "best",
        "one of the best",
        "not the best",
        "the best by other weights",
        "not the best by other weights",
        "feasible by chance",
        "unanswered",
        "refused there",
        "nominated",
        "not where nominated",
        "refused alike",
        "another reason",
        "passes here",
        "passes there",
        "same way",
        "another way",
        "one of the ways",
        "none of the ways",
    ],
)
def test_what_counts_as_a_difference(decision: Decision, row: dict[str, Any], difference: str) -> None:
    """If this fails, simulations miss a decision that kube-scheduler would not make, or report one that it would."""
    found = "; ".join(differences(decision, row))
    assert difference in found
    assert bool(found) == bool(difference)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_decisions_are_compared() -> None:
    """If this fails, simulations compare nothing with kube-scheduler, or no preemptions, and do not say so."""
    require_oracle()
    command = [
        sys.executable,
        "-m",
        "tests.simulation.simulate",
        "--seed=6",
        "--hours=0.05",
        "--nodes=14",
        "--shrink-seconds=0",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    compared = re.search(r"(\d+) decisions compared with kube-scheduler's, (\d+) of them preemptions", done.stdout)
    assert compared is not None, done.stdout
    assert int(compared[1]) > 10
    assert int(compared[2]) > 2


def test_a_sample_has_each_decision_as_likely() -> None:
    """If this fails, what is compared is only how a storm begins, or only how it ends."""
    drawn = [0] * 40
    for seed in range(300):
        sample = Reservoir(f"{seed}", 4)
        for number in range(len(drawn)):
            if sample.draw():
                sample.add(_decision(nominated_node=str(number)))
        assert len(sample.sample) == 4
        for each in sample.sample:
            drawn[int(each.nominated_node)] += 1
    assert min(drawn) > 10
    assert max(drawn) < 60
