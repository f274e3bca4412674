"""The loop of the simulator: time, order, and processes that are paused, killed, or have clocks of their own."""

import asyncio
import hashlib
import os
import random
import subprocess
import sys

import pytest

from tests.simulation.simulated_process import WALL_START
from tests.simulation.virtual_loop import Deadlock, VirtualLoop, in_simulation, run


@in_simulation
async def test_time_passes_only_while_everybody_waits(loop: VirtualLoop) -> None:
    """A day takes no time, and work takes none."""
    sum(range(100_000))
    assert loop.time() == 0
    await asyncio.sleep(86_400)
    assert loop.time() == 86_400


@in_simulation
async def test_timers_go_off_in_order(loop: VirtualLoop) -> None:
    """Whatever order they were set in; those of one moment in an order that each run repeats."""
    seen = []
    for delay in (3, 1, 2, 1):
        loop.call_later(delay, seen.append, delay)
    await asyncio.sleep(4)
    assert seen == [1, 1, 2, 3]


def test_waiting_for_nothing_is_an_error() -> None:
    """A simulation in which nothing can happen any more says so."""
    with pytest.raises(Deadlock):
        run(lambda loop: asyncio.Event().wait())


def test_an_endless_loop_without_time_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would hang the simulation."""
    monkeypatch.setattr("tests.simulation.virtual_loop.MAX_CALLBACKS_AT_ONCE", 1000)

    async def spin(_: VirtualLoop) -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(Deadlock, match="endless loop"):
        run(spin)


@in_simulation
async def test_a_paused_process_does_nothing_until_it_continues(loop: VirtualLoop) -> None:
    """Its timers are late by then, and go off at once."""
    times = []
    process = loop.process("p", "127.0.0.1")

    async def tick() -> None:
        while True:
            await asyncio.sleep(1)
            times.append(loop.now)

    process.start(loop, tick)
    await asyncio.sleep(2.5)
    loop.pause(process)
    await asyncio.sleep(10)
    loop.resume(process)
    await asyncio.sleep(1.25)
    assert times == [1, 2, 12.5, 13.5]
    loop.kill(process)


@in_simulation
async def test_the_finally_blocks_of_a_killed_process_have_no_effect(loop: VirtualLoop) -> None:
    """As after SIGKILL: they send nothing, and nothing that they call or start runs."""
    seen: list[str] = []
    process = loop.process("p", "127.0.0.1")

    class Receiver(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            seen.append("sent")

    async def start() -> None:
        seen.append("started")

    async def work() -> None:
        transport, _ = await loop.create_connection(asyncio.Protocol, "127.0.0.2", 80)
        try:
            await asyncio.sleep(1000)
        finally:
            transport.write(b"x")
            loop.call_soon(seen.append, "called")
            task = asyncio.create_task(start())
            await task

    await loop.create_server(Receiver, "127.0.0.2", 80)
    process.start(loop, work)
    await asyncio.sleep(1)
    loop.kill(process)
    await asyncio.sleep(2000)
    assert seen == []


@in_simulation
async def test_what_a_process_starts_belongs_to_it(loop: VirtualLoop) -> None:
    """Tasks and timers of its tasks and timers too."""
    seen = []
    process = loop.process("p", "127.0.0.1")

    async def main() -> None:
        loop.call_later(1, lambda: asyncio.get_running_loop().create_task(later()))

    async def later() -> None:
        await asyncio.sleep(1)
        seen.append(loop.now)

    process.start(loop, main)
    await asyncio.sleep(1.5)
    loop.kill(process)
    await asyncio.sleep(5)
    assert seen == []


@in_simulation
async def test_each_process_has_its_own_clocks(loop: VirtualLoop) -> None:
    """A monotonic clock that runs fast makes its timers early."""
    times = []
    process = loop.process("p", "127.0.0.1")
    process.set_rate(2.0, loop.now)
    process.wall_ahead = -100.0

    async def work() -> None:
        await asyncio.sleep(10)
        times.extend([loop.time(), loop.now, process.wall(loop.now)])

    process.start(loop, work)
    await asyncio.sleep(6)
    assert times == [10, 5, WALL_START + 5 - 100]


@in_simulation
async def test_a_signal_reaches_the_process_that_handles_it(loop: VirtualLoop) -> None:
    """As `loop.add_signal_handler` promises."""
    seen = []
    process = loop.process("p", "127.0.0.1")

    async def work() -> None:
        loop.add_signal_handler(15, seen.append, "stopping")
        await asyncio.sleep(10)

    process.start(loop, work)
    await asyncio.sleep(1)
    process.signal(15)
    assert seen == ["stopping"]


@pytest.mark.parametrize("callbacks", range(1, 6))
def test_a_process_is_interrupted_between_any_two_awaits(callbacks: int) -> None:
    """If this fails, faults never come in the middle of what a process does at one moment."""
    seen = []

    @in_simulation
    async def simulate(loop: VirtualLoop) -> None:
        process = loop.process("a", "127.0.0.1")

        async def work() -> None:
            for step in range(10):
                seen.append(step)
                await asyncio.sleep(0)

        process.start(loop, work)
        loop.interrupt(process, callbacks, lambda: loop.kill(process))
        await asyncio.sleep(1)

    simulate()
    assert seen == list(range(callbacks))


async def _race(loop: VirtualLoop) -> str:
    """A digest of the order in which tasks that share sets and chance run."""
    order: list[str] = []

    async def work(name: str) -> None:
        for _ in range(5):
            await asyncio.sleep(random.choice((0, 0.5, 1)))
            order.append(name)

    random.seed(5)
    pending = {loop.create_task(work(f"task {number}")) for number in range(20)}
    while pending:
        _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        order.extend(str(number) for number, task in enumerate(pending) if int(task.get_name().split("-")[1]) % 2)
    return hashlib.sha256("".join(order).encode()).hexdigest()


def test_the_order_does_not_depend_on_addresses_or_hash_seeds() -> None:
    """Sets of tasks have the same order in each run."""
    code = "from tests.simulation import test_virtual_loop as t, virtual_loop; print(virtual_loop.run(t._race))"
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env={**environment, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1
