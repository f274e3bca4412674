"""Explaining preemption for a pod of a group, by the RPC that explains pods."""

from tests.helpers.phase_calls import context
from tests.helpers.simulated_insight import SimulatedInsight, nodes_of
from tests.helpers.waiting_gang import waiting_gang
from trireme.v1 import cycle_pb2, decision_explanation_pb2, insight_pb2


async def preemption_of(insight: SimulatedInsight) -> decision_explanation_pb2.PreemptionExplanation:
    """The verdict on the first member."""
    pod = cycle_pb2.PodIdentity(namespace="default", name="m0", uid="uid-of-m0")
    response = await insight.service.Explain(insight_pb2.ExplainRequest(pod=pod, preemption=True), context())
    return response.preemption


async def test_a_group_names_its_victims_and_where_its_members_go() -> None:
    """As for a single pod it would say whom this member evicts, which nobody does: the group preempts as a whole."""
    insight = await waiting_gang(2)
    found = await preemption_of(insight)
    assert (found.pod_group, found.reason) == ("gang", "")
    assert sorted((each.pod.name, each.priority, each.node_name) for each in found.victims) == [
        ("pod-0", 1, "n0"),
        ("pod-1", 1, "n0"),
        ("pod-2", 1, "n1"),
        ("pod-3", 1, "n1"),
    ]
    assert sorted(each.node_name for each in found.placements) == ["n0", "n1"]
    assert insight.builder.snap.pods.count == 4
    assert sorted(nodes_of(await insight.change()).values()) == ["n0", "n1"]


async def test_a_group_that_evicts_nobody_says_why() -> None:
    """Its members wait beside pods of lower priority, or it lacks a member."""
    too_large = await preemption_of(await waiting_gang(2, cpu="3"))
    assert not too_large.victims
    assert too_large.reason.startswith("even without all pods of lower priority it does not fit: 0/2 nodes")
    assert codes_of(too_large) == ["victimsNotEnough"]
    without_lower = await preemption_of(await waiting_gang(2, priority=1))
    assert without_lower.reason.startswith("no node has a pod of lower priority: 0/2 nodes")
    assert codes_of(without_lower) == ["noVictims"]
    lacking = await preemption_of(await waiting_gang(1))
    assert lacking.reason.startswith("the group is not tried: it waits for more members")
    assert codes_of(lacking) == ["groupNotTried"]


def codes_of(found: decision_explanation_pb2.PreemptionExplanation) -> list[str]:
    return [reason.code for reason in found.reasons]


async def test_members_that_stay_pending_have_the_codes_of_their_group() -> None:
    """Beside those of nodes: a member that fits alone would seem to have no reason at all."""
    insight = await waiting_gang(2, cpu="1", priority=1)
    answer = await insight.change({"delete": {"kind": "pod", "namespace": "default", "name": "pod-0"}})
    codes = {pod.name: [each.code for each in group.reasons] for group in answer.pending for pod in group.pods}
    assert codes == {"m0": ["groupUnschedulable", "minimumNotMet", "noClaimToRelease", "noVictims"], "m1": []}


async def test_a_group_that_cannot_be_simulated_says_so() -> None:
    """An explanation that fails for its last part would hide what nodes say."""
    insight = await waiting_gang(2)
    insight.service._shared_simulator()._seconds = 0.0
    found = await preemption_of(insight)
    assert found.reason.startswith("it is not known, for the group is not simulated: ")
    assert codes_of(found) == ["notSimulated"]
