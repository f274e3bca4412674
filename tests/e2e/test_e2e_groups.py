"""Pod groups on the real control plane, beside kube-scheduler: same pods bound, same conditions, same events."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e import group_sides, installation
from tests.e2e.group_sides import GROUPS, PODS, Json, Stage, gang, members
from tools.controlplane import launcher

pytestmark = [pytest.mark.timeout(180), pytest.mark.controlplane]


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[group_sides.BothSides]:
    """Both schedulers, on control planes that serve PodGroups, for all of these tests."""
    options = launcher.Options(feature_gates=group_sides.GATES, runtime_config=group_sides.SERVED)
    with group_sides.both_sides(options, tmp_path_factory.mktemp("sides")) as both:
        yield both


def _lesser(count: int, **metadata: Any) -> list[Json]:
    pods = [installation.pod(f"low-{number}", cpu="1", terminationGracePeriodSeconds=0) for number in range(count)]
    for pod in pods:
        pod["metadata"] |= metadata
    return pods


async def a_gang_that_fits(on: Stage) -> None:
    """Some pods are there before their group."""
    await on.nodes(2)
    await on.pods(members("a", 2))
    await on.group(gang("a", 3))
    await on.pods(members("a", 1, first=2))
    await on.until_bound(3)
    await on.until_condition("a", "Scheduled")
    await on.until_told("Scheduled", 3)


async def two_gangs_that_are_too_big_together(on: Stage) -> None:
    """One goes, the other one waits whole, and goes when the first has gone."""
    await on.nodes(2)
    await on.group(gang("a", 3))
    await on.group(gang("b", 3))
    await on.pods([*members("a", 3), *members("b", 3)])
    await on.until_bound(3, "a-")
    await on.until_condition("b", "Unschedulable")
    assert not await on.bound("b-")
    for number in range(3):
        await on.delete(f"{PODS}/a-{number}")
    await on.until_bound(3, "b-")
    await on.until_condition("b", "Scheduled")


async def more_members_than_the_minimum(on: Stage) -> None:
    """Pods that fit beyond the minimum are bound too; each of the others gets its reason."""
    await on.nodes(2)
    await on.group(gang("a", 2))
    await on.pods_at_once(members("a", 6))
    await on.until_bound(4)
    await on.until_told("FailedScheduling", 2)


async def members_of_another_priority_than_their_group(on: Stage) -> None:
    """What cannot be scheduled as one is an error that is reported."""
    await on.priorities()
    await on.nodes(2)
    await on.group(gang("a", 2, priorityClassName="high"))
    await on.pods(members("a", 2))
    await on.until_condition("a", "PodGroupError")


async def a_gang_that_preempts(on: Stage) -> None:
    """Everybody has to go for it, and it gets their room."""
    await on.priorities()
    await on.nodes(3)
    await on.pods(_lesser(6))
    await on.until_bound(6)
    await on.group(gang("a", 3, priorityClassName="high"))
    await on.pods(members("a", 3, cpu="2", priorityClassName="high"))
    await on.until_bound(3, "a-")
    await on.until_condition("a", "Scheduled")


async def victims_that_take_their_time(on: Stage) -> None:
    """Meanwhile the members are nominated, and nobody is evicted twice."""
    await on.priorities()
    await on.nodes(2)
    await on.pods(_lesser(4, finalizers=["example.com/wait"]))
    await on.until_bound(4)
    await on.group(gang("a", 2, priorityClassName="high"))
    await on.pods(members("a", 2, cpu="2", priorityClassName="high"))
    await on.until_condition("a", "Unschedulable", "preempting 4 victims")
    await on.until_told("Preempted", 4)


async def a_gang_for_which_no_eviction_is_enough(on: Stage) -> None:
    """Then nobody is evicted."""
    await on.priorities()
    await on.nodes(2)
    await on.pods(_lesser(2))
    await on.until_bound(2)
    await on.group(gang("a", 3, priorityClassName="high"))
    await on.pods(members("a", 3, cpu="2", priorityClassName="high"))
    await on.until_condition("a", "Unschedulable")
    await on.until_told("FailedScheduling", 3)


async def victims_that_go_together(on: Stage) -> None:
    """A group that is disrupted as one goes as one, though half of it would do."""
    await on.priorities()
    await on.nodes(2)
    await on.group(gang("v", 4, disruptionMode={"all": {}}))
    await on.pods(members("v", 4))
    await on.until_bound(4)
    await on.group(gang("a", 2, priorityClassName="high"))
    await on.pods(members("a", 2, priorityClassName="high"))
    await on.until_bound(2, "a-")
    await on.until_condition("a", "Scheduled")


async def a_pod_for_which_a_group_goes_as_one(on: Stage) -> None:
    """One pod of the group would do, but what is left of it would be worth nothing."""
    await on.priorities()
    await on.nodes(2)
    await on.group(gang("v", 4, disruptionMode={"all": {}}))
    await on.pods(members("v", 4))
    await on.until_bound(4)
    await on.pods([installation.pod("vip", cpu="1", priorityClassName="high")])
    await on.until_bound(1, "vip")
    await on.until_told("Preempted", 4)


def _spread(pods: list[Json]) -> list[Json]:
    """The pods go to the first node, and count in a constraint that lets two of them be there."""
    constraint = {
        "maxSkew": 2,
        "minDomains": 10,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "foo"}},
    }
    for pod in pods:
        pod["metadata"]["labels"] = {"app": "foo"}
        pod["spec"] |= {
            "nodeSelector": {"kubernetes.io/hostname": "node-0"},
            "topologySpreadConstraints": [constraint],
        }
    return pods


async def _spread_out(on: Stage, nodes: int, cpu: str) -> None:
    """A cluster of such nodes, on each of which a pod of lower priority counts in the constraint."""
    await on.priorities()
    await on.nodes(nodes, cpu)
    for number, pod in enumerate(_lesser(nodes, labels={"app": "foo"})):
        pod["spec"]["nodeName"] = f"node-{number}"
        await on.pods([pod])
    await on.until_bound(nodes)


async def a_gang_that_spreads(on: Stage) -> None:
    """There are CPUs for all, but the pod on its node is one too many; the one on the other node is not."""
    await _spread_out(on, 2, "16")
    await on.group(gang("a", 2, priorityClassName="high"))
    await on.pods(_spread(members("a", 2, priorityClassName="high")))
    await on.until_bound(2, "a-")
    await on.until_condition("a", "Scheduled")
    assert await on.bound("low") == ["low-1"]


async def a_gang_that_spreads_where_others_do_not_count(on: Stage) -> None:
    """Only the pod on its node that counts in the constraint is evicted."""
    await _spread_out(on, 1, "4")
    await on.pods([installation.pod("other", cpu="1", nodeName="node-0", terminationGracePeriodSeconds=0)])
    await on.group(gang("a", 2, priorityClassName="high"))
    await on.pods(_spread(members("a", 2, priorityClassName="high")))
    await on.until_bound(2, "a-")
    await on.until_condition("a", "Scheduled")
    assert await on.bound("other") == ["other"]


def _in_a_rack(group: Json) -> Json:
    group["spec"]["schedulingConstraints"] = {"topology": [{"key": "rack"}]}
    return group


async def a_gang_in_the_rack_that_it_fills(on: Stage) -> None:
    """Both racks have room, but one of them would be used up."""
    await on.nodes(5, labels=[{"rack": rack} for rack in "aabbb"])
    await on.group(_in_a_rack(gang("g", 2)))
    await on.pods_at_once(members("g", 4))
    await on.until_bound(4)
    await on.until_condition("g", "Scheduled")
    nodes = {pod["spec"]["nodeName"] for pod in await on.here.pods()}
    assert nodes == {"node-0", "node-1"}


async def a_gang_that_no_rack_has_room_for(on: Stage) -> None:
    """Though the cluster has."""
    await on.nodes(3, labels=[{"rack": rack} for rack in "abc"])
    await on.group(_in_a_rack(gang("g", 3)))
    await on.pods(members("g", 3))
    await on.until_condition("g", "Unschedulable")
    await on.until_told("FailedScheduling", 3)


SCENARIOS = (
    a_gang_that_fits,
    two_gangs_that_are_too_big_together,
    more_members_than_the_minimum,
    a_gang_that_preempts,
    victims_that_take_their_time,
    a_gang_for_which_no_eviction_is_enough,
    victims_that_go_together,
    a_pod_for_which_a_group_goes_as_one,
    a_gang_that_spreads,
    a_gang_that_spreads_where_others_do_not_count,
    a_gang_in_the_rack_that_it_fills,
    a_gang_that_no_rack_has_room_for,
)
TOPOLOGY = ("GenericWorkload", "TopologyAwareWorkloadScheduling")

# Here kube-scheduler may try the group again, while its victims terminate or because some of its members are bound, by
# chance, and its condition is then that of the second attempt. A scenario itself waits for the condition before that,
# where it stays long enough.
TRIED_AGAIN = {victims_that_take_their_time, more_members_than_the_minimum}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_trireme_and_kube_scheduler_make_the_same_of_it(
    scenario: group_sides.Scenario, sides: group_sides.BothSides
) -> None:
    """A user who moves over sees the same of their groups: bindings, conditions, events."""
    ours, theirs = await sides.play(scenario, TOPOLOGY if "rack" in scenario.__name__ else TOPOLOGY[:1])
    if scenario in TRIED_AGAIN:
        del ours["groups"], theirs["groups"]
    assert not group_sides.differences(ours, theirs)


async def test_members_of_another_priority_are_an_error_of_their_group(sides: group_sides.BothSides) -> None:
    """As in v1.38; the kube-scheduler that groups are compared with is v1.37, which has another reason for it."""
    seen = await sides.trireme.play(members_of_another_priority_than_their_group, TOPOLOGY[:1])
    assert not any(pod["bound"] for pod in seen["pods"].values())


async def _whose_pod_group_changes(on: Stage) -> None:
    await on.nodes(1)
    await on.group(gang("a", 3))
    await on.pods(members("a", 3))
    await on.until_condition("a", "Unschedulable")
    await on.patch(f"{GROUPS}/a", {"metadata": {"finalizers": []}})
    await on.delete(f"{GROUPS}/a")
    await on.delete(f"{PODS}/a-2")
    await on.group(gang("a", 3))
    await asyncio.sleep(2)
    assert not await on.bound()
    await on.patch(f"{GROUPS}/a", {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}})
    await on.until_bound(2)
    await on.until_condition("a", "Scheduled")


async def test_no_pod_is_lost_when_its_pod_group_is_deleted_or_shrunk(sides: group_sides.BothSides) -> None:
    """Pods of a group that is deleted wait for the next of its name; fewer than its minimum wait for others."""
    seen = await sides.trireme.play(_whose_pod_group_changes)
    assert {name for name, pod in seen["pods"].items() if pod["bound"]} == {"a-0", "a-1"}
