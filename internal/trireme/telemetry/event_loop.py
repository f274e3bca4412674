"""How late the event loop is: whatever blocks it delays every heartbeat, stream and request by so much."""

import asyncio
from collections.abc import Callable

from trireme.telemetry.instruments import Histogram, exponential

PERIOD_SECONDS = 0.25


class LoopLag:
    """Asks to be woken, and measures how much later that happens."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.instrument = Histogram(
            "trireme_event_loop_lag_seconds",
            "How much later than asked for the event loop woke a task.",
            exponential(0.001, 2, 14),
        )

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            due = self._clock() + PERIOD_SECONDS
            await asyncio.sleep(PERIOD_SECONDS)
            self.instrument.observe(max(self._clock() - due, 0.0))
