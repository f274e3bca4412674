"""A remote plugin that changes while pods wait: one that is rejected, joins, or is another version or instance."""

import dataclasses
from collections.abc import Iterator, Sequence

import pytest

from tests.helpers.frontend_world import GUARD, World, one_node
from tests.helpers.frontend_world_api import PROFILE
from trireme.config import remote_plugin_settings
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.frontend import queue_plugin_calls
from trireme.frontend.serving import scheduler_explanation
from trireme.queueing import states
from trireme.v1 import plugin_pb2

INFO = plugin_pb2.PluginInfo(name=GUARD, extension_points=[plugin_pb2.EXTENSION_POINT_PERMIT])


@pytest.fixture(name="world")
def _world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """One node, and the plugin in the configuration."""
    with one_node() as world:
        membership = world.frontend.context.membership
        plugin = remote_plugin_settings.RemotePlugin(
            GUARD, "127.0.0.1:1", (ExtensionPoint.PERMIT,), failure_policy="Ignore"
        )
        own = dataclasses.replace(membership._completed.trireme, remote_plugins=(plugin,))
        monkeypatch.setattr(membership, "_completed", dataclasses.replace(membership._completed, trireme=own))
        monkeypatch.setattr(world.frontend.plugin_updates, "_configure_phases", lambda configuration: None)
        yield world


def _apply(world: World, info: plugin_pb2.PluginInfo = INFO) -> None:
    world.loop.run_until_complete(world.frontend.plugin_updates.apply({GUARD: info}, GUARD))
    world.loop.settle()


def _reject(world: World, names: Sequence[str]) -> None:
    world.rejected = frozenset(names)
    _apply(world)


def _state(world: World, name: str) -> type[states.QueueState]:
    found = world.frontend.scheduling.queue.contents.get(f"ns/{name}")
    assert found is not None
    return type(found.state)


@pytest.mark.parametrize("rejected", [False, True], ids=["another version or instance", "rejected under Ignore"])
def test_pods_that_a_plugin_refused_are_tried_again_when_it_changes(world: World, rejected: bool) -> None:
    """If this fails, they wait five minutes although the new version would let them run."""
    only_volumes = [plugin_pb2.ClusterEvent(resource="PersistentVolume", actions=["Add"])]
    info = plugin_pb2.PluginInfo(
        name=GUARD, extension_points=INFO.extension_points, events_to_register=only_volumes, version="1"
    )
    _apply(world, info)
    world.create("refused", 3)
    world.answer_all()
    (waiting,) = world.frontend.scheduling.waiting.pods()
    world.frontend.scheduling.waiting.reject(waiting.uid, GUARD, "no")
    world.loop.settle()
    world.create("too big", 9)
    world.answer_all()
    assert (_state(world, "refused"), _state(world, "too big")) == (states.Unschedulable, states.Unschedulable)
    world.loop.advance(20)
    world.rejected = frozenset([GUARD] if rejected else [])
    info.version = "2"
    _apply(world, info)
    assert _state(world, "refused") is states.InFlight
    assert _state(world, "too big") is states.Unschedulable


def test_pods_that_another_plugin_refused_are_left_alone(world: World) -> None:
    """If this fails, each restart of any plugin has all refused pods tried again."""
    _apply(world)
    world.create("too big", 9)
    world.answer_all()
    world.loop.advance(20)
    world.frontend.queue_changes.plugin_changed("Another")
    world.frontend.queue_changes.plugin_changed(GUARD)
    world.loop.settle()
    assert _state(world, "too big") is states.Unschedulable


def test_pods_wait_while_a_plugin_under_fail_is_rejected(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, pods are scheduled by a plugin that does not have what their profile wants of it."""
    (profile,) = (each for each in world.frontend.context.completed.profiles if each.scheduler_name == PROFILE)
    assert GUARD in profile.all_names()
    monkeypatch.setattr(
        queue_plugin_calls, "missing_required", lambda completed, infos: {} if GUARD in infos else {PROFILE: GUARD}
    )
    _apply(world)
    world.create("before", 1)
    assert world.pending_rpcs() == ["Filter"]
    world.create("queued", 1, 1)
    _reject(world, [GUARD])
    world.create("after", 1)
    for name in ("queued", "after"):
        found = world.frontend.scheduling.queue.contents.get(f"ns/{name}")
        assert found is not None
        assert (type(found.state), found.gated_by) == (states.Gated, GUARD)
        explained = scheduler_explanation.explain(world.frontend_state(), f"ns/{name}")
        assert explained is not None
        assert explained.scheduler.summary == f"waits for the plugin {GUARD}, which was rejected"
    world.answer_all()
    assert not world.pending_rpcs()
    _reject(world, [])
    for name in ("queued", "after"):
        found = world.frontend.scheduling.queue.contents.get(f"ns/{name}")
        assert found is not None
        assert type(found.state) not in (states.Unschedulable, states.Gated)


def test_pods_wait_for_a_plugin_that_has_not_received_the_cluster(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, pods go by its answers about nodes that it does not know."""
    monkeypatch.setattr(
        queue_plugin_calls, "missing_required", lambda completed, infos: {} if GUARD in infos else {PROFILE: GUARD}
    )
    _apply(world)
    report = world.frontend.phases.streams.unsynced_changed
    world.create("running", 1)
    world.create("queued", 1, 1)
    report(frozenset([GUARD]))
    world.create("new", 1)
    world.answer_all()
    assert (_state(world, "queued"), _state(world, "new")) == (states.Gated, states.Gated)
    explained = scheduler_explanation.explain(world.frontend_state(), "ns/queued")
    assert explained is not None
    text = f"waits for the plugin {GUARD}, which has not acknowledged the snapshot of the cluster yet"
    assert explained.scheduler.summary == text
    report(frozenset())
    world.loop.settle()
    assert states.Gated not in (_state(world, "queued"), _state(world, "new"))


def test_no_hint_of_a_rejected_plugin_is_called(world: World) -> None:
    """If this fails, it decides how long pods wait."""
    info = plugin_pb2.PluginInfo(
        name=GUARD, events_to_register=[plugin_pb2.ClusterEvent(resource="Node", actions=["Add"], hint=True)]
    )
    frontend = world.frontend
    frontend.context.membership.replace({GUARD: info})
    assert any(each.remote for each in frontend.scheduling.queue_executor.registrations()[PROFILE])
    world.rejected = frozenset({GUARD})
    assert not any(each.remote for each in frontend.scheduling.queue_executor.registrations()[PROFILE])
