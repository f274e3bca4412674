"""/livez fails when scheduling stands still though there is work, and at no other time."""

import pytest

from tests.helpers.frontend_world import World, one_node
from trireme.frontend.serving import liveness
from trireme.scheduling import scheduler

LIMIT = 120.0


class Story:
    """A scheduler that has come as far as the test says, and a clock."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.reached = scheduler.Progress(0, False)
        self.liveness = liveness.Liveness(self, LIMIT, lambda: self.now)

    def progress(self) -> scheduler.Progress:
        return self.reached

    def problem(self, seconds: float, completed: int, waiting: bool) -> str:
        """What a probe says so many seconds later."""
        self.now += seconds
        self.reached = scheduler.Progress(completed, waiting)
        return self.liveness.problem()


def test_a_scheduler_that_stands_still_is_not_alive() -> None:
    story = Story()
    assert story.problem(0, 7, True) == ""
    assert story.problem(LIMIT - 1, 7, True) == ""
    assert story.problem(1, 7, True) == "pods are waiting, and no scheduling cycle has completed for 120 s"
    assert story.problem(1, 8, True) == ""


def test_a_scheduler_without_work_is_alive() -> None:
    story = Story()
    for _ in range(10):
        assert story.problem(LIMIT, 7, False) == ""
    assert story.problem(LIMIT, 7, True) == ""
    assert story.problem(1, 7, False) == ""
    assert story.problem(LIMIT, 7, True) == ""


def test_a_busy_scheduler_is_alive() -> None:
    """Work is always waiting under load."""
    story = Story()
    for completed in range(10):
        assert story.problem(LIMIT, completed, True) == ""


def test_a_cycle_that_waits_for_its_phase_is_work_that_waits() -> None:
    """Its pods are in no queue, and nothing else shows that a cycle hangs."""
    with one_node() as world:
        assert world.frontend.scheduling.scheduler.progress() == scheduler.Progress(0, False)
        world.create("p", 1)
        assert world.pending_rpcs() == ["Filter"]
        assert world.frontend.scheduling.scheduler.progress() == scheduler.Progress(0, True)
        world.answer_all()
        assert world.frontend.scheduling.scheduler.progress() == scheduler.Progress(1, False)


@pytest.mark.parametrize("phase", ["filters", "scores", "binders"])
def test_a_cycle_that_waits_for_a_missing_phase_is_no_standstill(phase: str) -> None:
    """A restart brings no phase back: it would only follow restart upon restart, each of which gives the Lease away."""
    with one_node() as world:
        world.create("p", 1)
        assert world.pending_rpcs() == ["Filter"]
        world.set_available(phase, False)
        assert world.frontend.scheduling.scheduler.progress() == scheduler.Progress(0, False)
        world.set_available(phase, True)
        assert world.frontend.scheduling.scheduler.progress() == scheduler.Progress(0, True)


def test_an_eviction_that_a_cycle_waits_for_is_progress() -> None:
    """A client that may send little sends the evictions of one cycle for longer than any cycle takes otherwise."""
    world = World("--feature-gates=SchedulerAsyncPreemption=false")
    world.api.put_node("n0", 3)
    world.deliver("nodes", 1)
    for number in range(3):
        world.create(f"low-{number}", 1)
        world.answer_all()
    world.deliver("pods", 1000)
    world.create("vip", 2, priority=10)
    while "Apply" not in world.pending_rpcs():
        world.answer(world.pending_calls[0], "good")
    assert world.pending_rpcs() == ["Apply", "Apply"]
    before = world.frontend.scheduling.scheduler.progress()
    assert before.work_waiting
    world.answer(world.pending_calls[0], "good")
    assert world.pending_rpcs() == ["Apply"]
    after = world.frontend.scheduling.scheduler.progress()
    assert after.work_waiting
    assert after.completed > before.completed
    world.close()
