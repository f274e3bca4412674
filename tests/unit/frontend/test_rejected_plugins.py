"""A remote plugin that took part and is rejected: its failure policy decides about the pods of its profiles."""

from collections.abc import Iterator, Sequence

import pytest
from frontend_world import GUARD, World, one_node
from frontend_world_api import PROFILE

from trireme.frontend import remote_plugins
from trireme.frontend.serving import status_report
from trireme.queueing import states
from trireme.v1 import plugin_pb2

INFO = plugin_pb2.PluginInfo(name=GUARD, extension_points=[plugin_pb2.EXTENSION_POINT_PERMIT])


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    with one_node() as world:
        yield world


def _reject(world: World, names: Sequence[str]) -> None:
    world.rejected = frozenset(names)
    world.loop.run_until_complete(world.frontend.plugin_updates.apply({GUARD: INFO}))
    world.loop.settle()


def test_pods_wait_while_a_plugin_under_fail_is_rejected(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken, pods are scheduled by a plugin that does not have what their profile wants of it."""
    (profile,) = (each for each in world.frontend.context.completed.profiles if each.scheduler_name == PROFILE)
    assert GUARD in profile.all_names()
    monkeypatch.setattr(
        remote_plugins, "missing_required", lambda completed, infos: {} if GUARD in infos else {PROFILE: GUARD}
    )
    monkeypatch.setattr(world.frontend.plugin_updates, "_configure_phases", lambda configuration: None)
    world.create("before", 1)
    assert world.pending_rpcs() == ["Filter"]
    world.create("queued", 1, 1)
    _reject(world, [GUARD])
    world.create("after", 1)
    for name in ("queued", "after"):
        found = world.frontend.scheduling.queue.contents.get(f"ns/{name}")
        assert found is not None
        assert (type(found.state), found.gated_by) == (states.Gated, GUARD)
        explained = status_report.explain(world.frontend_state(), f"ns/{name}")
        assert explained is not None
        assert explained["summary"] == f"waits for the plugin {GUARD}, which was rejected"
    world.answer_all()
    assert not world.pending_rpcs()
    _reject(world, [])
    for name in ("queued", "after"):
        found = world.frontend.scheduling.queue.contents.get(f"ns/{name}")
        assert found is not None
        assert type(found.state) not in (states.Unschedulable, states.Gated)


def test_no_hint_of_a_rejected_plugin_is_called(world: World) -> None:
    """Broken, it decides how long pods wait."""
    info = plugin_pb2.PluginInfo(
        name=GUARD, events_to_register=[plugin_pb2.ClusterEvent(resource="Node", actions=["Add"], hint=True)]
    )
    frontend = world.frontend
    frontend.context.membership.replace({GUARD: info})
    assert any(each.remote for each in frontend.scheduling.queue_executor.registrations()[PROFILE])
    world.rejected = frozenset({GUARD})
    assert not any(each.remote for each in frontend.scheduling.queue_executor.registrations()[PROFILE])
