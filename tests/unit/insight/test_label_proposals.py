"""Which node to label is proposed for a pod whose node selector or required node affinity no node matches."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.helpers.proposed_changes import PENDING, Cluster, cycle_of_pod
from tests.helpers.snapshot_views import pod_of, requesting
from trireme.insight.proposals import node_labels, search
from trireme.v1 import insight_pb2

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_NAMED_N9 = {"key": "metadata.name", "operator": "In", "values": ["n9"]}
SIZE = {"cpu": "4", "memory": "8Gi", "pods": "10"}
GPU = ("gpu", "true", "NoSchedule")


def _affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    """Required node affinity of these terms."""
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def _term(*expressions: tuple[str, str, list[str]], **fields: Any) -> dict[str, Any]:
    listed = [{"key": key, "operator": operator, "values": values} for key, operator, values in expressions]
    return {"matchExpressions": listed, **fields}


def _cluster(spec: dict[str, Any], **nodes: dict[str, Any]) -> Cluster:
    cluster = Cluster()
    cluster.nodes = {name: {"allocatable": SIZE, **fields} for name, fields in nodes.items()}
    cluster.classes[PENDING] = pod_of({**requesting(cpu="1"), **spec})
    return cluster


async def _searched(cluster: Cluster, **options: Any) -> search.SearchResult:
    return await search.ProposalSearch(**options).search(cluster.engine_of(cluster.build().snap), cycle_of_pod(PENDING))


async def _labels(cluster: Cluster) -> list[tuple[str, dict[str, str]]]:
    """The nodes to label, and with what; on a cluster with these labels, the pod is feasible there alone."""
    found = []
    for proposal in (await _searched(cluster)).proposals:
        if proposal.WhichOneof("change") == "label_node":
            node, labels = proposal.label_node.node_name, dict(proposal.label_node.labels)
            assert await cluster.feasible_with(proposal) == list(proposal.example_nodes) == [node]
            assert proposal.feasible_count == 1
            found.append((node, labels))
    return found


@pytest.mark.parametrize(
    ("spec", "labels"),
    [
        ({"nodeSelector": {"disk": "ssd"}}, {"disk": "ssd"}),
        ({"nodeSelector": {"disk": "ssd", "pool": "a", "team": "b"}}, {"disk": "ssd", "pool": "a"}),
        (_affinity(_term(("disk", "In", ["ssd", "nvme"]))), {"disk": "nvme"}),
        (_affinity(_term(("disk", "In", ["ssd", "nvme"]), ("disk", "NotIn", ["nvme"]))), {"disk": "ssd"}),
        (_affinity(_term(("fast", "Exists", []))), {"fast": "true"}),
        (_affinity(_term(("fast", "Exists", []), ("slow", "DoesNotExist", []))), {"fast": "true"}),
        (
            {"nodeSelector": {"disk": "ssd"}, **_affinity(_term(("fast", "Exists", [])))},
            {"disk": "ssd", "fast": "true"},
        ),
        ({"nodeSelector": {"node-restriction.kubernetes.io/a": "b"}}, {"node-restriction.kubernetes.io/a": "b"}),
        ({"nodeSelector": {"example.com/pool": "a"}}, {"example.com/pool": "a"}),
        ({"nodeSelector": {"mynvidia.com/pool": "a"}}, {"mynvidia.com/pool": "a"}),
    ],
    ids=[
        "selector",
        "several",
        "in",
        "not-in",
        "exists",
        "does-not-exist",
        "both",
        "of-administrators",
        "own",
        "similar",
    ],
)
async def test_what_a_node_lacks_is_proposed(spec: dict[str, Any], labels: dict[str, str]) -> None:
    cluster = _cluster(spec, n0={"labels": {HOST: "n0", "team": "b"}})
    assert await _labels(cluster) == [("n0", labels)]


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {HOST: "n9"}},
        {"nodeSelector": {ZONE: "c"}},
        {"nodeSelector": {"node.kubernetes.io/instance-type": "big"}},
        {"nodeSelector": {"example.k8s.io/a": "b"}},
        {"nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}},
        {"nodeSelector": {"topology.gke.io/zone": "a"}},
        {"nodeSelector": {"eks.amazonaws.com/nodegroup": "gpu"}},
        {"nodeSelector": {"kubernetes.azure.com/agentpool": "gpu"}},
        {"nodeSelector": {"karpenter.sh/capacity-type": "spot"}},
        {"nodeSelector": {"karpenter.k8s.aws/instance-family": "p5"}},
        {"nodeSelector": {"nvidia.com/gpu.product": "A100"}},
        {"nodeSelector": {"disk": "ssd", ZONE: "c"}},
        _affinity(_term(("cores", "Gt", ["4"]))),
        _affinity(_term(("disk", "In", ["ssd"]), ("disk", "NotIn", ["ssd"]))),
        _affinity(_term(("disk", "In", ["ssd"]), matchFields=[_NAMED_N9])),
        {"nodeSelector": {"team": "a"}},
        {"nodeSelector": {"disk": "no value!"}},
    ],
    ids=[
        "host-name", "zone", "instance-type", "reserved", "gke", "gke-zone", "eks", "aks", "karpenter",
        "karpenter-aws", "device", "one-of-two-reserved", "greater", "impossible", "other-node",
        "another-value", "invalid",
    ],
)  # fmt: skip
async def test_no_label_is_proposed_that_is_a_fact_invalid_or_has_another_value(spec: dict[str, Any]) -> None:
    """If this fails, insight advises to say something false of a node, or what the API server or a kubelet undoes."""
    assert await _labels(_cluster(spec, n0={"labels": {"team": "b"}})) == []


async def test_no_label_is_proposed_where_a_node_has_it() -> None:
    """The labels are there: a node with them is full, and another one is not like it."""
    cluster = _cluster({"nodeSelector": {"disk": "ssd"}}, full={"labels": {"disk": "ssd"}}, free={})
    cluster.classes[1] = pod_of(requesting(cpu="4"))
    cluster.placed = [(1, "full")]
    assert await _labels(cluster) == []


async def test_the_node_that_nothing_else_keeps_the_pod_off_is_labelled() -> None:
    """A label does not help where a taint or too little room is in the way."""
    nodes: dict[str, dict[str, Any]] = {f"tainted{number}": {"taints": [GPU]} for number in range(5)}
    nodes |= {"full": {"allocatable": {"cpu": "0", "pods": "9"}}, "cordoned": {"unschedulable": True}}
    spec = {"nodeSelector": {"disk": "ssd"}}
    assert await _labels(_cluster(spec, **nodes)) == []
    assert await _labels(_cluster(spec, **nodes, fit={}, also={})) == [("fit", {"disk": "ssd"})]


async def test_each_term_offers_its_labels_and_more_than_are_needed_are_not_added() -> None:
    """One node lacks a label and another one two: the first is the advice."""
    spec = _affinity(_term(("disk", "In", ["ssd"]), ("pool", "In", ["a"])), _term(("fast", "Exists", [])))
    nodes: dict[str, dict[str, Any]] = {"bare": {}, "pooled": {"labels": {"pool": "a"}}}
    assert await _labels(_cluster(spec, **nodes)) == [("pooled", {"disk": "ssd"}), ("bare", {"fast": "true"})]


async def test_labels_come_before_nodes_to_add_and_after_changes_of_the_pod() -> None:
    cluster = _cluster({"nodeSelector": {"disk": "ssd"}}, n0={})
    kinds = [proposal.WhichOneof("change") for proposal in (await _searched(cluster)).proposals]
    assert kinds == ["drop_constraint", "label_node"]


async def test_what_was_not_tried_is_reported() -> None:
    spec = _affinity(*(_term((f"k{number}", "Exists", [])) for number in range(5)))
    result = await _searched(_cluster(spec, n0={}), max_candidates=2)
    assert insight_pb2.ProposalSearchLimit(kind="label_node", tried=2, candidates=5) in result.limits
    assert [each.WhichOneof("change") for each in result.proposals].count("label_node") == 2
    late = await _searched(_cluster(spec, n0={}), seconds=0.0)
    assert insight_pb2.ProposalSearchLimit(kind="label_node", tried=0, candidates=5) in late.limits


async def test_a_candidate_with_nodes_that_were_not_tried_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is up after the first of two nodes; the second one, or the answer that there is none, is missing."""
    now, tried = 0.0, list[str]()
    node_with_labels = search.node_copies.node_with_labels

    def labelled(*arguments: Any) -> Any:
        nonlocal now
        now = 100.0
        out = node_with_labels(*arguments)
        tried.append(out.metadata.name)
        return out

    monkeypatch.setattr(search.node_copies, "node_with_labels", labelled)
    full = {"allocatable": {"cpu": "0", "pods": "1"}}
    result = await _searched(_cluster({"nodeSelector": {"disk": "ssd"}}, n0=full, n1=full), clock=lambda: now)
    assert tried == ["n0"]
    assert insight_pb2.ProposalSearchLimit(kind="label_node", tried=0, candidates=1) in result.limits


async def test_of_many_terms_the_first_are_looked_at_and_all_are_counted() -> None:
    spec = _affinity(*(_term((f"k{number:03}", "Exists", [])) for number in range(100)))
    result = await _searched(_cluster(spec, n0={}), seconds=60.0)
    assert insight_pb2.ProposalSearchLimit(kind="label_node", tried=16, candidates=100) in result.limits


async def test_of_many_sets_of_labels_the_smallest_are_tried_and_all_are_counted() -> None:
    """Each node has another subset of the seven labels that the pod needs, and none has all."""
    keys = [f"k{number}" for number in range(7)]
    nodes = {
        f"n{bits}": {"labels": {key: "true" for place, key in enumerate(keys) if bits >> place & 1}}
        for bits in range(127)
    }
    spec = _affinity(_term(*((key, "Exists", []) for key in keys)))
    result = await _searched(_cluster(spec, **nodes), seconds=60.0)
    assert insight_pb2.ProposalSearchLimit(kind="label_node", tried=16, candidates=127) in result.limits
    found = [each.label_node for each in result.proposals if each.WhichOneof("change") == "label_node"]
    assert sorted(dict(each.labels).popitem()[0] for each in found) == keys
    assert {len(each.labels) for each in found} == {1}


async def test_more_labels_than_anybody_would_set_are_not_proposed() -> None:
    assert len(await _labels(_cluster({"nodeSelector": {f"k{number:02}": "a" for number in range(16)}}, n0={}))) == 1
    assert await _labels(_cluster({"nodeSelector": {f"k{number:02}": "a" for number in range(17)}}, n0={})) == []


async def test_other_calls_are_answered_while_labels_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a pod of 500 terms holds up the snapshot stream and all explanations for many seconds."""
    turns, in_turn = 0, list[int]()
    matches_term = node_labels.node_selection.matches_term

    def counted(*arguments: Any) -> Any:
        in_turn.append(turns)
        return matches_term(*arguments)

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    spec = _affinity(*(_term(*((f"t{term}k{key}", "Exists", []) for key in range(9))) for term in range(500)))
    snap = _cluster(spec, n0={}).build().snap
    monkeypatch.setattr(node_labels.node_selection, "matches_term", counted)
    other = asyncio.create_task(take_turns())
    candidates = await node_labels.missing_labels(snap.classes[PENDING].pod, snap, [], lambda: False)
    other.cancel()
    assert len(candidates.found) + candidates.others == 500
    assert max(Counter(in_turn).values()) <= 2
    # Each term once, to see that no node matches; of the first 64 also its names and each of its keys.
    assert len(in_turn) == 500 + 64 * 10


async def test_when_the_time_is_up_no_further_term_is_looked_at() -> None:
    asked = 0

    def is_time_up() -> bool:
        nonlocal asked
        asked += 1
        return asked > 4

    snap = _cluster(_affinity(*(_term((f"k{number}", "Exists", [])) for number in range(9))), n0={}).build().snap
    candidates = await node_labels.missing_labels(snap.classes[PENDING].pod, snap, [], is_time_up)
    assert [dict(each.labels) for each in candidates.found] == [{"k0": "true"}, {"k1": "true"}]
    assert candidates.others == 7


async def test_the_cost_does_not_grow_with_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand tainted nodes lack the label; trying them all would hold up other explanations for seconds."""
    tried = list[str]()
    node_with_labels = search.node_copies.node_with_labels

    def counted(*arguments: Any) -> Any:
        out = node_with_labels(*arguments)
        tried.append(out.metadata.name)
        return out

    monkeypatch.setattr(search.node_copies, "node_with_labels", counted)
    nodes = {f"n{number}": {"taints": [GPU]} for number in range(1000)}
    assert await _labels(_cluster({"nodeSelector": {"disk": "ssd"}}, **nodes)) == []
    assert tried == ["n0", "n1", "n2"]
