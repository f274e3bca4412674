"""Whom a pending pod would preempt and why these, and why a pod preempts nobody."""

from typing import Any

import pytest

from tests.helpers import phase_calls
from tests.helpers.phase_calls import PROFILE, context
from tests.helpers.recorded_decisions import preempting_configuration
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme.insight import service
from trireme.v1 import cycle_pb2, decision_explanation_pb2, insight_pb2, plugin_pb2, policy_pb2, snapshot_pb2
from trireme_kube.apimachinery import decode

SMALL, BIG, EQUAL, GUARDED, NEVER, VIP, CLAIMING = 1, 2, 3, 4, 5, 6, 7
TERMINATING_BY_PREEMPTION = 3
REASON = decision_explanation_pb2.PreemptionPodReason


class Cluster:
    """Nodes of 4 CPUs with pods on them, and the pod `vip`, which waits."""

    def __init__(self, *placed: tuple[str, ...], flags: int = 0) -> None:
        """For each node the names of its pods' classes."""
        self.builder = SnapshotBuilder()
        numbers = {"small": SMALL, "big": BIG, "equal": EQUAL, "guarded": GUARDED}
        classes = {
            SMALL: pod_of({**requesting(cpu="1"), "priority": 1}, labels={"app": "small"}),
            BIG: pod_of({**requesting(cpu="3"), "priority": 5}),
            EQUAL: pod_of({**requesting(cpu="1"), "priority": 100}),
            GUARDED: pod_of({**requesting(cpu="1"), "priority": 1}, labels={"app": "guarded"}),
            NEVER: pod_of({**requesting(cpu="3"), "priority": 100, "preemptionPolicy": "Never"}),
            VIP: pod_of({**requesting(cpu="3"), "priority": 100}),
            CLAIMING: pod_of(
                {"priority": 100, "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}]}
            ),
        }
        for number, pod in classes.items():
            self.builder.add_class(number, pod)
        for number, names in enumerate(placed):
            self.builder.set_node(f"n{number}", allocatable={"cpu": "4", "pods": "9"})
            for name in names:
                self.builder.place(numbers[name], f"n{number}", flags=flags)
        raw = {
            "metadata": {"namespace": "default", "name": "guard"},
            "spec": {"selector": {"matchLabels": {"app": "guarded"}}},
            "status": {"disruptionsAllowed": 0},
        }
        budget = decode.decode(raw, policy_pb2.PodDisruptionBudget)
        self.builder.apply(objects=[snapshot_pb2.ClusterObject(pod_disruption_budget=budget)])
        self.service = service.InsightService(self.builder.snap)

    async def explain(self, number: int = VIP, **fields: Any) -> insight_pb2.ExplainResponse:
        await phase_calls.greet(self.service, fields.pop("configuration", preempting_configuration()))
        identity = cycle_pb2.PodIdentity(namespace="default", name="vip", uid="vip")
        pod = snapshot_pb2.QueuedPod(pod=identity, pod_class=number, profile=PROFILE)
        self.service.cluster.apply_queue(snapshot_pb2.QueueDelta(reset=True, pods=[pod]))
        request = insight_pb2.ExplainRequest(pod=identity, **{"preemption": True, **fields})
        return await self.service.Explain(request, context())

    async def preemption(self, number: int = VIP) -> decision_explanation_pb2.PreemptionExplanation:
        return (await self.explain(number)).preemption


def by_reason(pods: Any) -> list[int]:
    return [pod.reason for pod in pods]


async def test_victims_are_named_with_those_that_are_spared_and_why() -> None:
    """`1 victim` says neither who goes nor why another one does not."""
    found = await Cluster(("small", "small", "small", "small")).preemption()
    assert found.node_name == "n0"
    assert [(each.pod.name, each.priority) for each in found.victims] == [("pod-1", 1), ("pod-2", 1), ("pod-3", 1)]
    assert [(each.pod.name, each.reason) for each in found.spared] == [
        ("pod-0", REASON.PREEMPTION_POD_REASON_REPRIEVED)
    ]
    assert (found.reason, found.decided_by, _codes(found)) == ("", "", [])
    found = await Cluster(("small", "small", "equal")).preemption()
    assert [each.pod.name for each in found.victims] == ["pod-0", "pod-1"]
    assert [(each.pod.name, each.priority, each.reason) for each in found.spared] == [
        ("pod-2", 100, REASON.PREEMPTION_POD_REASON_PRIORITY)
    ]


async def test_the_node_is_chosen_by_the_first_criterion_that_differs() -> None:
    """Why these victims, and not others on another node, is what people ask."""
    found = await Cluster(("big",), ("small", "small", "small", "small")).preemption()
    assert (found.node_name, found.candidate_count, found.decided_by) == ("n1", 2, "highestPriority")
    first, second = found.candidates
    assert (first.name, first.victims, first.highest_priority, first.priority_sum) == ("n1", 3, 1, 3)
    assert (second.name, second.victims, second.highest_priority, second.priority_sum) == ("n0", 1, 5, 5)


async def test_a_budget_decides_before_priorities() -> None:
    """Pods that a budget protects go last."""
    found = await Cluster(("guarded", "guarded", "guarded"), ("big",)).preemption()
    assert (found.node_name, found.decided_by, found.budget_violations) == ("n1", "budgetViolations", 0)
    only = await Cluster(("guarded", "guarded", "small")).preemption()
    assert by_reason(only.spared) == [REASON.PREEMPTION_POD_REASON_BUDGET]
    assert by_reason(only.victims) == [REASON.PREEMPTION_POD_REASON_BUDGET_VIOLATED, 0]
    assert (only.budget_violations, only.decided_by) == (1, "")


@pytest.mark.parametrize(
    ("placed", "number", "reason", "code", "counts"),
    [
        ([("big", "small")], NEVER, "its preemptionPolicy is Never", "neverPreempts", (0, 0, 0)),
        (
            [("equal", "equal", "equal", "equal")],
            VIP,
            "no node where evictions might help has a pod of lower priority",
            "noVictims",
            (0, 1, 0),
        ),
        (
            [("equal", "equal", "small", "small")],
            VIP,
            "even without all pods of lower priority it fits on no node",
            "victimsNotEnough",
            (0, 0, 1),
        ),
    ],
    ids=["never", "no-lower-priority", "not-enough"],
)
async def test_why_nobody_is_evicted(
    placed: list[tuple[str, ...]], number: int, reason: str, code: str, counts: tuple[int, ...]
) -> None:
    """`Preemption is not helpful for scheduling` is all that the condition says."""
    found = await Cluster(*placed).preemption(number)
    assert (found.reason, _codes(found)) == (reason, [code])
    assert (found.unresolvable_count, found.without_victims_count, found.not_enough_count) == counts
    assert not found.victims


async def test_a_pod_that_all_nodes_refuse_at_once_is_not_said_to_be_absent() -> None:
    """PostFilter of DynamicResources answers "not found": it lacks its own PreFilter, which did not run."""
    configuration = phase_calls.configuration(["VolumeRestrictions", "DynamicResources"], [])
    at = configuration.profiles[0].plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_POST_FILTER)
    at.plugins.add(name="DynamicResources")
    found = (await Cluster(("small",)).explain(CLAIMING, configuration=configuration)).preemption
    assert (found.reason, _codes(found)) == ("evicting pods would not help", ["evictionsDoNotHelp"])


def _codes(found: decision_explanation_pb2.PreemptionExplanation) -> list[str]:
    return [reason.code for reason in found.reasons]


async def test_what_no_eviction_changes_is_named() -> None:
    """A pod larger than every node waits for evictions that do not come."""
    cluster = Cluster(("small",))
    cluster.builder.add_class(9, pod_of({**requesting(cpu="64"), "priority": 100}))
    found = await cluster.preemption(9)
    assert (found.reason, _codes(found)) == ("evicting pods would not help", ["evictionsDoNotHelp"])
    assert found.unresolvable_count == 1


async def test_victims_that_are_still_leaving_are_waited_for() -> None:
    """A pod that has preempted already seems to be stuck."""
    cluster = Cluster(("small", "small", "small"), flags=TERMINATING_BY_PREEMPTION)
    nomination = snapshot_pb2.Nomination(pod=cycle_pb2.PodIdentity(uid="vip"), pod_class=VIP, slot=0)
    cluster.builder.apply(nominations=[nomination])
    found = await cluster.preemption()
    assert found.reason == "it is nominated to n0, where pods preempted for it are still being deleted"
    assert _codes(found) == ["victimsTerminating"]


async def test_a_profile_without_preemption_says_so() -> None:
    """Nothing about preemption would look like an omission."""
    configuration = preempting_configuration()
    del configuration.profiles[0].plugin_sets[-1]
    response = await Cluster(("big",)).explain(configuration=configuration)
    assert response.preemption.reason == "the profile has no plugin that preempts"
    assert _codes(response.preemption) == ["noPreemptionPlugin"]


async def test_nobody_pays_for_it_without_a_request_or_where_a_node_is_feasible() -> None:
    """Dry runs take longer than everything else."""
    assert not (await Cluster(("big",)).explain(preemption=False)).HasField("preemption")
    assert not (await Cluster(()).explain()).HasField("preemption")
