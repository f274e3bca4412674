"""The binding cycle while the cluster changes under it: no pod is bound to a node that is gone."""

import itertools
from collections.abc import Iterator

import pytest

from tests.helpers.frontend_world import GUARD, GUARDED_CPUS, PREPARED_CPUS, SUCCESS, World, one_node
from trireme.v1 import bind_pb2, status_pb2

_VOLUMES = "VolumeBinding"
_WAIT = bind_pb2.PreBindResult(status=status_pb2.Status(code=status_pb2.CODE_WAIT, plugin=_VOLUMES, messages=["w"]))
_WAIT.wait_for.add(kind="persistent_volume_claim", namespace="ns", name="c")
_WAIT.timeout.FromSeconds(600)
_NOT_FOUND = 'node "n0" not found'


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    """One node of three CPUs."""
    with one_node() as world:
        yield world


def _answer_until(world: World, rpc: str) -> None:
    """Answer calls until this one is pending."""
    while (call := world.pending_calls[0]).rpc != rpc:
        world.answer(call, "good")


def _remove_node(world: World) -> None:
    world.api.remove("nodes", "n0")
    world.deliver("nodes", 1000)


def _wait_in_pre_bind(world: World, monkeypatch: pytest.MonkeyPatch, *answers: bind_pb2.PreBindResult) -> None:
    """Have a pod wait in PreBind; `answers` are those of the calls after the first, before it waits again."""
    results = itertools.chain([_WAIT, *answers], itertools.repeat(_WAIT))
    monkeypatch.setattr(world, "_prebind", lambda request: bind_pb2.PreBindResponse(results=[next(results)]))
    world.create("p", PREPARED_CPUS)
    _answer_until(world, "PreBind")
    world.answer(world.pending_calls[0], "good")
    assert world.frontend.scheduling.binding.pre_bind_wait(world.api.pods["p"]["metadata"]["uid"]) is not None
    assert not world.pending_calls


def _assert_requeued(world: World, message: str) -> None:
    """The pod is not bound, takes no room, is nominated to no node, and its condition has this message."""
    world.answer_all()
    world.deliver("pods", 1000)
    raw = world.api.pods["p"]
    assert "nodeName" not in raw["spec"]
    assert not raw["status"].get("nominatedNodeName")
    assert raw["status"]["conditions"][0]["message"] == message
    assert world.frontend.scheduling.binding.binding_count == 0
    assert world.frontend.cluster.cache.statistics().assumed_pods == 0
    assert world.frontend.scheduling.queue.statistics().error_backoff == 1


def test_a_pod_that_waits_on_permit_goes_back_when_its_node_goes(world: World) -> None:
    """It does not wait for plugins that would allow it on a node that does not exist."""
    world.create("p", GUARDED_CPUS)
    world.answer_all()
    assert world.frontend.scheduling.waiting.pods()
    _remove_node(world)
    assert not world.frontend.scheduling.waiting.pods()
    _assert_requeued(world, f"waiting on permit for pod: {_NOT_FOUND}")


def test_a_node_that_goes_while_permit_is_called_ends_the_wait(world: World) -> None:
    """The wait begins after the node's removal, and no further event comes."""
    world.create("p", GUARDED_CPUS)
    _answer_until(world, "Permit")
    _remove_node(world)
    _assert_requeued(world, f"waiting on permit for pod: {_NOT_FOUND}")


@pytest.mark.parametrize("rpc", ["Permit", "PreBindPreFlight", "PreBind"])
def test_a_pod_is_not_bound_to_a_node_that_went_before(world: World, rpc: str) -> None:
    """Whatever plugins answer: they may not look at the node."""
    world.create("p", 1 if rpc == "Permit" else PREPARED_CPUS)
    _answer_until(world, rpc)
    _remove_node(world)
    _assert_requeued(world, _NOT_FOUND)


def test_a_pod_that_waits_in_pre_bind_goes_back_when_its_node_goes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin is called again, for its own words; one that does not look at nodes would wait on."""
    _wait_in_pre_bind(world, monkeypatch, _WAIT)
    _remove_node(world)
    _assert_requeued(world, f'running PreBind plugin "{_VOLUMES}": {_NOT_FOUND}')


def test_a_plugin_words_the_loss_of_its_node_itself(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """VolumeBinding has kube-scheduler's text."""
    failed = status_pb2.Status(code=status_pb2.CODE_ERROR, plugin=_VOLUMES, messages=["the text"])
    _wait_in_pre_bind(world, monkeypatch, bind_pb2.PreBindResult(status=failed))
    _remove_node(world)
    _assert_requeued(world, "the text")


def test_an_object_that_arrives_after_the_node_went_does_not_bind_the_pod(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The volume arrives as the node goes, and PreBind succeeds."""
    _wait_in_pre_bind(world, monkeypatch, bind_pb2.PreBindResult(status=SUCCESS))
    _remove_node(world)
    _assert_requeued(world, _NOT_FOUND)


def test_a_changed_node_has_pre_bind_called_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its labels decide whether it reaches a volume; nobody waits for the next look after ten seconds."""
    _wait_in_pre_bind(world, monkeypatch, _WAIT)
    world.api.put_node("n0", 4)
    world.deliver("nodes", 1)
    assert world.pending_rpcs() == ["PreBind"]


def test_a_list_that_was_started_over_has_pre_bind_called_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not say what it leaves out, such as a claim that was deleted meanwhile."""
    _wait_in_pre_bind(world, monkeypatch, _WAIT)
    world.relist("nodes", twice=False)
    assert world.pending_rpcs() == ["PreBind"]


def test_a_victim_in_pre_bind_names_the_plugin_that_it_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its condition and event have kube-scheduler's text."""
    _wait_in_pre_bind(world, monkeypatch)
    world.create("boss", GUARDED_CPUS, priority=10)
    world.answer_all()
    world.deliver("pods", 1000)
    message = f'running PreBind plugin "{_VOLUMES}": preempted by DefaultPreemption'
    assert world.api.pods["p"]["status"]["conditions"][0]["message"] == message


def test_an_allowed_pod_is_bound_to_its_node(world: World) -> None:
    """A node that exists is no reason to go back."""
    world.create("p", GUARDED_CPUS)
    world.answer_all()
    (waiting,) = world.frontend.scheduling.waiting.pods()
    world.frontend.scheduling.waiting.allow(waiting.uid, GUARD)
    world.loop.settle()
    world.answer_all()
    assert world.api.pods["p"]["spec"]["nodeName"] == "n0"
