"""The wall clock is set back and forward while pods wait: waiting goes on as if nothing had happened."""

import pytest

from tests.helpers import frontend_world
from trireme.queueing import states
from trireme_kube.componentbase import clocks

HOUR = 3600.0


@pytest.mark.parametrize("steps", [(-HOUR,), (HOUR,), (-HOUR, HOUR), (HOUR, -HOUR)], ids=str)
def test_backoff_does_not_depend_on_the_wall_clock(steps: tuple[float, ...]) -> None:
    with frontend_world.one_node() as world:
        for number in range(3):
            world.create(f"p{number}", 1)
            world.answer(world.pending_call("Filter"), "good")
            world.answer(world.pending_call("Place"), "bad")
            while "Apply" in world.pending_rpcs():
                world.answer(world.pending_call("Apply"), "good")
        pods = [world.frontend.scheduling.queue.contents.get(f"ns/p{number}") for number in range(3)]
        assert {type(pod.state) for pod in pods if pod is not None} == {states.BackOff}
        tried = {pod.key: pod.attempts for pod in pods if pod is not None}
        for step in steps:
            world.wall_ahead += step
            world.loop.advance(0.2)
        assert "Filter" not in world.pending_rpcs(), "nobody is tried before the back-off is over"
        world.loop.advance(2.5)
        world.answer_all()
        for pod in pods:
            assert pod is not None
            assert pod.attempts > tried[pod.key]


def test_written_and_reported_times_are_those_of_the_wall_clock() -> None:
    with frontend_world.one_node() as world:
        world.create("big", 5)
        world.wall_ahead = HOUR
        world.loop.advance(1.0)
        world.answer(world.pending_call("Filter"), "good")
        world.answer(world.pending_call("RunPostFilter"), "bad")
        condition = world.pending_call("Apply").request
        written = condition.set_condition.condition.last_transition_time.seconds
        assert written == int(world.wall())
        pod = world.frontend.scheduling.queue.contents.get("ns/big")
        assert pod is not None
        shown = world.frontend_state().pending_report().entry_of(pod)
        assert shown.since_ms / 1000 == pytest.approx(world.wall(), abs=2.0)


def test_the_steady_clock_does_not_follow_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    before, real = clocks.steady(), clocks.wall()
    assert abs(before - real) < HOUR
    monkeypatch.setattr("time.time", lambda: real - HOUR)
    assert clocks.wall() < before - HOUR / 2
    assert before <= clocks.steady() < before + HOUR / 2
    assert clocks.to_wall(clocks.steady(), clocks.steady(), clocks.wall()) == pytest.approx(clocks.wall(), abs=10.0)
