"""Proposals for a pod of a group, by the RPC that explains pods: each lets the whole group be scheduled."""

from typing import Any

import pytest
from google.protobuf import json_format
from phase_calls import context
from simulated_insight import SimulatedInsight
from waiting_gang import waiting_gang

from trireme.insight.simulations import group_proposals
from trireme.v1 import cycle_pb2, insight_pb2, simulation_pb2

GPU = ("gpu", "true", "NoSchedule")


async def proposals_for(insight: SimulatedInsight, **nodes: dict[str, Any]) -> list[insight_pb2.Proposal]:
    """What is proposed for the first member, after these nodes have come."""
    for name, fields in nodes.items():
        insight.builder.set_node(name, **fields)
    pod = cycle_pb2.PodIdentity(namespace="default", name="m0", uid="uid-of-m0")
    response = await insight.service.Explain(insight_pb2.ExplainRequest(pod=pod, proposals=True), context())
    return list(response.proposals)


def node(cpu: str, *taints: tuple[str, str, str]) -> dict[str, Any]:
    """The fields of a node."""
    return {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "20"}, "taints": list(taints)}


def kinds(found: list[insight_pb2.Proposal]) -> list[str | None]:
    """The kinds of the proposals."""
    return [each.WhichOneof("change") for each in found]


async def test_a_node_that_takes_one_member_is_no_help() -> None:
    """Else people add a node for a gang of two, and both still wait."""
    assert kinds(await proposals_for(await waiting_gang(2, priority=1))) == []
    with_room_for_one = await proposals_for(await waiting_gang(2, priority=1), tainted=node("2", GPU))
    assert kinds(with_room_for_one) == []


async def test_what_lets_all_members_be_scheduled_is_proposed() -> None:
    """The change is of the template, so all members of the class have it."""
    found = await proposals_for(await waiting_gang(2, priority=1), t0=node("2", GPU), t1=node("2", GPU))
    assert kinds(found) == ["tolerate_taints"]
    assert found[0].feasible_count == 2


async def test_one_node_helps_where_all_members_fit_there() -> None:
    """Members need not have nodes of their own."""
    found = await proposals_for(await waiting_gang(2, priority=1, cpu="1"))
    assert kinds(found) == ["add_node"]


async def test_a_request_is_lowered_until_all_members_fit() -> None:
    """The node with most left takes one member with a larger request than both can have."""
    (found,) = await proposals_for(await waiting_gang(2, priority=1), s0=node("1500m"), s1=node("1"))
    assert json_format.MessageToDict(found.lower_request)["proposed"] == {"string": "1"}
    assert found.feasible_count == 2


async def test_a_member_that_has_room_is_helped_by_room_for_the_others() -> None:
    """Nodes take the member that is asked about; that the group does not fit is what keeps it waiting."""
    assert kinds(await proposals_for(await waiting_gang(2, priority=1), free=node("2"))) == ["add_node"]


async def test_nothing_is_proposed_for_a_group_that_fits() -> None:
    """It is tried again soon, as it is."""
    assert kinds(await proposals_for(await waiting_gang(2, priority=1), free=node("4"))) == []


@pytest.mark.parametrize("cpu", ["1", "2"])
async def test_pods_whose_deletion_makes_room_for_one_member_are_not_proposed(cpu: str) -> None:
    """The other one would still wait, or preempt more pods than the proposal says."""
    assert "delete_pods" not in kinds(await proposals_for(await waiting_gang(2, priority=100, cpu=cpu)))


async def test_a_group_that_lacks_a_member_is_helped_by_none() -> None:
    """It is not tried, whatever nodes there are."""
    assert kinds(await proposals_for(await waiting_gang(1, priority=1, cpu="1"))) == []


async def test_a_group_that_cannot_be_simulated_in_time_has_no_proposals() -> None:
    """A search goes on for two seconds; others wait for theirs."""
    insight = await waiting_gang(2, priority=1, cpu="1")
    (queued, _) = insight.service.cluster.queue.all()
    simulator = insight.service._the_simulator()
    members = simulator._members(queued, setup := simulator._make_setup(simulation_pb2.SimulateRequest()))
    proposal = insight_pb2.Proposal(add_node=insight_pb2.AddNode(like_node="n0"))
    for seconds, works in ((60.0, True), (0.0, False)):
        check = group_proposals.GroupCheck(lambda: simulator._fork(setup), queued, members, seconds=seconds)
        assert await check(proposal, None) is works
