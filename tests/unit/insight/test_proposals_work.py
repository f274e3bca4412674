"""Whatever insight proposes works: with the change, the pod is feasible on as many nodes as the proposal says."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers.proposed_changes import PENDING, Cluster, cycle_of_pod
from tests.helpers.snapshot_views import pod_of
from trireme.insight.proposals import search
from trireme.v1 import core_pb2

ZONE, HOST = "zone", "kubernetes.io/hostname"
GPU = "example.com/gpu"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TAINTS = [
    ("gpu", "true", "NoSchedule"),
    ("team", "a", "NoExecute"),
    ("soft", "", "PreferNoSchedule"),
    ("node.kubernetes.io/not-ready", "", "NoSchedule"),
]
APPS = st.sampled_from("ab")
SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def _nodes(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    out = {}
    for number in range(draw(st.integers(1, 5))):
        labels = {HOST: f"n{number}"} if draw(st.integers(0, 4)) else {}
        if draw(st.integers(0, 3)):
            labels[ZONE] = draw(st.sampled_from("xyz"))
        size = {"cpu": f"{draw(st.integers(1000, 4500))}m", "memory": f"{draw(st.integers(1, 6000))}Mi", "pods": "4"}
        if draw(st.booleans()):
            size[GPU] = "2"
        taints = draw(st.lists(st.sampled_from(TAINTS), max_size=2, unique=True))
        fields = {"labels": labels, "allocatable": size, "taints": taints}
        out[f"n{number}"] = fields | {"unschedulable": draw(st.integers(0, 7)) == 0}
    return out


def _term(key: str, app: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


KEYS = st.sampled_from((ZONE, HOST))
TERMS = st.lists(st.builds(_term, KEYS, APPS), min_size=1, max_size=2)
FEATURES = (
    "side", "init", "pod-level", "gpu", "port", "selector", "node affinity", "affinity", "anti-affinity", "spread",
)  # fmt: skip


@st.composite
def _containers(draw: st.DrawFn, name: str, features: frozenset[str]) -> dict[str, Any]:
    requests = {"cpu": f"{draw(st.integers(1, 5000))}m", "memory": f"{draw(st.integers(1, 3000))}Mi"}
    if "gpu" in features:
        requests[GPU] = str(draw(st.integers(1, 3)))
    ports = [{"containerPort": 1, "hostPort": 80}] if "port" in features else []
    return {"name": name, "resources": {"requests": requests}, "ports": ports}


@st.composite
def _node_terms(draw: st.DrawFn) -> list[dict[str, Any]]:
    """One term or two, without equal requirements."""
    keys = draw(st.permutations((ZONE, HOST, "a", "b")))
    expressions = [{"key": key, "operator": draw(st.sampled_from(("Exists", "DoesNotExist")))} for key in keys]
    sizes = draw(st.lists(st.integers(1, 2), min_size=1, max_size=2))
    return [{"matchExpressions": [expressions.pop() for _ in range(size)]} for size in sizes]


@st.composite
def _spreads(draw: st.DrawFn) -> dict[str, Any]:
    policy = draw(st.sampled_from(("Honor", "Ignore")))
    return _term(draw(KEYS), draw(APPS)) | {
        "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": policy,
    }  # fmt: skip


@st.composite
def _pods(draw: st.DrawFn) -> core_pb2.Pod:
    """Pods with few of the features: with many of them no single change would help."""
    features = draw(st.frozensets(st.sampled_from(FEATURES), max_size=2))
    spec: dict[str, Any] = {"containers": [draw(_containers("main", features))], "priority": draw(st.integers(0, 3))}
    if draw(st.booleans()):
        spec["preemptionPolicy"] = "Never"
    if "side" in features:
        spec["containers"].append(draw(_containers("side", features)))
    if "init" in features:
        spec["initContainers"] = [draw(_containers("init", features))]
    if "pod-level" in features:
        spec["resources"] = {"requests": {"cpu": "4"}}
    if "selector" in features:
        spec["nodeSelector"] = {ZONE: draw(st.sampled_from("xyz"))}
    affinity: dict[str, Any] = {}
    if "node affinity" in features:
        affinity["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": draw(_node_terms())}}
    if "affinity" in features:
        affinity["podAffinity"] = {REQUIRED: draw(TERMS)}
    if "anti-affinity" in features:
        affinity["podAntiAffinity"] = {REQUIRED: draw(TERMS)}
    if "spread" in features:
        spec["topologySpreadConstraints"] = draw(st.lists(_spreads(), min_size=1, max_size=2))
    return pod_of(spec | {"affinity": affinity}, labels={"app": draw(APPS)})


@st.composite
def _clusters(draw: st.DrawFn, obstacle: str) -> Cluster:
    """A cluster where the obstacle keeps the pending pod off all nodes, and others may."""
    cluster = Cluster()
    cluster.nodes = draw(_nodes())
    names = st.sampled_from(sorted(cluster.nodes))
    pending = draw(_pods())
    cluster.classes = {1: draw(_pods()), 2: draw(_pods()), PENDING: pending}
    which = st.tuples(st.integers(1, 2), names)
    cluster.placed = draw(st.lists(which, max_size=4))
    cluster.nominated = draw(st.lists(which, max_size=1))
    if obstacle == "taints":
        for fields in cluster.nodes.values():
            fields["taints"] = [*fields["taints"], ("all", "", "NoSchedule")]
    elif obstacle == "requests":
        pending.spec.containers[0].resources.requests[draw(st.sampled_from(("cpu", "memory")))].string = "9Gi"
    elif obstacle == "constraints":
        pending.spec.node_selector[ZONE] = "nowhere"
    else:
        # All pods that a node may have, of lower priority.
        cluster.classes[3] = pod_of({"priority": -1})
        cluster.placed = [(3, name) for name in sorted(cluster.nodes) for _ in range(4)]
    return cluster


async def _differences(cluster: Cluster, seen: Counter[str]) -> list[str]:
    """Search, apply each proposal, and return what is not as it says."""
    engine = cluster.engine_of(cluster.build().snap)
    result = await search.ProposalSearch(seconds=60.0).search(engine, cycle_of_pod(PENDING))
    out = []
    if result.proposals and await cluster.feasible_nodes():
        out.append("proposals for a pod that is feasible")
    for proposal in result.proposals:
        seen[str(proposal.WhichOneof("change"))] += 1
        feasible = await cluster.feasible_with(proposal)
        named = set(proposal.example_nodes)
        if not feasible or len(feasible) != proposal.feasible_count or not named <= set(feasible):
            out.append(f"{proposal}feasible: {feasible}")
    return out


@pytest.mark.hypothesis
@pytest.mark.parametrize(
    ("obstacle", "kinds"),
    [
        ("taints", {"tolerate_taints"}),
        ("requests", {"lower_request"}),
        ("constraints", {"drop_constraint"}),
        ("pods", {"add_node", "delete_pods"}),
    ],
)
def test_every_proposal_works_and_its_count_is_exact(obstacle: str, kinds: set[str]) -> None:
    """A proposal that does not work costs people a deployment, and their trust in the others."""
    seen: Counter[str] = Counter()

    @SETTINGS
    @given(_clusters(obstacle))
    def check(cluster: Cluster) -> None:
        assert asyncio.run(_differences(cluster, seen)) == []

    check()
    # Else the property says nothing of them.
    assert kinds <= seen.keys()
