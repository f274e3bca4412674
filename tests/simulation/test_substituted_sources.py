"""What takes the place of clocks and chance knows which process calls it."""

import asyncio
import time

import pytest

from tests.simulation import simulated_process, substituted_sources
from tests.simulation.virtual_loop import VirtualLoop, in_simulation
from trireme.framework import pausing


@in_simulation
async def test_a_computation_reads_the_clock_of_its_process(loop: VirtualLoop) -> None:
    """If this fails, a search for devices pauses without end once the clock of its replica is behind."""
    process = loop.process("filter-0", "127.2.0.1")
    paused = []

    def compute() -> str:
        paused.append(time.monotonic() - simulated_process.current().monotonic(loop.now))
        pausing.pause()
        return "done"

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pausing, "_PausableComputation", pausing._PausableComputation)
        patched.setattr(time, "monotonic", loop.time)
        substituted_sources.let_computations_know_their_process()
        process.set_rate(0.5, loop.now)
        await asyncio.sleep(60.0)
        assert await process.start(loop, lambda: pausing.run(compute)) == "done"
    assert paused == [0.0]
