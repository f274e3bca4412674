"""A call that takes long is made a second time, and the first good answer counts."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from trireme.remote import hedging, recent_durations


class Calls:
    """Two calls, each of which ends when the test says so."""

    def __init__(self) -> None:
        self.first: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.second: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.began = asyncio.Event()

    def begin_second(self) -> Awaitable[str] | None:
        self.began.set()
        return self.second

    async def answer(self, second: Callable[[], Awaitable[str] | None] | None = None) -> str:
        return await hedging.first_answer(self.first, 0.0, second or self.begin_second)


@pytest.mark.parametrize("winner", ["first", "second"])
async def test_the_first_good_answer_counts_and_the_other_call_is_cancelled(winner: str) -> None:
    """Broken, the slower replica still decides how long a pod waits, or goes on working for nobody."""
    calls = Calls()
    task = asyncio.create_task(calls.answer())
    await calls.began.wait()
    getattr(calls, winner).set_result(winner)
    assert await task == winner
    assert (calls.second if winner == "first" else calls.first).cancelled()


async def test_a_failure_counts_only_if_both_fail() -> None:
    """Broken, a second call makes failures likelier."""
    calls = Calls()
    task = asyncio.create_task(calls.answer())
    await calls.began.wait()
    calls.first.set_exception(OSError("first"))
    calls.second.set_result("second")
    assert await task == "second"

    calls = Calls()
    task = asyncio.create_task(calls.answer())
    await calls.began.wait()
    calls.second.set_exception(OSError("second"))
    calls.first.set_exception(OSError("first"))
    with pytest.raises(OSError, match="first"):
        await task


async def test_an_answer_in_time_is_not_asked_for_again() -> None:
    """Broken, each call is made twice."""
    calls = Calls()
    calls.first.set_result("first")
    assert await calls.answer() == "first"
    assert not calls.began.is_set()


async def test_without_a_free_replica_the_call_goes_on() -> None:
    """Broken, calls fail while all replicas are busy, just when they take long."""
    calls = Calls()
    asked = asyncio.Event()

    def nobody() -> None:
        asked.set()

    task = asyncio.create_task(calls.answer(nobody))
    await asked.wait()
    calls.first.set_result("first")
    assert await task == "first"


async def test_cancelling_ends_both_calls() -> None:
    """Broken, calls whose caller has gone occupy two replicas."""
    calls = Calls()
    task = asyncio.create_task(calls.answer())
    await calls.began.wait()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert calls.first.cancelled()
    assert calls.second.cancelled()


def test_most_calls_take_less_than_the_delay() -> None:
    """Broken, many calls are made twice, or none before the deadline."""
    recent = recent_durations.RecentDurations()
    for _ in range(recent_durations.ENOUGH - 1):
        recent.add(0.01)
    assert recent.p95 is None
    for number in range(recent_durations.REMEMBERED):
        recent.add(1.0 if number % 25 == 0 else 0.01)
    assert recent.p95 == 0.01
    for number in range(recent_durations.REMEMBERED):
        recent.add(1.0 if number % 10 == 0 else 0.01)
    assert recent.p95 == 1.0
