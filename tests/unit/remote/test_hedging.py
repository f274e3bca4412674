"""A call that takes long is made a second time, and the first good answer counts."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.helpers import virtual_time
from trireme.remote import hedging, recent_durations, remote_connection, remote_endpoint
from trireme.v1 import filter_pb2, plugin_pb2, snapshot_pb2

_FILTER = remote_connection.Method("/trireme.v1.FilterPlugin/Filter", filter_pb2.FilterResponse)
_FIRST, _SECOND = "127.0.0.1:1", "127.0.0.1:2"


class Replicas:
    """Two replicas that take ten milliseconds each, and how long a call to them takes."""

    def __init__(self, clock: Callable[[], float], monkeypatch: pytest.MonkeyPatch, *, hedging: bool = True) -> None:
        info = plugin_pb2.PluginInfo(name="R", idempotent=True)
        config = snapshot_pb2.RemotePlugin(
            name="R", endpoints=[_FIRST, _SECOND], deadline_ms=10_000, hedging=hedging, info=info
        )
        self._clock = clock
        self._hanging = ""
        #: The endpoint of each call, and how long it may take.
        self.calls: list[tuple[str, float]] = []
        self.connection = remote_connection.PluginConnection(config, clock)
        monkeypatch.setattr(self.connection, "_call", self._call)

    async def _call(
        self,
        endpoint: remote_endpoint.Endpoint,
        method: remote_connection.Method[filter_pb2.FilterResponse],
        request: bytes,
        seconds: float,
    ) -> bytes:
        """One call to one replica."""
        self.calls.append((endpoint.target, seconds))
        await asyncio.sleep(seconds if endpoint.target == self._hanging else 0.01)
        return b""

    async def call(self, read: Callable[[filter_pb2.FilterResponse], None] = lambda response: None) -> float:
        """How long a call takes. Units: seconds."""
        started = self._clock()
        await self.connection.call(_FILTER, b"", read)
        return self._clock() - started

    async def warm_up_then_hang(self) -> None:
        """Enough calls end for hedging; then the first replica, which is the first to be called, hangs."""
        for _ in range(recent_durations.ENOUGH + recent_durations.RECOMPUTE):
            await self.call()
        self._hanging = _FIRST


def test_a_replica_that_hangs_does_not_make_calls_longer_and_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the delay before the second call counts as the plugin's own, and grows up to the deadline."""

    async def main(clock: Callable[[], float]) -> None:
        replicas = Replicas(clock, monkeypatch)
        await replicas.warm_up_then_hang()
        durations = [await replicas.call() for _ in range(3 * recent_durations.REMEMBERED)]
        assert max(durations) < 0.025
        assert replicas.connection.statistics().hedged >= len(durations)
        await replicas.connection.close()

    virtual_time.run(main)


def test_a_wrong_answer_is_that_of_the_replica_that_gave_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the error and the log name a replica that has not answered."""

    def refuse(_: filter_pb2.FilterResponse) -> None:
        raise ValueError("nonsense")

    async def main(clock: Callable[[], float]) -> None:
        replicas = Replicas(clock, monkeypatch)
        await replicas.warm_up_then_hang()
        with pytest.raises(remote_connection.PluginError, match=f"{_SECOND}: the answer to Filter is wrong"):
            await replicas.call(refuse)
        await replicas.connection.close()

    virtual_time.run(main)


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
    """If this fails, the slower replica still decides how long a pod waits, or goes on working for nobody."""
    calls = Calls()
    task = asyncio.create_task(calls.answer())
    await calls.began.wait()
    getattr(calls, winner).set_result(winner)
    assert await task == winner
    assert (calls.second if winner == "first" else calls.first).cancelled()


async def test_a_failure_counts_only_if_both_fail() -> None:
    """If this fails, a second call makes failures likelier."""
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
    """If this fails, each call is made twice."""
    calls = Calls()
    calls.first.set_result("first")
    assert await calls.answer() == "first"
    assert not calls.began.is_set()


async def test_without_a_free_replica_the_call_goes_on() -> None:
    """If this fails, calls fail while all replicas are busy, just when they take long."""
    calls = Calls()
    asked = asyncio.Event()

    def nobody() -> None:
        asked.set()

    task = asyncio.create_task(calls.answer(nobody))
    await asked.wait()
    calls.first.set_result("first")
    assert await task == "first"


async def test_a_call_that_was_cancelled_elsewhere_is_a_failure() -> None:
    """If this fails, the good answer of the second call is lost with the first one."""

    async def cancelled() -> str:
        await asyncio.sleep(0.01)
        raise asyncio.CancelledError

    async def second() -> str:
        await asyncio.sleep(0.05)
        return "second"

    assert await hedging.first_answer(cancelled(), 0.0, second) == "second"


async def test_cancelling_ends_both_calls() -> None:
    """If this fails, calls whose caller has gone occupy two replicas."""
    calls = Calls()
    task = asyncio.create_task(calls.answer())
    await calls.began.wait()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert calls.first.cancelled()
    assert calls.second.cancelled()


def test_most_calls_take_less_than_the_delay() -> None:
    """If this fails, many calls are made twice, or none before the deadline."""
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
    recent = recent_durations.RecentDurations()
    for number in range(recent_durations.REMEMBERED):
        recent.add(float(number))
    assert recent.p95 == recent_durations.REMEMBERED * 0.95


@pytest.mark.parametrize("hedges", [True, False])
def test_a_second_call_has_the_time_that_is_left_and_is_made_only_if_that_is_allowed(
    monkeypatch: pytest.MonkeyPatch, hedges: bool
) -> None:
    async def main(clock: Callable[[], float]) -> None:
        replicas = Replicas(clock, monkeypatch, hedging=hedges)
        await replicas.warm_up_then_hang()
        replicas.calls.clear()
        duration = await replicas.call()
        if hedges:
            assert replicas.calls == [(_FIRST, 10.0), (_SECOND, pytest.approx(9.99))]
            assert duration == pytest.approx(0.02)
        else:
            assert replicas.calls == [(_FIRST, 10.0)]
            assert (duration, replicas.connection.statistics().hedged) == (10.0, 0)
        await replicas.connection.close()

    virtual_time.run(main)


async def test_the_call_that_lost_has_ended_by_the_time_of_the_answer() -> None:
    """What it holds is free again: its turn at the endpoint above all."""
    ended = asyncio.Event()

    async def slow() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.set()
        raise AssertionError("it is cancelled")

    async def fast() -> str:
        return "fast"

    assert await hedging.first_answer(slow(), 0.0, fast) == "fast"
    assert ended.is_set()


@pytest.mark.parametrize("number", [0, 1])
def test_each_endpoint_has_to_be_one(number: int) -> None:
    targets = [_FIRST, _SECOND]
    targets[number] = "nonsense"
    config = snapshot_pb2.RemotePlugin(name="R", endpoints=targets, deadline_ms=10)
    with pytest.raises(ValueError, match="plugin R: endpoints: 'nonsense' is neither"):
        remote_connection.PluginConnection(config)
