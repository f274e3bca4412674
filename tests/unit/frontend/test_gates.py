"""Feature gates that decide when a pod is tried: on and off, in a whole frontend on a clock that stands still."""

import pytest

from tests.helpers.frontend_world import World


@pytest.mark.parametrize("gate", [True, False], ids=["on", "off"])
def test_a_woken_pod_skips_backoff_only_with_the_gate(gate: bool) -> None:
    """SchedulerPopFromBackoffQ: off, a pod that was woken waits its back-off out though nobody else waits."""
    world = World(f"--feature-gates=SchedulerPopFromBackoffQ={str(gate).lower()}")
    try:
        world.loop.advance(0.25)
        world.api.put_node("n0", 3)
        world.deliver("nodes", 1)
        world.api.add_pod("p", 4, 0)
        world.deliver("pods", 1)
        world.answer_all()
        assert world.frontend.scheduling.queue.statistics().unschedulable == 1
        world.api.put_node("n0", 5)
        world.deliver("nodes", 1)
        assert [call.rpc for call in world.pending_calls] == (["Filter"] if gate else [])
        world.loop.advance(2.5)
        assert [call.rpc for call in world.pending_calls] == ["Filter"]
    finally:
        world.close()
