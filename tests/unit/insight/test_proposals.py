"""What insight proposes for a pod that no node takes: each kind of change by an example, the order, and the bounds."""

import asyncio
from typing import Any

import pytest

from tests.helpers import proposed_changes
from tests.helpers.proposed_changes import PENDING, Cluster, cycle_of_pod
from tests.helpers.snapshot_views import pod_of, requesting
from trireme.insight.proposals import pod_changes, request_changes, search
from trireme.v1 import core_pb2, insight_pb2, policy_pb2, snapshot_pb2

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
SIZE = {"cpu": "4", "memory": "8Gi", "pods": "10"}
GPU = ("gpu", "true", "NoSchedule")


async def _searched(cluster: Cluster, **options: Any) -> search.SearchResult:
    """Search as insight does, and check that each proposal works."""
    engine = cluster.engine_of(cluster.build().snap)
    result = await search.ProposalSearch(**options).search(engine, cycle_of_pod(PENDING))
    for proposal in result.proposals:
        feasible = await cluster.feasible_with(proposal)
        assert len(feasible) == proposal.feasible_count
        assert set(proposal.example_nodes) <= set(feasible)
    return result


def _of_kind(result: search.SearchResult, kind: str) -> list[insight_pb2.Proposal]:
    return [proposal for proposal in result.proposals if proposal.WhichOneof("change") == kind]


def _cluster(spec: dict[str, Any], **nodes: dict[str, Any]) -> Cluster:
    cluster = Cluster()
    cluster.nodes = {name: {"allocatable": SIZE, **fields} for name, fields in nodes.items()}
    cluster.classes[PENDING] = pod_of(spec)
    return cluster


async def test_taints_to_tolerate_come_by_the_sets_that_nodes_have() -> None:
    """A node with two taints takes the pod only if it tolerates both; who tolerates one that helps needs no second."""
    other = ("team", "a", "NoExecute")
    nodes = {f"n{number}": {"taints": [GPU]} for number in range(4)}
    nodes |= {
        "both": {"taints": [GPU, ("disk", "ssd", "NoSchedule")]},
        "two": {"taints": [other, ("x", "", "NoSchedule")]},
    }
    found = _of_kind(await _searched(_cluster(requesting(cpu="1"), **nodes)), "tolerate_taints")
    taints = [[(each.key, each.value, each.effect) for each in proposal.tolerate_taints.taints] for proposal in found]
    assert taints == [[GPU], [other, ("x", "", "NoSchedule")]]
    assert [proposal.feasible_count for proposal in found] == [4, 1]
    assert list(found[0].example_nodes) == ["n0", "n1", "n2"]


async def test_the_condition_of_a_node_is_not_to_be_tolerated() -> None:
    not_ready = ("node.kubernetes.io/not-ready", "", "NoExecute")
    result = await _searched(_cluster(requesting(cpu="1"), broken={"taints": [not_ready]}))
    assert not _of_kind(result, "tolerate_taints")
    (add,) = _of_kind(result, "add_node")
    assert add.add_node.like_node == "broken"


async def test_a_request_is_lowered_to_the_most_that_a_node_has_left() -> None:
    """Rounded down to what people write; nodes with as much left are counted."""
    cluster = _cluster(requesting(cpu="4", memory="1Gi"), n0={}, n1={}, n2={}, n3={})
    cluster.classes[1] = pod_of(requesting(cpu="433m"))
    cluster.classes[2] = pod_of(requesting(cpu="1"))
    cluster.placed = [(1, "n0"), (1, "n1"), (1, "n2"), (2, "n3")]
    result = await _searched(cluster)
    (found,) = _of_kind(result, "lower_request")
    lower = found.lower_request
    assert (lower.container, lower.resource) == ("main", "cpu")
    assert (lower.current.string, lower.proposed.string, found.feasible_count) == ("4", "3500m", 3)
    assert result.proposals[0] == found


async def test_of_several_containers_the_largest_request_is_lowered() -> None:
    """The other containers, init containers and the pod's overhead need their share of what is left."""
    spec = {
        "containers": [
            {"name": "small", "resources": {"requests": {"cpu": "1"}}},
            {"name": "large", "resources": {"requests": {"cpu": "5"}}},
        ],
        "initContainers": [{"name": "init", "resources": {"requests": {"cpu": "3"}}}],
        "overhead": {"cpu": "500m"},
    }
    (found,) = _of_kind(await _searched(_cluster(spec, n0={})), "lower_request")
    assert (found.lower_request.container, found.lower_request.proposed.string) == ("large", "2500m")


async def test_nominated_pods_count_when_a_request_is_lowered() -> None:
    """What is left on the node is nominated away: the amount is lowered until the engine accepts it."""
    cluster = _cluster(requesting(cpu="5"), n0={}, n1={"allocatable": {"cpu": "2", "pods": "9"}})
    cluster.classes[1] = pod_of({**requesting(cpu="3"), "priority": 5})
    cluster.nominated = [(1, "n0")]
    (found,) = _of_kind(await _searched(cluster), "lower_request")
    assert found.lower_request.proposed.string == "2"
    assert list(found.example_nodes) == ["n1"]


@pytest.mark.parametrize(
    ("resource", "amount", "readable"),
    [
        ("cpu", 3999, 3900),
        ("cpu", 87, 87),
        ("cpu", 12345, 12000),
        ("memory", 7 * 2**30 + 5, 7 * 2**30),
        ("memory", 63 * 2**30 + 9 * 2**20, 63 * 2**30),
        ("memory", 900 * 2**20 + 1, 896 * 2**20),
        ("hugepages-2Mi", 5 * 2**20, 4 * 2**20),
        ("example.com/gpu", 7, 7),
        ("memory", 0, 0),
    ],
)
def test_amounts_are_rounded_down_to_what_people_write(resource: str, amount: int, readable: int) -> None:
    assert request_changes.readable_amount(resource, amount) == readable


async def test_each_constraint_may_be_dropped() -> None:
    """A selector, a requirement of node affinity, pod (anti-)affinity and spread are named by path and contents."""
    selector = {"nodeSelector": {ZONE: "c"}}
    (found,) = _of_kind(await _searched(_cluster(requesting(cpu="1") | selector, n0={}, n1={})), "drop_constraint")
    assert found.drop_constraint.field == f"spec.nodeSelector[{ZONE}]"
    assert list(found.drop_constraint.node_selector.values) == ["c"]
    assert found.feasible_count == 2


def _required(kind: str, term: Any) -> dict[str, Any]:
    value = {"nodeSelectorTerms": term} if kind == "nodeAffinity" else term
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": value}}}


_TERM = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "a"}}}
_IN_C = {"key": ZONE, "operator": "In", "values": ["c"]}
_HAS_DISK = {"key": "disk", "operator": "Exists"}
_NODE = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        (_required("nodeAffinity", [{"matchExpressions": [_IN_C]}]), [_NODE]),
        (
            _required("nodeAffinity", [{"matchExpressions": [_HAS_DISK, _IN_C]}]),
            [f"{_NODE}.nodeSelectorTerms[0].matchExpressions[1]"],
        ),
        (_required("nodeAffinity", [{"matchExpressions": [_IN_C]}, {"matchExpressions": [_IN_C, _IN_C]}]), [_NODE]),
        (
            _required("podAffinity", [_TERM]),
            ["spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"],
        ),
        (
            _required("podAntiAffinity", [{**_TERM, "labelSelector": {"matchLabels": {"app": "b"}}}]),
            ["spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"],
        ),
        (
            {
                "topologySpreadConstraints": [
                    {"topologyKey": "no", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}},
                    {"topologyKey": "no", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}},
                ]
            },
            ["spec.topologySpreadConstraints[1]"],
        ),
    ],
    ids=["only", "one-of-two", "any-of-two-terms", "affinity", "anti-affinity", "spread"],
)
async def test_the_dropped_constraint_is_named(spec: dict[str, Any], fields: list[str]) -> None:
    node = {"labels": {HOST: "n0", "disk": "ssd"}}
    cluster = _cluster(requesting(cpu="1") | spec, n0=node)
    cluster.classes[1] = pod_of(requesting(cpu="1"), labels={"app": "b"})
    cluster.placed = [(1, "n0")]
    found = _of_kind(await _searched(cluster), "drop_constraint")
    assert [proposal.drop_constraint.field for proposal in found] == fields


async def test_one_more_node_has_the_shape_of_one_that_works() -> None:
    """Full nodes are large enough; small and tainted ones are not."""
    full = {"labels": {HOST: "full", ZONE: "a"}}
    nodes = {"full": full, "small": {"allocatable": {"cpu": "1", "pods": "9"}}, "gpu": {"taints": [GPU]}}
    cluster = _cluster(requesting(cpu="3"), **nodes)
    cluster.classes[1] = pod_of(requesting(cpu="2"))
    cluster.placed = [(1, "full"), (1, "gpu")]
    (found,) = _of_kind(await _searched(cluster), "add_node")
    assert (found.add_node.like_node, found.feasible_count, list(found.example_nodes)) == ("full", 1, [])


@pytest.mark.parametrize(("allowed", "violations"), [(1, 0), (0, 1)], ids=["within-budget", "violating"])
async def test_the_fewest_pods_of_lower_priority_are_deleted(allowed: int, violations: int) -> None:
    """The policy Never forbids the scheduler to evict; people may delete. Violated budgets are reported."""
    pending = {**requesting(cpu="4"), "priority": 10, "preemptionPolicy": "Never"}
    cluster = _cluster(pending, n0={}, n1={}, n2={})
    cluster.classes[1] = pod_of({**requesting(cpu="1"), "priority": 1}, labels={"app": "protected"})
    cluster.classes[2] = pod_of({**requesting(cpu="1"), "priority": 20})
    cluster.placed = [(1, "n0"), (1, "n0"), (1, "n1"), (2, "n2")]
    budget = policy_pb2.PodDisruptionBudget()
    budget.metadata.namespace, budget.metadata.name = "default", "b"
    budget.spec.selector.match_labels["app"] = "protected"
    budget.status.disruptions_allowed = allowed
    cluster.objects = [snapshot_pb2.ClusterObject(pod_disruption_budget=budget)]
    (found,) = _of_kind(await _searched(cluster), "delete_pods")
    delete = found.delete_pods
    assert (delete.node_name, [pod.name for pod in delete.pods]) == ("n1", ["pod-2"])
    assert (delete.budget_violations, found.feasible_count) == (violations, 1)


async def test_the_least_change_comes_first() -> None:
    """Half a request counts as much as one toleration; then come nodes to add, and last pods to delete."""
    cluster = _cluster({**requesting(cpu="4"), "priority": 10}, a={}, b={}, c={"taints": [GPU]})
    cluster.classes[1] = pod_of(requesting(cpu="1"))
    cluster.placed = [(1, "a"), (1, "b"), (1, "b"), (1, "b")]
    found = await _searched(cluster)
    kinds = [proposal.WhichOneof("change") for proposal in found.proposals]
    assert kinds == ["lower_request", "tolerate_taints", "add_node", "delete_pods"]
    assert not found.limits


async def test_nothing_is_proposed_for_a_pod_that_fits_or_that_no_change_helps() -> None:
    """A claim that does not exist is not among the changes; and a feasible pod needs none."""
    assert not (await _searched(_cluster(requesting(cpu="1"), n0={}))).proposals
    impossible = requesting(cpu="9", memory="99Gi")
    assert not (await _searched(_cluster(impossible, n0={}))).proposals


async def test_the_answer_says_what_was_not_tried() -> None:
    nodes = {f"n{number}": {"taints": [(f"t{number}", "", "NoSchedule")]} for number in range(5)}
    cluster = _cluster(requesting(cpu="1"), **nodes)
    result = await _searched(cluster, max_candidates=2)
    assert insight_pb2.ProposalSearchLimit(kind="tolerate_taints", tried=2, candidates=5) in result.limits
    assert len(_of_kind(result, "tolerate_taints")) == 2
    ticks = iter(range(1000))
    late = await _searched(cluster, clock=lambda: float(next(ticks)), seconds=3.0)
    assert insight_pb2.ProposalSearchLimit(kind="tolerate_taints", tried=2, candidates=5) in late.limits
    assert {limit.kind: limit.tried for limit in late.limits}["add_node"] == 0


@pytest.mark.parametrize("many", ["constraints", "taints"])
async def test_copies_of_the_pod_are_made_only_for_what_is_simulated(
    many: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a pod of 600 terms, or a cluster of as many taints, takes all of insight's memory."""
    copies = []
    copy_of = pod_changes.copy_of

    def counted(pod: core_pb2.Pod) -> core_pb2.Pod:
        copies.append(pod)
        return copy_of(pod)

    monkeypatch.setattr(pod_changes, "copy_of", counted)
    taints = [(f"t{number}", "", "NoSchedule") for number in range(40 if many == "taints" else 0)]
    nodes = {f"n{number}": {"taints": [each]} for number, each in enumerate(taints)} or {"n": {}}
    selector = {f"k{number}": "v" for number in range(40 if many == "constraints" else 0)}
    cluster = _cluster({**requesting(cpu="1"), "nodeSelector": selector}, **nodes)
    cluster.classes[PENDING].spec.preemption_policy = "Never"
    result = await search.ProposalSearch(max_candidates=3).search(
        cluster.engine_of(cluster.build().snap), cycle_of_pod(PENDING)
    )
    assert [(each.tried, each.candidates) for each in result.limits[:1]] == [(3, 40)]
    # Of one kind of change, for the one request of the pod, and for preemption.
    assert len(copies) <= 3 + 2


async def test_other_calls_are_answered_during_a_search() -> None:
    """A search of half a second would hold up the snapshot stream, and all other explanations."""
    nodes = {f"n{number}": {"taints": [(f"t{number}", "", "NoSchedule")]} for number in range(8)}
    cluster = _cluster(requesting(cpu="1"), **nodes)
    engine = cluster.engine_of(cluster.build().snap)
    search_task = asyncio.ensure_future(search.ProposalSearch().search(engine, cycle_of_pod(PENDING)))
    turns = 0
    while not search_task.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 8
    assert proposed_changes.POD.name == "pending"


async def test_a_search_holds_while_the_cluster_goes_on() -> None:
    """It is about one state: what is proposed was possible at the same moment."""
    cluster = _cluster(requesting(cpu="1"), n0={"taints": [GPU]}, n1={"taints": [GPU]})
    builder = cluster.build()
    task = asyncio.ensure_future(search.ProposalSearch().search(cluster.engine_of(builder.snap), cycle_of_pod(PENDING)))
    await asyncio.sleep(0)
    builder.remove_node("n1")
    (found,) = _of_kind(await task, "tolerate_taints")
    assert found.feasible_count == 2
