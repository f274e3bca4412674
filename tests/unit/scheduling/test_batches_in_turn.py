"""Batches of several classes that wait at the same time are placed by one call of filter and one of score."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.frontend_world import World
from trireme.cache import class_registry, cluster_cache
from trireme.scheduling import batches_in_turn
from trireme.v1 import core_pb2
from trireme_kube.apimachinery import decode

Json = dict[str, Any]


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    """Two nodes, of five and of six CPUs, and nothing on them."""
    world = World()
    world.api.put_node("n0", 5)
    world.api.put_node("n1", 6)
    world.deliver("nodes", 2)
    yield world
    world.close()


def _create(world: World, *cpus: int) -> None:
    """Pods that come while the call about one of a class of its own is open."""
    world.create("first", 1)
    for cpu in cpus:
        world.create(f"pod-{cpu}", cpu)


def _answer(world: World, rpc: str, how: str = "good") -> None:
    world.answer(next(call for call in world.pending_calls if call.rpc == rpc), how)


def _nodes(world: World) -> dict[str, str]:
    return {name: pod["spec"].get("nodeName", "") for name, pod in world.api.stored("pods").items()}


def test_pods_of_several_classes_are_placed_by_one_call_of_each_phase(world: World) -> None:
    _create(world, 4, 5)
    assert world.pending_rpcs() == ["Filter"]
    _answer(world, "Filter")
    _answer(world, "Place")
    (filtering,) = (call for call in world.pending_calls if call.rpc == "FilterClasses")
    assert [each.count for each in filtering.request.classes] == [1, 1]
    world.answer_all()
    assert _nodes(world) == {"first": "n0", "pod-4": "n0", "pod-5": "n1"}


def test_a_pod_without_room_is_tried_by_itself_after_those_before_it(world: World) -> None:
    """The call ends before the class that no node takes, and what comes after it is not lost."""
    _create(world, 4, 9, 6)
    world.answer_all()
    world.answer_all()
    assert _nodes(world) == {"first": "n0", "pod-4": "n0", "pod-9": "", "pod-6": "n1"}


@pytest.mark.parametrize("rpc", ["FilterClasses", "PlaceClasses"])
@pytest.mark.parametrize("how", ["bad", "down"])
def test_where_the_call_fails_each_batch_is_tried_by_itself(world: World, rpc: str, how: str) -> None:
    _create(world, 4, 5)
    _answer(world, "Filter")
    _answer(world, "Place")
    if rpc == "PlaceClasses":
        _answer(world, "FilterClasses")
    _answer(world, rpc, how)
    world.answer_all()
    world.answer_all()
    assert _nodes(world) == {"first": "n0", "pod-4": "n0", "pod-5": "n1"}


def test_a_pod_that_is_deleted_meanwhile_is_not_bound(world: World) -> None:
    _create(world, 4, 5)
    _answer(world, "Filter")
    _answer(world, "Place")
    world.api.remove("pods", "pod-5")
    world.deliver("pods", 10)
    world.answer_all()
    world.deliver("pods", 10)
    assert _nodes(world) == {"first": "n0", "pod-4": "n0"}
    assert world.frontend.scheduling.queue.contents.get("ns/pod-5") is None
    assert not world.frontend.scheduling.queue.statistics().in_flight


def test_how_many_batches_are_tried_follows_from_how_many_were_placed() -> None:
    """Where calls end early, most of what filter computed would be in vain."""
    cache = cluster_cache.ClusterCache(class_registry.ClassRegistry())
    in_turn = batches_in_turn.BatchesInTurn(cache, {"p"})
    assert in_turn.most == batches_in_turn.MAX_BATCHES
    in_turn.note_placed(32, 3)
    assert in_turn.most == 6
    in_turn.note_placed(6, 6)
    assert in_turn.most == batches_in_turn.MAX_BATCHES
    in_turn.note_placed(32, 0)
    assert in_turn.most == 1
    in_turn.note_single()
    assert in_turn.most == 2


_TERM = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}


@pytest.mark.parametrize(
    ("spec", "only"),
    [
        ({"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}, True),
        ({"affinity": {"nodeAffinity": {}}, "volumes": [{"name": "v", "emptyDir": {}}]}, True),
        ({"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}, True),
        ({"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}, False),
        ({"initContainers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}, False),
        ({"hostNetwork": True}, False),
        ({"nodeName": "n0"}, False),
        ({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]}}}, False),
        ({"affinity": {"podAntiAffinity": {}}}, False),
        ({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone"}]}, False),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, False),
        ({"resourceClaims": [{"name": "d", "resourceClaimName": "c"}]}, False),
        ({"schedulingGroup": {"podGroupName": "g"}}, False),
    ],
)
def test_which_pods_take_nothing_but_resources(spec: Json, only: bool) -> None:
    pod = decode.decode({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}], **spec}}, core_pb2.Pod)
    assert batches_in_turn.takes_resources_only(pod) is only
