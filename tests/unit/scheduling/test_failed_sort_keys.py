"""Sort keys for which the call of the QueueSort plugin failed: a pod keeps its place, and the call is made again."""

import pytest

from tests.helpers import queue_sorter
from tests.helpers.frontend_world import World
from tests.helpers.queue_sorter import Sorter, configure_sorter, executor, held_pods, levels_of, pop_all
from trireme.frontend.serving import scheduler_explanation, scheduler_status


@pytest.fixture(name="sorter")
def _sorter(world: World) -> Sorter:
    return queue_sorter.add_sorter(world)


@pytest.mark.parametrize("alone", [True, False], ids=["of the pod", "of the call"])
def test_a_new_key_that_failed_is_asked_for_until_it_is_there(world: World, sorter: Sorter, alone: bool) -> None:
    """If this fails, the pod keeps its key of an old configuration as long as it is queued.

    Either the plugin has no key for this pod, or the call fails and with it the other pod has none.
    """
    world.set_available("filters", available=False)
    sorter.levels = {"a": 1, "b": 2}
    for name in ("a", "b"):
        world.create(name, 1)
    sorter.levels = {"a": 11, "b": 10}
    (sorter.keyless if alone else sorter.failing).add("b")
    configure_sorter(world, sorter, "others")
    world.loop.advance(0.5)
    assert levels_of(world) == {"a": (11 if alone else 1,), "b": (2,)}
    del sorter.calls[:]
    for seconds, calls in ((0.6, 1), (1.5, 1), (0.6, 2), (4.1, 3), (8.1, 4), (10.1, 5), (10.1, 6)):
        world.loop.advance(seconds)
        assert len(sorter.calls) == calls, world.now()
        assert held_pods(world) == {"Sorter": 1 if alone else 2}
    assert set(sorter.called_about()) == ({"b"} if alone else {"a", "b"})
    sorter.failing, sorter.keyless = set(), set()
    world.loop.advance(10.1)
    assert levels_of(world) == {"a": (11,), "b": (10,)}
    assert held_pods(world) == {}
    world.loop.advance(60)
    assert len(sorter.calls) == 7
    assert pop_all(world) == ["b", "a"]


def test_the_status_says_that_a_pod_keeps_its_place_only_because_the_plugin_failed(
    world: World, sorter: Sorter
) -> None:
    """If this fails, the order of the queue is that of two configurations, and nothing shows it."""
    world.set_available("filters", available=False)
    for name in ("a", "b"):
        world.create(name, 1)
    sorter.keyless = {"b"}
    configure_sorter(world, sorter, "others")
    summaries = {pod.example.name: pod.summary for pod in scheduler_status.status(world.frontend_state()).pending_alike}
    waits = "waits for filter, which is not available"
    assert summaries == {
        "a": waits,
        "b": f"{waits}; keeps its place, as plugin Sorter failed: far:1: UNAVAILABLE: refused; the plugin "
        "is called again at 13:46:41 UTC",
    }
    explained = scheduler_explanation.explain(world.frontend_state(), "ns/b")
    assert explained is not None
    assert explained.scheduler.pending.waits_for.kind == "service"
    assert explained.scheduler.pending.waits_for.plugins == ["Sorter"]
    world.loop.advance(1.1)
    assert "the plugin is called again at 13:46:43 UTC" in str(
        scheduler_explanation.explain(world.frontend_state(), "ns/b")
    )
    sorter.keyless = set()
    world.loop.advance(2)
    (alike,) = scheduler_status.status(world.frontend_state()).pending_alike
    assert (alike.count, alike.summary) == (2, waits)


def test_a_new_key_that_failed_and_is_ignored_leaves_the_pod_to_its_priority(world: World, sorter: Sorter) -> None:
    """If this fails, a key of another configuration is compared with those of this one."""
    world.set_available("filters", available=False)
    sorter.levels = {"a": -100, "b": 2}
    for name in ("a", "b"):
        world.create(name, 1, priority=7)
    sorter.levels, sorter.keyless, sorter.ignores_failure = {"b": -8}, {"a"}, True
    configure_sorter(world, sorter, "others")
    assert levels_of(world) == {"a": (-7,), "b": (-8,)}
    assert held_pods(world) == {}


def test_a_reload_has_a_failed_key_asked_for_by_what_holds_then(world: World, sorter: Sorter) -> None:
    """If this fails, calls for an earlier plugin or arguments go on after a reload, or a pod has a key of these."""
    world.set_available("filters", available=False)
    world.create("p", 1)
    sorter.failing = {"p"}
    configure_sorter(world, sorter, "v2")
    world.loop.advance(8)
    again = Sorter()
    again.levels = {"p": 5}
    asked = len(sorter.calls)
    configure_sorter(world, again, "v3", anew=False)
    assert (levels_of(world), again.called_about(), held_pods(world)) == ({"p": (5,)}, ["p"], {})
    world.loop.advance(60)
    assert (len(sorter.calls), again.called_about()) == (asked, ["p"])


def test_without_the_plugin_no_failed_key_is_asked_for(world: World, sorter: Sorter) -> None:
    """If this fails, a plugin that was taken out of the configuration is called forever."""
    world.set_available("filters", available=False)
    world.create("p", 1, 3)
    sorter.failing = {"p"}
    configure_sorter(world, sorter, "v2")
    configure_sorter(world, None)
    asked = len(sorter.calls)
    world.loop.advance(60)
    assert (len(sorter.calls), levels_of(world), held_pods(world)) == (asked, {"p": (-3,)}, {})


def test_a_pod_that_is_gone_is_not_called_about_again(world: World, sorter: Sorter) -> None:
    """If this fails, the alert goes on about a pod that nobody has any more."""
    world.set_available("filters", available=False)
    world.create("p", 1)
    sorter.failing = {"p"}
    configure_sorter(world, sorter, "v2")
    asked = len(sorter.calls)
    world.api.remove("pods", "p")
    world.deliver("pods", 1000)
    world.loop.advance(60)
    assert (len(sorter.calls), held_pods(world)) == (asked, {})


def test_a_plugin_that_fails_again_later_is_called_again_after_a_second(world: World, sorter: Sorter) -> None:
    """The first failure's back-off and its end count for that one alone."""
    world.set_available("filters", available=False)
    world.create("p", 1)
    for number in range(2):
        sorter.failing = {"p"}
        configure_sorter(world, sorter, f"broken-{number}")
        for seconds in (1.1, 2.1, 4.1):
            world.loop.advance(seconds)
        sorter.failing = set()
        world.loop.advance(10)
        assert held_pods(world) == {}
        del sorter.calls[:]
    sorter.failing = {"p"}
    configure_sorter(world, sorter, "broken")
    world.loop.advance(1.1)
    assert len(sorter.calls) == 2
    sorter.failing = set()
    world.loop.advance(2.1)
    assert held_pods(world) == {}


def test_a_new_configuration_forgets_what_failed_before_it(world: World, sorter: Sorter) -> None:
    """The status would name a failure of the plugin, though this one was not called about the pod yet."""
    world.set_available("filters", available=False)
    world.create("p", 1)
    sorter.failing = {"p"}
    configure_sorter(world, sorter, "v2")
    world.loop.advance(8)
    assert executor(world).remote.sort_keys.failed_renewals()
    sort_keys = executor(world).remote.sort_keys

    async def configure() -> None:
        sort_keys.configure(sorter, world.frontend.scheduling.queue.contents.pods(), "v3")  # type: ignore[arg-type]
        assert not sort_keys.failed_renewals()

    world.loop.run_until_complete(configure())
    world.loop.settle()
    world.loop.advance(7.5)
    calls = len(sorter.calls)
    world.loop.advance(1.0)
    assert len(sorter.calls) == calls + 1, "its back-off began with a second"


def test_a_failed_call_is_repeated_once_at_a_time(world: World, sorter: Sorter) -> None:
    """Each pod that fails would begin a row of calls about all of them."""
    world.set_available("filters", available=False)
    for name in ("a", "b", "c"):
        world.create(name, 1)
    sorter.keyless = {"a", "b", "c"}
    configure_sorter(world, sorter, "broken")
    calls = len(sorter.calls)
    world.loop.advance(1.1)
    assert len(sorter.calls) == calls + 1
    assert sorted(sorter.calls[-1]) == ["a", "b", "c"]
