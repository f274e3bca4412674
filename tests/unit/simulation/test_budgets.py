"""What disruption budgets allow while pods leave, come, and workloads are scaled, by the RPC."""

import pytest

from tests.helpers.simulated_insight import Json, SimulatedInsight, manifest, stored
from trireme.v1 import apps_pb2, policy_pb2, simulation_pb2, snapshot_pb2
from trireme_kube.apimachinery import decode

LABELS = {"app": "web"}
DRAIN: Json = {"drain": {"nodeNames": ["n0"]}}


async def _workload(pods: int) -> SimulatedInsight:
    """A workload with so many pods on n0; n1 has room."""
    insight = await SimulatedInsight(n0="9", n1="9").start()
    insight.builder.add_class(1, stored(labels=LABELS, owner="ReplicaSet/web"))
    insight.builder.place(1, *["n0"] * pods)
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web", "controller": True}
    replica_set = {
        "metadata": {"name": "web", "namespace": "default", "ownerReferences": [owner]},
        "spec": {"selector": {"matchLabels": LABELS}},
    }
    entry = decode.decode(replica_set, apps_pb2.ReplicaSet)
    insight.builder.apply(objects=[snapshot_pb2.ClusterObject(replica_set=entry)])
    return insight


def _budget(status: Json | None = None, **limit: int | str) -> Json:
    """A budget for the workload."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": LABELS}, **limit},
        **({"status": status} if status else {}),
    }


def _store(insight: SimulatedInsight, budget: Json) -> None:
    """Have the cluster have the budget."""
    entry = decode.decode(budget, policy_pb2.PodDisruptionBudget)
    insight.builder.apply(objects=[snapshot_pb2.ClusterObject(pod_disruption_budget=entry)])


def _scale(replicas: int) -> Json:
    return {"scale": {"kind": "deployment", "namespace": "default", "name": "web", "replicas": replicas}}


def _turns(answer: simulation_pb2.SimulateResponse) -> tuple[int, int]:
    """How many pods left their nodes, and how many could not."""
    return len(answer.evictions), len(answer.blocked)


@pytest.mark.parametrize(
    ("limit", "evicted"),
    [({"maxUnavailable": 1}, 3), ({"minAvailable": 3}, 0), ({"minAvailable": "50%"}, 3), ({"maxUnavailable": 0}, 0)],
    ids=str,
)
async def test_a_budget_that_is_applied_allows_what_its_controller_would_say(limit: Json, evicted: int) -> None:
    """A manifest has no status: a drain under a new budget would always be blocked."""
    insight = await _workload(3)
    answer = await insight.change({"apply": {"manifest": _budget(**limit)}}, DRAIN)
    assert _turns(answer) == (evicted, 3 - evicted)


async def test_pods_of_a_workload_that_grew_count_for_its_budget() -> None:
    """`minAvailable` is met by the new pods, so the old ones may leave."""
    insight = await _workload(2)
    status = {"currentHealthy": 2, "desiredHealthy": 2, "expectedPods": 2, "disruptionsAllowed": 0}
    _store(insight, _budget(status, minAvailable=2))
    assert _turns(await insight.change(DRAIN)) == (0, 2)
    answer = await insight.change(_scale(3), DRAIN)
    assert not answer.blocked


async def test_a_budget_of_pods_that_may_be_missing_follows_the_replicas() -> None:
    """A workload with room for one of its new pods alone is short of one already: none may leave."""
    insight = await _workload(2)
    status = {"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "disruptionsAllowed": 1}
    _store(insight, _budget(status, maxUnavailable=1))
    assert _turns(await insight.change(_scale(30), DRAIN)) == (0, 9)


async def test_a_drain_begins_when_the_changes_before_it_have_settled() -> None:
    """Changes are made one after the other: a pod that was added before is on the node, and leaves it."""
    insight = await SimulatedInsight(n0="2", n1="1").start()
    answer = await insight.change({"addPods": {"manifest": manifest(cpu="2")}}, DRAIN)
    assert [each.pod.name for each in answer.evictions] == ["p"]
