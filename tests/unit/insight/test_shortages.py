"""An explanation's shortages: how much is free where most is, and by whom the rest is used."""

import itertools

import pytest

from tests.helpers.phase_calls import PROFILE, configuration, context, greet
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme.insight import service, shortages
from trireme.v1 import cycle_pb2, insight_pb2, shortage_pb2, snapshot_pb2

LARGE, ONE, TWO, IMPORTANT, EMPTY = range(1, 6)


class Insight:
    """Two nodes; the first has more free."""

    def __init__(self) -> None:
        self.builder = SnapshotBuilder()
        for name, cpu in (("n0", "8"), ("n1", "4")):
            self.builder.set_node(name, allocatable={"cpu": cpu, "memory": "4Gi", "pods": "4"})
        self.builder.add_class(LARGE, pod_of(requesting(cpu="7", memory="1Gi")))
        self.builder.add_class(ONE, pod_of(requesting(cpu="1500m")))
        self.builder.add_class(TWO, pod_of(requesting(cpu="2", memory="512Mi")))
        self.builder.add_class(IMPORTANT, pod_of({**requesting(cpu="3"), "priority": 100}))
        self.builder.add_class(EMPTY, pod_of())
        self.service = service.InsightService(self.builder.snap)

    async def shortages(self, *nodes: str) -> dict[str, shortage_pb2.Shortage]:
        await greet(self.service, configuration(("NodeResourcesFit",), (("NodeResourcesFit", 1),)))
        pod = cycle_pb2.PodIdentity(namespace="default", name="p", uid="uid-of-p")
        queued = snapshot_pb2.QueuedPod(pod=pod, pod_class=LARGE, profile=PROFILE)
        self.service._cluster.apply_queue(snapshot_pb2.QueueDelta(reset=True, pods=[queued]))
        found = await self.service.Explain(insight_pb2.ExplainRequest(pod=pod, nodes=nodes), context())
        each = itertools.chain.from_iterable(refusal.shortages for refusal in found.refusals)
        return {f"{shortage.resource} {shortage.node_name}": shortage for shortage in each}


def users(shortage: shortage_pb2.Shortage) -> list[tuple[str, str]]:
    return [(user.pod.name, user.used.string) for user in shortage.users]


@pytest.fixture
def insight() -> Insight:
    return Insight()


async def test_a_shortage_has_what_is_free_and_who_uses_the_rest(insight: Insight) -> None:
    """Whether a hair or half a node is missing, and whose pods are in the way, would take a look at each node."""
    insight.builder.place(ONE, "n0")
    insight.builder.place(TWO, "n0", "n1")
    found = (await insight.shortages())["cpu n0"]
    assert (found.requested.string, found.free.string, found.allocatable.string) == ("7", "4500m", "8")
    assert (users(found), found.more_users) == ([("pod-1", "2"), ("pod-0", "1500m")], 0)


async def test_a_shortage_is_about_the_nodes_that_are_asked_for(insight: Insight) -> None:
    """Asked about one node, the numbers of another one would be shown."""
    insight.builder.place(TWO, "n1")
    found = await insight.shortages("n1")
    assert list(found) == ["cpu n1"]
    assert (found["cpu n1"].free.string, found["cpu n1"].allocatable.string) == ("2", "4")


async def test_many_users_are_counted(insight: Insight) -> None:
    """A node with a hundred pods would be a page of names."""
    insight.builder.set_node("n0", allocatable={"cpu": "13", "memory": "4Gi", "pods": "40"})
    insight.builder.place(ONE, *["n0"] * (shortages.MAX_USERS + 1))
    found = (await insight.shortages("n0"))["cpu n0"]
    assert (len(found.users), found.more_users, found.free.string) == (shortages.MAX_USERS, 1, "4")


async def test_what_is_kept_for_nominated_pods_is_not_free(insight: Insight) -> None:
    """The node would have more free than is requested, and refuse the pod all the same."""
    nominee = cycle_pb2.PodIdentity(namespace="default", name="n", uid="uid-of-n")
    slot = insight.builder.snap.nodes.slot_of_name["n0"]
    insight.builder.apply(nominations=[snapshot_pb2.Nomination(pod=nominee, pod_class=IMPORTANT, slot=slot)])
    found = (await insight.shortages("n0"))["cpu n0"]
    assert found.free.string == "5"
    assert [(user.nominated, user.used.string) for user in found.users] == [(True, "3")]


async def test_a_node_that_is_full_of_pods_says_how_many(insight: Insight) -> None:
    """`Too many pods` alone does not say that the node allows four."""
    insight.builder.place(EMPTY, *["n0"] * 4)
    found = (await insight.shortages("n0"))["pods n0"]
    assert (found.free.string, found.allocatable.string, found.more_users, list(found.users)) == ("0", "4", 4, [])


async def test_a_resource_that_no_node_has_is_not_free_anywhere(insight: Insight) -> None:
    """An explanation would fail for a pod that asks for a device nobody has."""
    insight.builder.add_class(LARGE, pod_of(requesting(**{"example.com/gpu": "1"})))
    found = (await insight.shortages("n0"))["example.com/gpu n0"]
    assert (found.requested.string, found.free.string, found.allocatable.string) == ("1", "0", "0")
