"""Situations that users reported of kube-scheduler's scheduling and binding cycles: no pod is lost or bound wrongly."""

from collections.abc import Iterator

import numpy as np
import pytest

from tests.helpers.frontend_world import PREPARED_CPUS, PendingCall, World
from tests.helpers.pod_group_builders import pod_group
from trireme.plugin_api import interfaces
from trireme.plugins.inter_pod_affinity import filter as affinity_filter
from trireme.v1 import bind_pb2, filter_phase_pb2
from trireme.wire import node_columns
from trireme_kube.client.informers.watch import EventKind


@pytest.fixture(name="grouping")
def _grouping() -> Iterator[World]:
    """The same, for a scheduler that knows groups."""
    world = World("--feature-gates=GenericWorkload=true")
    world.api.put_node("n0", 3)
    world.deliver("nodes", 1)
    yield world
    world.close()


def _answer_all_but(world: World, *left: PendingCall) -> None:
    """Answer every other call, and those that follow, and deliver what comes of them."""
    for _ in range(8):
        for call in list(world.pending_calls):
            if call in world.pending_calls and call not in left:
                world.answer(call, "good")
                world.deliver("pods", 1000)
        world.loop.advance(0.01)


def _nodes(world: World) -> dict[str, str]:
    return {name: raw["spec"].get("nodeName", "") for name, raw in sorted(world.api.pods.items())}


def _create_apart(world: World, name: str) -> None:
    """A pod that takes no node where another one of its kind is."""
    world.api.add_pod(name, 1, 0)
    raw = world.api.pods[name]
    raw["metadata"]["labels"] = {"app": "apart"}
    term = {"labelSelector": {"matchLabels": raw["metadata"]["labels"]}, "topologyKey": "kubernetes.io/hostname"}
    raw["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    world.api.log["pods"].pop()
    world.api.record("pods", EventKind.ADDED, raw)
    world.deliver("pods", 1000)


def _filter_by_affinity(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have filter ask InterPodAffinity, too."""
    plugin, by_room = affinity_filter.InterPodAffinityFilter(), world._filter

    def answer(request: filter_phase_pb2.FilterPhaseFilterRequest) -> filter_phase_pb2.FilterPhaseFilterResponse:
        pod_class, table = world.mirror.classes[request.cycle.pod_class], interfaces.StatusTable()
        state = plugin.pre_filter(pod_class, world.mirror, table).state
        response = by_room(request)
        columns = node_columns.from_message(response.columns)
        verdicts = plugin.filter(pod_class, world.mirror, state, np.arange(columns.index.shape[0]), table)
        columns.index[verdicts.index != interfaces.PASSES] = 1
        columns.capacity[:] = np.where(columns.index, 0, 1)
        response.columns.CopyFrom(node_columns.to_message(columns))
        return response

    monkeypatch.setattr(world, "_filter", answer)


@pytest.mark.parametrize("took_effect", [True, False], ids=["slow", "lost"])
def test_a_pod_whose_binding_is_in_doubt_keeps_anti_affine_pods_away(
    world: World, monkeypatch: pytest.MonkeyPatch, took_effect: bool
) -> None:
    """kubernetes/kubernetes#138546: both were bound to one node, the first one by a request that was given up."""
    _filter_by_affinity(world, monkeypatch)
    node = world.api.nodes["n0"]
    node["metadata"]["labels"] = {"kubernetes.io/hostname": "n0"}
    world.api.record("nodes", EventKind.MODIFIED, node)
    world.deliver("nodes", 1)
    _create_apart(world, "first")
    for rpc in ("Filter", "Place", "Permit"):
        world.answer(world.pending_call(rpc), "good")
    binding = world.pending_call("Bind")
    if took_effect:
        world.answer(binding, "uncertain")
    _create_apart(world, "second")
    for _ in range(2):
        _answer_all_but(world, binding)
        world.loop.advance(400.0)  # longer than any pod stays unschedulable
    assert _nodes(world) == {"first": "n0" if took_effect else "", "second": ""}
    world.answer(binding, "good" if took_effect else "bad")
    for _ in range(3):
        world.loop.advance(60.0)
        _answer_all_but(world)
    assert sorted(_nodes(world).values()) == ["", "n0"]
    assert world.frontend.cluster.cache.statistics().assumed_pods == 0


@pytest.mark.parametrize("rpc", ["Filter", "Place", "Permit"])
def test_a_binding_that_fails_while_the_next_pod_is_popped_loses_neither(world: World, rpc: str) -> None:
    """kubernetes/kubernetes#139186: the failed pod was changed by two parts of the scheduler at once."""
    world.create("failed", 1)
    for each in ("Filter", "Place", "Permit"):
        world.answer(world.pending_call(each), "good")
    binding = world.pending_call("Bind")
    world.create("next", 2)
    while not any(call.rpc == rpc for call in world.pending_calls):
        world.answer(next(call for call in world.pending_calls if call is not binding), "good")
    world.answer(binding, "bad")
    for _ in range(3):
        _answer_all_but(world)
        world.loop.advance(60.0)
    assert _nodes(world) == {"failed": "n0", "next": "n0"}
    assert world.frontend.scheduling.queue.statistics().error_backoff == 0


def _victims_go(world: World) -> None:
    """The API server deletes what was evicted."""
    for name, raw in list(world.api.pods.items()):
        if "deletionTimestamp" in raw["metadata"]:
            world.api.remove("pods", name)
    world.deliver("pods", 1000)


def _evicts(call: PendingCall) -> bool:
    return isinstance(call.request, bind_pb2.Action) and call.request.HasField("evict")


@pytest.mark.parametrize("rpc", ["Permit", "PreBindPreFlight", "PreBind", "Bind", "bound"])
@pytest.mark.parametrize("gone_first", [True, False], ids=["gone-first", "evicted-first"])
def test_a_preemptor_is_not_held_back_when_its_victim_is_gone(world: World, rpc: str, gone_first: bool) -> None:
    """kubernetes/kubernetes#139162: the victim went while the preemption was being written, and no event followed."""
    world.create("victim", PREPARED_CPUS)
    if rpc == "bound":
        _answer_all_but(world)
    else:
        while rpc not in world.pending_rpcs():
            world.answer(world.pending_calls[0], "good")
    held = list(world.pending_calls)
    world.create("boss", PREPARED_CPUS, priority=10)
    while others := [call for call in world.pending_calls if call not in held and not _evicts(call)]:
        world.answer(others[0], "good")
    if gone_first:
        world.api.remove("pods", "victim")
        world.deliver("pods", 1000)
    for _ in range(8):
        _answer_all_but(world)
        _victims_go(world)
        world.loop.advance(2.0)
    assert _nodes(world)["boss"] == "n0"


@pytest.mark.parametrize("answers", [("good", "bad", "bad"), ("bad", "bad", "bad"), ("bad", "good", "bad")])
def test_members_of_a_gang_whose_bindings_fail_late_are_bound_later(grouping: World, answers: tuple[str, ...]) -> None:
    """kubernetes/kubernetes#140478: the members that failed were kept waiting for those that were bound."""
    grouping.deliver_group(EventKind.ADDED, pod_group("gang", 3))
    for name in ("a", "b", "c"):
        grouping.api.add_pod(name, 1, 0, group="gang")
    grouping.deliver("pods", 1000)
    while not any(call.rpc == "Bind" for call in grouping.pending_calls):
        grouping.answer(grouping.pending_calls[0], "good")
    bindings = [call for call in grouping.pending_calls if call.rpc == "Bind"]
    assert len(bindings) == 3
    _answer_all_but(grouping, *bindings)
    for call, how in zip(bindings, answers, strict=True):
        grouping.loop.advance(60.0)
        grouping.answer(call, how)
        _answer_all_but(grouping, *bindings)
    for _ in range(4):
        _answer_all_but(grouping)
        grouping.loop.advance(15.0)
    assert _nodes(grouping) == dict.fromkeys(("a", "b", "c"), "n0")


def test_a_member_is_tried_while_the_bindings_of_the_other_members_fail(grouping: World) -> None:
    """It counts those that had a node when its trial began, and goes on alone; they follow."""
    grouping.deliver_group(EventKind.ADDED, pod_group("gang", 3))
    for name in ("a", "b", "c"):
        grouping.api.add_pod(name, 1, 0, group="gang")
    grouping.deliver("pods", 1000)
    while not any(call.rpc == "Bind" for call in grouping.pending_calls):
        grouping.answer(grouping.pending_calls[0], "good")
    first, *others = (call for call in grouping.pending_calls if call.rpc == "Bind")
    grouping.answer(first, "bad")
    grouping.loop.advance(0.01)
    trial = grouping.pending_call("Filter")
    for call in others:
        grouping.answer(call, "bad")
    grouping.answer(trial, "good")
    while not any(call.rpc == "Bind" for call in grouping.pending_calls):
        grouping.answer(grouping.pending_calls[0], "good")
    grouping.answer(grouping.pending_call("Bind"), "good")
    assert list(_nodes(grouping).values()) == ["n0", "", ""]
    for _ in range(4):
        _answer_all_but(grouping)
        grouping.loop.advance(15.0)
    assert _nodes(grouping) == dict.fromkeys(("a", "b", "c"), "n0")
