"""Computations that let others work in between."""

import asyncio
from collections.abc import Callable

import pytest

from trireme.framework import pausing


def _until(done: Callable[[], bool]) -> str:
    while not done():
        pausing.pause()
    return "computed"


async def test_others_work_while_it_computes() -> None:
    done = asyncio.Event()
    computing = asyncio.create_task(pausing.run(lambda: _until(done.is_set)))
    asyncio.get_running_loop().call_later(0, done.set)
    assert await asyncio.wait_for(computing, 20) == "computed"


async def test_two_computations_take_turns() -> None:
    """Each waits for the other to have begun: one alone would never end."""
    begun: set[str] = set()

    def compute(own: str, other: str) -> str:
        begun.add(own)
        return _until(lambda: other in begun)

    said = await asyncio.gather(pausing.run(lambda: compute("a", "b")), pausing.run(lambda: compute("b", "a")))
    assert said == ["computed", "computed"]


async def test_a_cancelled_computation_ends() -> None:
    ended = asyncio.Event()

    def compute() -> str:
        try:
            return _until(lambda: False)
        finally:
            ended.set()

    computing = asyncio.create_task(pausing.run(compute))
    await asyncio.sleep(0)
    computing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await computing
    assert ended.is_set()


async def test_an_error_is_raised_to_the_caller() -> None:
    """An error in the computation is its caller's."""

    def compute() -> None:
        raise ValueError("no such device")

    with pytest.raises(ValueError, match="no such device"):
        await pausing.run(compute)


def test_nothing_is_paused_without_a_waiting_task() -> None:
    """The same code computes in one go where it was not started to be interrupted."""
    assert _until(lambda: True) == "computed"
    pausing.pause()
