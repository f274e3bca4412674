"""What waits in the binding cycle for others, however much it is, holds up no other pod."""

from collections.abc import Iterator

import pytest

from tests.helpers.frontend_world import GUARDED_CPUS, PREPARED_CPUS, PendingCall, World
from trireme.extenders import extender_assembly
from trireme.scheduling import bind_limits, pre_binding, scheduler

LIMIT = 2


@pytest.fixture(name="world")
def _world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A node with room for all, and a limit that few pods reach."""
    monkeypatch.setattr(bind_limits, "MAX_IN_BIND_CALLS", LIMIT)
    monkeypatch.setattr(bind_limits, "MAX_CALLS_OF_PROFILE", LIMIT)
    world = World()
    world.api.put_node("n0", 50)
    world.deliver("nodes", 1)
    yield world
    world.close()


def answer_others(world: World, *waiting: str) -> None:
    """Let a good answer come to all calls except these."""
    for _ in range(8):
        for call in list(world.pending_calls):
            if call in world.pending_calls and call.rpc not in waiting:
                world.answer(call, "good")


def calls(world: World, rpc: str) -> list[PendingCall]:
    return [call for call in world.pending_calls if call.rpc == rpc]


def test_extenders_that_bind_leave_connections_for_those_that_filter() -> None:
    assert bind_limits.MAX_BOUND_BY_EXTENDERS < extender_assembly.MAX_CONNECTIONS


def bound(world: World, name: str) -> bool:
    return "nodeName" in world.api.pods[name]["spec"]


@pytest.mark.parametrize(
    ("cpus", "waits_in"),
    [
        pytest.param(PREPARED_CPUS, "PreBindPreFlight", id="whether there is something to prepare"),
        pytest.param(PREPARED_CPUS, "PreBind", id="a volume that nobody provisions"),
        pytest.param(GUARDED_CPUS, "", id="on Permit"),
    ],
)
def test_pods_that_wait_for_others_leave_room(world: World, cpus: int, waits_in: str) -> None:
    """A thousand volumes that nobody provisioned stopped the scheduling of all other pods, without a word."""
    for number in range(2 * LIMIT):
        world.create(f"waits-{number}", cpus)
        answer_others(world, waits_in)
    assert world.frontend.scheduling.binding.binding_count == 2 * LIMIT
    world.create("plain", 1)
    answer_others(world, waits_in)
    assert bound(world, "plain")


def test_pods_whose_conditions_are_unwritten_leave_room(world: World) -> None:
    """Their bindings follow their conditions, which wait for the rate limit."""
    world.api.remove("nodes", "n0")
    world.deliver("nodes", 1)
    for number in range(2 * LIMIT):
        world.create(f"late-{number}", 1)
        answer_others(world, "Apply")
    world.api.put_node("n0", 50)
    world.deliver("nodes", 1)
    world.loop.advance(20.0)
    answer_others(world, "Apply")
    assert world.frontend.scheduling.binding.binding_count == 2 * LIMIT
    world.create("plain", 1)
    answer_others(world, "Apply")
    assert bound(world, "plain")


def test_no_more_pods_are_placed_than_bind_has_to_bind(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Pods of low priority that are placed long before they are bound would keep nodes from important ones."""
    for number in range(LIMIT):
        world.create(f"p-{number}", 1)
        answer_others(world, "Bind")
    world.create("next", 1)
    answer_others(world, "Bind")
    assert (len(calls(world, "Bind")), calls(world, "Filter")) == (LIMIT, [])
    assert not world.frontend.scheduling.scheduler.progress().work_waiting
    world.loop.advance(scheduler.NO_ROOM_LOG_SECONDS)
    assert "no more pods are placed until some are bound" in caplog.text
    world.answer(calls(world, "Bind")[0], "good")
    assert len(calls(world, "Filter")) == 1
    world.answer_all()
    assert bound(world, "next")


def test_calls_of_permit_plugins_wait_for_a_turn(world: World) -> None:
    """Without a bound they would be more than a server accepts, and bind would refuse all other calls too."""
    for number in range(2 * LIMIT):
        world.create(f"p-{number}", 1)
        answer_others(world, "Permit")
    assert len(calls(world, "Permit")) == LIMIT
    world.answer_all()
    assert all(bound(world, f"p-{number}") for number in range(2 * LIMIT))


def test_an_urgent_pod_is_prepared_before_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its volume was bound behind those of all pods that were placed before it."""
    monkeypatch.setattr(pre_binding, "MAX_UNDER_WAY", LIMIT)
    names = [f"low-{number}" for number in range(2 * LIMIT)]
    for name in [*names, "urgent"]:
        world.create(name, PREPARED_CPUS, priority=7 if name == "urgent" else 0)
        answer_others(world, "PreBind")
        world.loop.advance(1.0)
        answer_others(world, "PreBind")
    assert [call.request.items[0].pod.name for call in calls(world, "PreBind")] == names[:LIMIT]
    for call in calls(world, "PreBind"):
        world.answer(call, "good")
    world.loop.advance(1.0)
    assert calls(world, "PreBind")[0].request.items[0].pod.name == "urgent"


def test_an_extender_that_binds_slowly_leaves_connections_and_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scheduling waits for other calls of extenders, over the same connections."""
    monkeypatch.setattr(bind_limits, "MAX_IN_BIND_CALLS", LIMIT)
    monkeypatch.setattr(bind_limits, "MAX_BOUND_BY_EXTENDERS", LIMIT)
    world = World(extended=True)
    world.api.put_node("n0", 50)
    world.deliver("nodes", 1)
    names = [f"p-{number}" for number in range(2 * LIMIT)]
    for name in names:
        world.create(name, 1)
        answer_others(world, "ExtenderBind")
    assert len(calls(world, "ExtenderBind")) == LIMIT
    assert world.frontend.scheduling.binding.binding_count == 2 * LIMIT
    world.answer_all()
    assert all(bound(world, name) for name in names)
    world.close()
