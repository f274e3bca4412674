"""The lag of the event loop: everything that blocks it delays every heartbeat, stream and request by as much."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

from trireme_kube.componentbase import supervision
from trireme_kube.componentbase.instruments import Histogram, exponential

PERIOD_SECONDS = 0.25


class LoopLag:
    """Sleeps, and measures how much later it wakes up."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.instrument = Histogram(
            "trireme_event_loop_lag_seconds",
            "How late the event loop woke a task.",
            exponential(0.001, 2, 14),
        )

    @contextlib.asynccontextmanager
    async def measured(self, supervisor: supervision.Supervisor) -> AsyncIterator[None]:
        """Measure while the block runs."""
        measuring = supervisor.keep("event loop lag", self._run)
        try:
            yield
        finally:
            await supervisor.stop(measuring)

    async def _run(self) -> None:
        while True:
            due = self._clock() + PERIOD_SECONDS
            await asyncio.sleep(PERIOD_SECONDS)
            self.instrument.observe(max(self._clock() - due, 0.0))
