"""Metrics of the event loop.

Everything that blocks the loop delays every heartbeat, stream and request by as much, and a task that nobody ends stays
forever: what client_golang's go_goroutines is to Kubernetes' components, the number of tasks is here.

Also change: tools/soak/soak_report.py (names of processes and their metrics).
Also change: docs/runbooks/README.md (the metrics).

Tests: tests/unit/componentbase/test_event_loop.py, tests/contract/test_replica_metrics.py.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

from trireme_kube.componentbase import supervision
from trireme_kube.componentbase.metrics.instruments import Gauge, Histogram, Instrument, exponential

PERIOD_SECONDS = 0.25


class EventLoopMetrics:
    """How late the loop is, measured by sleeping, and how many tasks it has."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lag = Histogram(
            "trireme_event_loop_lag_seconds",
            "How late the event loop woke a task.",
            exponential(0.001, 2, 14),
        )
        self._tasks = Gauge("trireme_event_loop_tasks", "Tasks of the event loop.", self._count_tasks)
        self._loop: asyncio.AbstractEventLoop | None = None

    def instruments(self) -> tuple[Instrument, ...]:
        """The metrics, for a registry."""
        return self._lag, self._tasks

    @contextlib.asynccontextmanager
    async def measured(self, supervisor: supervision.Supervisor) -> AsyncIterator[None]:
        """Measure the running loop while the block runs."""
        self._loop = asyncio.get_running_loop()
        measuring = supervisor.keep("event loop lag", self._measure_late_sleeps)
        try:
            yield
        finally:
            await supervisor.stop(measuring)

    async def _measure_late_sleeps(self) -> None:
        """Measure by how much sleeps are late, until cancelled."""
        while True:
            due = self._clock() + PERIOD_SECONDS
            await asyncio.sleep(PERIOD_SECONDS)
            self._lag.observe(max(self._clock() - due, 0.0))

    def _count_tasks(self) -> dict[tuple[()], float]:
        """Return the number of tasks, 0 while no loop is measured."""
        return {(): len(asyncio.all_tasks(self._loop)) if self._loop else 0}
