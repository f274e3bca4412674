"""A pod that comes alone finds filter's and score's answers ready, for as long as they hold."""

from collections.abc import Iterator

import pytest
from frontend_world import GUARD, World
from frontend_world_api import PROFILE

from trireme.frontend import scheduler
from trireme.v1 import plugin_pb2


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    """One node of three CPUs, and a pod that was placed on it while nothing else happened."""
    world = World()
    world.api.put_node("n0", 3)
    world.deliver("nodes", 1)
    _create(world, "first", 1)
    world.answer_all()
    yield world
    world.close()


def _create(world: World, name: str, cpu: int) -> None:
    world.api.add_pod(name, cpu, 0)
    world.deliver("pods", 1000)


def _asked(world: World) -> list[str]:
    return [question.rpc for question in world.questions]


def _quiet(world: World) -> None:
    """Nothing happens for a while, but that the answers come."""
    world.loop.advance(2 * scheduler.QUIET_SECONDS)
    assert _asked(world) == ["Filter"]
    world.answer_all()


def test_a_pod_like_the_one_before_is_bound_without_asking(world: World) -> None:
    """It would wait for two calls whose answers are known."""
    _quiet(world)
    _create(world, "second", 1)
    assert _asked(world) == ["Permit"]
    world.answer_all()
    assert world.api.stored("pods")["second"]["spec"]["nodeName"] == "n0"


def test_answers_are_good_once(world: World) -> None:
    """The second pod would be placed as if the first were not there."""
    _quiet(world)
    _create(world, "second", 1)
    _create(world, "third", 1)
    assert sorted(_asked(world)) == ["Filter", "Permit"]


def test_nothing_is_placed_by_answers_that_a_change_has_overtaken(world: World) -> None:
    """A pod would go to a node that has no room for it any more."""
    _quiet(world)
    world.api.put_node("n0", 1)
    world.deliver("nodes", 1000)
    _create(world, "second", 1)
    assert _asked(world) == ["Filter"]


def test_a_pod_of_another_class_is_asked_about(world: World) -> None:
    """It would go where a smaller one fits."""
    _quiet(world)
    _create(world, "large", 2)
    assert _asked(world) == ["Filter"]


def test_nothing_is_asked_after_a_refusal(world: World) -> None:
    """A pod that fits nowhere would cost twice at each attempt."""
    _quiet(world)
    _create(world, "huge", 4)
    world.answer_all()
    assert world.frontend.queue.statistics().unschedulable == 1
    world.loop.advance(2 * scheduler.QUIET_SECONDS)
    assert _asked(world) == []


def test_who_asks_plugins_of_others_asks_when_there_is_a_pod(world: World) -> None:
    """They may answer otherwise by then, though nothing in the cluster has changed."""
    assert world.frontend._anticipating() == {PROFILE}
    world.frontend._infos = {GUARD: plugin_pb2.PluginInfo()}
    assert world.frontend._anticipating() == frozenset()
