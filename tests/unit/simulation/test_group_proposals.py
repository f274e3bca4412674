"""Proposals for a pod of a group, by the RPC that explains pods: each lets the whole group be scheduled."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf import json_format

from tests.helpers.phase_calls import context
from tests.helpers.simulated_insight import PROFILE, SimulatedInsight, stored
from tests.helpers.waiting_gang import waiting_gang
from trireme.insight.simulations import group_proposals
from trireme.v1 import cycle_pb2, insight_pb2, simulation_pb2, snapshot_pb2

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
    """Some nodes accept the pod that is explained; it waits because there is no room for its whole group."""
    assert kinds(await proposals_for(await waiting_gang(2, priority=1), free=node("2"))) == ["add_node"]


@pytest.mark.parametrize(("cpu", "expected"), [("4", ["label_node"]), ("2", [])], ids=["all-fit", "one-fits"])
async def test_a_node_is_to_be_labelled_if_the_whole_group_fits_there(cpu: str, expected: list[str]) -> None:
    """If this fails, somebody labels a node for a group that goes on waiting."""
    waiting = await waiting_gang(2, priority=1, nodeSelector={"disk": "ssd"})
    found = await proposals_for(waiting, free=node(cpu))
    assert [kind for kind in kinds(found) if kind == "label_node"] == expected


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
    simulator = insight.service._shared_simulator()
    members = simulator._members(queued, setup := simulator._make_setup(simulation_pb2.SimulateRequest()))
    proposal = insight_pb2.Proposal(add_node=insight_pb2.AddNode(like_node="n0"))
    for seconds, works in ((60.0, True), (0.0, False)):
        check = group_proposals.GroupCheck(setup, simulator._known_classes(), queued, members, seconds=seconds)
        assert await check(insight.builder.snap, proposal, None) is works


async def explain_while(insight: SimulatedInsight, change: Callable[[], None], turns: int) -> list[str | None]:
    """The kinds of the proposals for the first member, where the cluster changes after so many turns of the loop."""
    asking = asyncio.create_task(proposals_for(insight))
    for _ in range(turns):
        await asyncio.sleep(0)
    change()
    return kinds(await asking)


@pytest.mark.parametrize("turns", range(2, 60, 3))
async def test_a_cluster_that_changes_meanwhile_does_not_end_the_search(turns: int) -> None:
    """A node that is named may be gone before its proposal is checked, as where an autoscaler is at work."""
    insight = await waiting_gang(2, priority=1, cpu="1")
    found = await explain_while(insight, lambda: insight.builder.remove_node("n0"), turns)
    assert found in (["add_node"], [])


async def test_other_tasks_run_while_a_large_group_is_checked() -> None:
    """Its members are tried in one cycle: insight would follow no stream, and answer no probe, meanwhile."""
    insight, gang = await waiting_gang(0, priority=1), {"podGroupName": "gang"}
    insight.builder.set_node("free", **node("2"))
    members = []
    for number in range(15):
        insight.builder.add_class(10 + number, stored(cpu=f"{number + 1}m", priority=1, schedulingGroup=gang))
        name = cycle_pb2.PodIdentity(namespace="default", name=f"m{number}", uid=f"uid-of-m{number}")
        members.append(snapshot_pb2.QueuedPod(pod=name, pod_class=10 + number, profile=PROFILE, pod_group="gang"))
    insight.service.cluster.apply_queue(snapshot_pb2.QueueDelta(reset=True, pods=members))
    check = insight.service._shared_simulator().check_of_group(members[0])
    checking = asyncio.create_task(check(insight.builder.snap, insight_pb2.Proposal(), None))
    turns = 0
    while not checking.done():
        await asyncio.sleep(0)
        turns += 1
    assert checking.result()
    assert turns > 2 * len(members)
