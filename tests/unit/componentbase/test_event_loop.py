"""The metrics of the event loop say what goes on in it."""

import asyncio

import pytest

from trireme_kube.componentbase import event_loop, supervision


def _value(metrics: event_loop.EventLoopMetrics, name: str) -> float:
    families = [instrument.family() for instrument in metrics.instruments()]
    return next(s.value for family in families for s in family.samples if s.name == name)


async def test_tasks_are_counted() -> None:
    """A task that nobody ends shows."""
    metrics = event_loop.EventLoopMetrics()
    async with metrics.measured(supervision.Supervisor()):
        before = _value(metrics, "trireme_event_loop_tasks")
        forgotten = asyncio.create_task(asyncio.sleep(60))
        assert _value(metrics, "trireme_event_loop_tasks") == before + 1
        forgotten.cancel()


@pytest.mark.slow
async def test_a_blocked_loop_is_late() -> None:
    """What blocks it delays every heartbeat by as much."""
    now = [0.0]
    metrics = event_loop.EventLoopMetrics(lambda: now[0])
    async with metrics.measured(supervision.Supervisor()):
        await asyncio.sleep(0)
        now[0] += event_loop.PERIOD_SECONDS + 3.0
        await asyncio.sleep(event_loop.PERIOD_SECONDS * 1.5)
        assert _value(metrics, "trireme_event_loop_lag_seconds_sum") == 3.0
