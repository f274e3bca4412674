"""Phases of the frontend's own that stand in for configured ones: when they do, and that this can be seen."""

import asyncio
from collections.abc import Sequence
from typing import Any

from trireme.frontend.phase_clients import fallback


class Phase:
    """A phase whose replicas answer as the test says."""

    def __init__(self) -> None:
        self.answers: list[str] = []
        self.endpoints: Sequence[str] = ()

    def answering(self) -> list[str]:
        """The addresses that answer now."""
        return self.answers

    def set_endpoints(self, addresses: Sequence[str]) -> None:
        """These are asked from now on."""
        self.endpoints = addresses


class Own:
    """Local phases that start at once."""

    async def start(self) -> None:
        """Starts them."""

    async def stop(self) -> None:
        """Ends them."""

    def addresses(self, phase: str) -> list[str]:
        """Where they listen."""
        return [f"unix:/{phase}"]


async def test_the_metric_is_set_while_a_fallback_is_active() -> None:
    """Broken, the metric says that all is well while a cluster's phases are gone, or goes on to warn."""
    phase, now = Phase(), [0.0]
    own: Any = Own()
    standing_in = fallback.Fallback("filter", phase, lambda: own, 30.0, lambda: now[0])
    standing_in.set_endpoints(["far:1"])
    seen = []
    for moment, answers in ((0, []), (29, []), (30, []), (40, []), (41, ["far:1"]), (50, [])):
        now[0], phase.answers = moment, list(answers)
        await standing_in._start_or_stop_local_phases()
        seen.append((standing_in.active, list(phase.endpoints)))
    waits, helped = (False, ["far:1"]), (True, ["far:1", "unix:/filter"])
    assert seen == [waits, waits, helped, helped, waits, waits]


async def test_it_is_not_active_after_the_term() -> None:
    """Broken, a frontend that does not lead any more is shown to stand in for ever."""
    phase = Phase()
    own: Any = Own()
    standing_in = fallback.Fallback("filter", phase, lambda: own, 0.0, lambda: 1.0)
    running = asyncio.create_task(standing_in.run())
    await asyncio.sleep(0)
    await standing_in._start_or_stop_local_phases()
    assert standing_in.active
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert not standing_in.active
