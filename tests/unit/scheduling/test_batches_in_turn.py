"""Batches of several classes that wait at the same time are placed by one call of filter and one of score."""

import types
from collections.abc import Iterator
from typing import Any, cast
from unittest import mock

import pytest

from tests.helpers.frontend_world import World, one_node
from trireme.cache import class_registry, cluster_cache
from trireme.queueing import active, queued_pod
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


def _asked_together(world: World, *cpus: int) -> None:
    """FilterClasses is open for pods of these sizes; of priority 10, on nodes full of less important ones."""
    for name, cpu in (("low0", 5), ("low1", 6)):
        world.create(name, cpu)
        world.answer_all()
    world.create("first", 1, 5)
    for cpu in cpus:
        world.create(f"high-{cpu}", cpu, 10)
    _answer(world, "Filter")
    world.deliver("pods", 10)


@pytest.mark.parametrize("gone", ["deleted", "terminating"])
def test_nothing_is_evicted_for_a_pod_that_is_deleted_meanwhile(world: World, gone: str) -> None:
    _asked_together(world, 5, 6)
    while "FilterClasses" not in world.pending_rpcs():
        world.answer(world.pending_calls[0], "good")
    for name in ("high-5", "high-6"):
        if gone == "deleted":
            world.api.remove("pods", name)
        else:
            world.api.terminate(world.api.pods[name])
    world.deliver("pods", 10)
    world.answer_all()
    world.deliver("pods", 10)
    assert {"low0", "low1"} <= set(world.api.stored("pods"))


def test_pods_that_are_all_being_deleted_end_no_cycle_for_others(world: World) -> None:
    for name, cpu in (("a", 4), ("b", 5)):
        world.api.add_pod(name, cpu, 0)
    for pod in list(world.api.pods.values()):
        world.api.terminate(pod)
    world.deliver("pods", 10)
    world.answer_all()
    world.create("c", 4)
    world.answer_all()
    assert _nodes(world)["c"] == "n0"


def test_a_pod_that_comes_first_meanwhile_goes_first(world: World) -> None:
    """Pods leave the queue when they get their places: until then a more important one comes before them."""
    _create(world, 4, 5)
    _answer(world, "Filter")
    _answer(world, "Place")
    _answer(world, "FilterClasses")
    world.create("urgent", 6, 100)
    world.answer_all()
    world.answer_all()
    assert _nodes(world) == {"first": "n0", "pod-4": "n0", "pod-5": "", "urgent": "n1"}


def test_a_pod_of_a_node_that_is_gone_meanwhile_is_tried_again(world: World) -> None:
    _create(world, 4, 5)
    _answer(world, "Filter")
    _answer(world, "Place")
    _answer(world, "FilterClasses")
    world.api.remove("nodes", "n1")
    world.deliver("nodes", 10)
    world.answer_all()
    world.answer_all()
    assert _nodes(world) == {"first": "n0", "pod-4": "n0", "pod-5": ""}
    assert world.frontend.scheduling.queue.statistics().in_flight == 0, "its attempt has ended"


def test_calls_that_place_one_batch_are_made_more_seldom(world: World) -> None:
    """Of the second batch it is known only then that it does not fit, and the next ones are placed each by itself."""
    _create(world, 6, 7)
    world.answer_all()
    for number, cpus in enumerate((8, 9)):
        world.create(f"later-{number}", cpus)
    called = []
    while world.pending_calls:
        called.append(world.pending_calls[0].rpc)
        world.answer(world.pending_calls[0], "good")
    assert "FilterClasses" not in called


def test_classes_that_back_off_are_not_evaluated_in_vain(world: World) -> None:
    """What is taken early from the back-off comes batch by batch."""
    for number in range(6):
        world.create(f"p{number}", 20 + number)
        world.answer_all()
    world.api.put_node("big", 1000)
    world.deliver("nodes", 1)
    called = []
    while world.pending_calls:
        called.append(world.pending_calls[0].rpc)
        world.answer(world.pending_calls[0], "good")
    assert called.count("Filter") + called.count("FilterClasses") <= 7


def test_an_attempt_begins_with_the_call_that_finds_its_place(world: World) -> None:
    """Its duration is a metric of kube-scheduler, by which a slow phase is noticed."""
    world.api.put_node("n2", 50)
    world.deliver("nodes", 1)
    _create(world, 4, 5)
    _answer(world, "Filter")
    _answer(world, "Place")
    world.loop.advance(5.0)
    world.answer_all()
    world.answer_all()
    seconds = world.frontend.context.metrics.instruments.attempt_seconds
    assert seconds.bucket_counts("result", "scheduled")[0] == 0


def test_how_many_batches_are_tried_follows_from_how_many_were_placed() -> None:
    """Where calls end early, most of what filter computed would be in vain."""
    cache = cluster_cache.ClusterCache(class_registry.ClassRegistry())
    in_turn = batches_in_turn.BatchesInTurn(cache, {"p"})
    assert in_turn.most == batches_in_turn.MAX_BATCHES
    in_turn.note_placed(32, 3)
    assert in_turn.most == 6
    in_turn.note_placed(6, 6)
    assert in_turn.most == batches_in_turn.MAX_BATCHES


def test_how_many_pods_are_placed_together_is_limited() -> None:
    """One call with thousands of pods would keep a more important pod waiting."""
    with one_node() as world:
        world.set_available("filters", available=False)
        for cpus in (1, 2, 3):
            for number in range(3):
                world.create(f"{cpus}-{number}", cpus)
        ahead = world.frontend.scheduling.queue.peek_active_classes(9)
        in_turn = batches_in_turn.BatchesInTurn(world.frontend.cluster.cache, {"default-scheduler"})
        made = in_turn.plan(ahead, 100)
        assert made is not None
        assert [count for _, count in made.classes] == [3, 3, 3]
        assert in_turn.count_ahead(ahead) == 9
        limited = in_turn.plan(ahead, 2)
        assert limited is None, "later pods of the first class come before those of the others"


@pytest.mark.parametrize(("most", "classes"), [(3, 1), (4, 2), (6, 2), (7, 3)])
def test_pods_placed_together_are_no_more_than_one_call_may_have(
    monkeypatch: pytest.MonkeyPatch, most: int, classes: int
) -> None:
    monkeypatch.setattr(batches_in_turn, "MAX_PODS", most)
    with one_node() as world:
        world.set_available("filters", available=False)
        for cpus in (1, 2, 3):
            for number in range(3):
                world.create(f"{cpus}-{number}", cpus)
        ahead = world.frontend.scheduling.queue.peek_active_classes(9)
        in_turn = batches_in_turn.BatchesInTurn(world.frontend.cluster.cache, {"default-scheduler"})
        made = in_turn.plan(ahead, 100)
        assert len(made.classes if made is not None else [0]) == classes


@pytest.fixture(name="large_world")
def _large_world() -> Iterator[World]:
    """A node with room for all, on which as many pods came alone, each of a class of its own, as it takes."""
    world = World()
    world.api.put_node("n0", 1000)
    world.deliver("nodes", 1)
    for number in range(batches_in_turn.FIRSTS_IN_ROW):
        world.create(f"own-{number}", 10 + number)
        assert world.pending_rpcs() == ["Filter"]
        world.answer_all()
    yield world
    world.close()


def test_a_pod_that_comes_alone_is_placed_in_turn_where_each_is_the_first_of_its_class(large_world: World) -> None:
    """Filter and score keep columns of all nodes for a class that is evaluated as a whole, and it never comes again."""
    for number, rpc in ((50, "FilterClasses"), (51, "FilterClasses"), (50, "Filter"), (52, "Filter")):
        large_world.create(f"pod-{number}-{rpc}".lower(), number)
        assert large_world.pending_rpcs() == [rpc]
        large_world.answer_all()
    assert all(_nodes(large_world).values())


def test_after_a_pod_alone_that_no_node_takes_pods_are_tried_by_themselves(large_world: World) -> None:
    large_world.create("large", 2000)
    assert large_world.pending_rpcs() == ["FilterClasses"]
    large_world.answer_all()
    large_world.create("small", 1)
    assert large_world.pending_rpcs() == ["Filter"]
    large_world.answer_all()
    assert [name for name, node in _nodes(large_world).items() if not node] == ["large"]


def test_pods_that_come_alone_in_vain_do_not_keep_a_burst_from_being_placed_together(large_world: World) -> None:
    """If this fails, DaemonSets' pods and such that fit nowhere make other pods cost a call of each phase."""
    for number in range(14):
        large_world.create(f"large-{number}", 2000 + number)
        large_world.answer_all()
    _create(large_world, *range(20, 40))
    _answer(large_world, "Filter")
    _answer(large_world, "Place")
    large_world.loop.advance(0.1)
    (filtering,) = (call for call in large_world.pending_calls if call.rpc == "FilterClasses")
    assert len(filtering.request.classes) == 20


def _batches_until_tried_again(in_turn: batches_in_turn.BatchesInTurn) -> int:
    batches = 0
    while in_turn.most == 1:
        in_turn.note_single()
        batches += 1
    return batches


def test_after_calls_that_end_at_once_batches_are_placed_by_themselves_for_ever_longer() -> None:
    cache = cluster_cache.ClusterCache(class_registry.ClassRegistry())
    in_turn = batches_in_turn.BatchesInTurn(cache, {"p"})
    pauses = []
    for _ in range(9):
        in_turn.note_placed(2, 1)
        pauses.append(_batches_until_tried_again(in_turn))
    assert pauses == [8, 16, 32, 64, 128, 256, 512, 512, 512]
    assert in_turn.most == 2
    in_turn.note_placed(2, 2)
    in_turn.note_placed(32, 0)
    assert _batches_until_tried_again(in_turn) == 8


_TERM = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}


@pytest.mark.parametrize(
    ("spec", "only"),
    [
        ({"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}, True),
        ({"affinity": {"nodeAffinity": {}}, "volumes": [{"name": "v", "emptyDir": {}}]}, True),
        ({"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}, True),
        ({"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}, True),
        ({"initContainers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}, True),
        ({"hostNetwork": True}, True),
        ({"nodeName": "n0"}, False),
        ({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]}}}, False),
        ({"affinity": {"podAntiAffinity": {}}}, False),
        ({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone"}]}, False),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, True),
        ({"volumes": [{"name": "v", "ephemeral": {}}, {"name": "w", "emptyDir": {}}]}, True),
        ({"volumes": [{"name": "v", "rbd": {"monitors": ["m"], "image": "i"}}]}, False),
        ({"volumes": [{"name": "v", "ephemeral": {}}, {"name": "w", "rbd": {"monitors": ["m"]}}]}, False),
        ({"resourceClaims": [{"name": "d", "resourceClaimName": "c"}]}, True),
        ({"schedulingGroup": {"podGroupName": "g"}}, False),
    ],
)
def test_which_pods_take_nothing_but_from_their_nodes(spec: Json, only: bool) -> None:
    pod = decode.decode({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}], **spec}}, core_pb2.Pod)
    assert batches_in_turn.takes_from_own_node_only(pod) is only


@pytest.mark.parametrize(
    ("spec", "more"),
    [
        ({"hostNetwork": True}, False),
        ({"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}, False),
        ({"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}, True),
        ({"volumes": [{"name": "v", "emptyDir": {}}]}, False),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, True),
        ({"resourceClaims": [{"name": "d", "resourceClaimName": "c"}]}, True),
    ],
)
def test_several_pods_that_take_more_than_resources_are_placed_by_themselves(spec: Json, more: bool) -> None:
    """Filter ends before such a class: calls in vain would keep other classes from being placed together."""
    pod = decode.decode({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}], **spec}}, core_pb2.Pod)
    registry = {1: types.SimpleNamespace(pod=pod, most_in_turn=None)}
    in_turn = batches_in_turn.BatchesInTurn(cast(Any, types.SimpleNamespace(registry=registry, node_count=9)), {"p"})
    record = types.SimpleNamespace(profile="p", nominated="", pod=types.SimpleNamespace(has_deferred_resize=False))
    head = mock.Mock(spec=queued_pod.QueuedPodInfo, record=record)
    ahead = [active.NextClass(1, head, waiting) for waiting in (1, 2)]
    assert [in_turn.may_take_part(each) for each in ahead] == [True, not more]


@pytest.mark.parametrize(
    ("changes", "key", "takes_part"),
    [
        ({}, 1, True),
        ({"profile": "q"}, 1, False),
        ({"nominated": "n0"}, 1, False),
        ({"pod": types.SimpleNamespace(has_deferred_resize=True)}, 1, False),
        ({}, 0, False),
        ({}, ("pod", "u"), False),
        (None, 1, False),
    ],
    ids=["any", "another profile", "nominated", "a deferred resize", "invalid", "a class of its own", "a group"],
)
def test_which_pods_are_placed_together_with_others(changes: Json | None, key: Any, takes_part: bool) -> None:
    """A resize or a nomination is about one node, and extenders may look at other profiles."""
    registry = {1: types.SimpleNamespace(pod=core_pb2.Pod(), most_in_turn=None)}
    in_turn = batches_in_turn.BatchesInTurn(cast(Any, types.SimpleNamespace(registry=registry, node_count=9)), {"p"})
    plain = {"profile": "p", "nominated": "", "pod": types.SimpleNamespace(has_deferred_resize=False)}
    head: Any = mock.Mock()
    if changes is not None:
        head = mock.Mock(spec=queued_pod.QueuedPodInfo, record=types.SimpleNamespace(**{**plain, **changes}))
    assert in_turn.may_take_part(active.NextClass(key, head, 1)) is takes_part


def test_after_a_pause_two_batches_are_tried_together() -> None:
    with one_node() as world:
        in_turn = world.frontend.scheduling.scheduler._in_turn
        in_turn.note_placed(5, 1)
        for _ in range(batches_in_turn.FIRST_PAUSE):
            assert in_turn.most == 1
            in_turn.note_single()
        assert in_turn.most == 2
        world.set_available("filters", available=False)
        for cpus in (1, 2, 3):
            world.create(f"p{cpus}", cpus)
        ahead = world.frontend.scheduling.queue.peek_active_classes(9)
        found = in_turn.plan(ahead, 100)
        assert found is not None
        assert [count for _, count in found.classes] == [1, 1]
