"""What a cycle makes of its attempts."""

from tests.helpers.frontend_world import PREPARED_CPUS, one_node


def test_a_pod_that_reserve_refuses_is_reported_and_waits() -> None:
    """It would be in its attempt forever: neither bound, nor tried again, nor said to be unschedulable."""
    with one_node() as world:
        world.create("p", PREPARED_CPUS)
        while world.pending_rpcs() != ["Reserve"]:
            world.answer(world.pending_calls[0], "good")
        world.answer(world.pending_calls[0], "bad")
        world.answer_all()
        world.deliver("pods", 1000)
        statistics = world.frontend.scheduling.queue.statistics()
        assert (statistics.in_flight, statistics.unschedulable) == (0, 1)
        (condition,) = world.api.stored("pods")["p"]["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
