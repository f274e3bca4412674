"""ItemBatches: many who ask at once are asked for in one call, and each gets its own answer."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from tests.helpers.virtual_time import on_virtual_time
from trireme.scheduling import item_batches
from trireme.v1 import bind_pb2, cycle_pb2

OnResult = Callable[[int, bind_pb2.BindResult], None]


class Bind:
    """Answers the actions of a pod once it is let."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.let: dict[str, asyncio.Event] = {}
        self.broken = False
        self.batches = item_batches.ItemBatches(self._apply)

    def ask(self, *names: str, rank: item_batches.Rank = (0, 0)) -> "asyncio.Task[list[int]]":
        async def ask() -> list[int]:
            pods = [bind_pb2.Action(pod=cycle_pb2.PodIdentity(name=name)) for name in names]
            return [result.index for result in await self.batches.execute(pods, rank)]

        for name in names:
            self.let.setdefault(name, asyncio.Event())
        return asyncio.create_task(ask())

    async def _apply(self, actions: Sequence[bind_pb2.Action], on_result: OnResult) -> None:
        names = [action.pod.name for action in actions]
        self.calls.append(names)
        if self.broken:
            raise ValueError("broken")

        async def one(index: int, name: str) -> None:
            await self.let[name].wait()
            on_result(index, bind_pb2.BindResult(index=ord(name)))

        await asyncio.gather(*(one(index, name) for index, name in enumerate(names)))


async def _settle() -> None:
    await asyncio.sleep(2 * item_batches.LINGER_SECONDS)


async def test_concurrent_requests_share_a_call_and_later_ones_do_not_wait() -> None:
    """A call for each costs more than the writes; one that waits for a slow write would hold up all others."""
    bind = Bind()
    first, second = bind.ask("a", "b"), bind.ask("c")
    await _settle()
    assert bind.calls == [["a", "b", "c"]]
    third, fourth = bind.ask("d"), bind.ask("e")
    await _settle()
    assert bind.calls[1:] == [["d", "e"]]
    for name in ("c", "e"):
        bind.let[name].set()
    assert await second == [ord("c")]
    assert await fourth == [ord("e")]
    assert not first.done(), "a and b are still under way"
    assert not third.done()
    for name in ("a", "b", "d"):
        bind.let[name].set()
    assert await first == [ord("a"), ord("b")]
    assert await third == [ord("d")]


async def test_calls_under_way_are_bounded_and_the_rest_is_sent_by_rank() -> None:
    """If this fails, many items sent at once delay more important ones, or those that wait are never sent."""
    bind = Bind()
    most = item_batches.MAX_UNDER_WAY
    many = [bind.ask(*(chr(0x100 + first + number) for number in range(2))) for first in range(0, 2 * most, 2)]
    await _settle()
    assert [len(call) for call in bind.calls] == [most]
    late = bind.ask("a", rank=(-5, 0))
    later = bind.ask("b", rank=(-9, 0))
    await _settle()
    assert len(bind.calls) == 1, "bind has enough to do"
    for event in bind.let.values():
        event.set()
    await asyncio.gather(*many, late, later)
    assert bind.calls[1][:2] == ["b", "a"]
    assert sum(len(call) for call in bind.calls) == 2 * most + 2
    assert all(len(call) <= most for call in bind.calls)


@on_virtual_time
async def test_what_comes_a_moment_later_shares_the_next_call() -> None:
    """While a call is open there is no haste, and each more of them costs as much as the writes."""
    bind = Bind()
    bind.ask("a")
    await _settle()
    bind.ask("b")
    await asyncio.sleep(item_batches.LINGER_SECONDS / 2)
    bind.ask("c")
    await _settle()
    assert bind.calls == [["a"], ["b", "c"]]


@on_virtual_time
async def test_one_slow_item_does_not_hold_up_what_waits() -> None:
    """Its call stays open; the places of the others are free."""
    bind = Bind()
    bind.batches = item_batches.ItemBatches(bind._apply, max_under_way=4)
    bind.ask("slow", *"abc")
    bind.ask("d")
    await _settle()
    for name in "abc":
        bind.let[name].set()
    await _settle()
    assert bind.calls == [["slow", "a", "b", "c"], ["d"]]


async def test_a_failed_call_fails_all_its_callers_and_no_later_ones() -> None:
    """Who waits for a call that broke would wait forever."""
    bind = Bind()
    bind.broken = True
    first, second = bind.ask("a"), bind.ask("b")
    for asked in (first, second):
        with pytest.raises(ValueError, match="broken"):
            await asked
    bind.broken = False
    third = bind.ask("c")
    bind.let["c"].set()
    assert await third == [ord("c")]


async def test_closing_cancels_calls_under_way_and_waiting_ones() -> None:
    """A leader that has lost its Lease asks for nothing more."""
    bind = Bind()
    first = bind.ask("a")
    await _settle()
    second = bind.ask("b")
    await asyncio.sleep(0)
    await bind.batches.close()
    for asked in (first, second):
        with pytest.raises(asyncio.CancelledError):
            await asked
    assert bind.calls == [["a"]]


async def test_a_request_whose_callers_are_cancelled_is_not_sent() -> None:
    """A preemption that was given up would still evict."""
    bind = Bind()
    first = bind.ask("a")
    await asyncio.sleep(0)
    first.cancel()
    second = bind.ask("b")
    bind.let["b"].set()
    assert await second == [ord("b")]
    assert bind.calls == [["b"]]


async def test_no_more_calls_are_open_than_the_server_takes() -> None:
    """Each call lasts until its slowest item has a result; a server refuses all others beyond some number."""
    bind = Bind()
    bind.batches = item_batches.ItemBatches(bind._apply, max_calls=2)
    asked = []
    for name in "abcd":
        asked.append(bind.ask(name))
        await _settle()
    assert bind.calls == [["a"], ["b"]]
    bind.let["b"].set()
    await _settle()
    assert bind.calls[2:] == [["c", "d"]]
    for name in "acd":
        bind.let[name].set()
    assert [result for (result,) in await asyncio.gather(*asked)] == [ord(name) for name in "abcd"]


async def test_when_the_batches_are_closed_no_call_goes_on() -> None:
    """The next leader's writes about the same pods would race with them."""
    bind = Bind()
    waiting = bind.ask("a")
    await _settle()
    assert bind.calls == [["a"]]
    before = asyncio.all_tasks() - {waiting}
    await bind.batches.close()
    assert len(asyncio.all_tasks() - {waiting}) < len(before)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_items_that_a_call_says_nothing_about_are_cancelled() -> None:
    """Their callers would wait forever, and their places never be free."""

    async def say_nothing(actions: Sequence[bind_pb2.Action], on_result: OnResult) -> None:
        on_result(0, bind_pb2.BindResult(index=ord("a")))

    bind = Bind()
    bind.batches = item_batches.ItemBatches(say_nothing, max_under_way=3)
    first, second, third = (bind.ask(name) for name in "abc")
    await _settle()
    assert await first == [ord("a")]
    for asked in (second, third):
        with pytest.raises(asyncio.CancelledError):
            await asked
    assert await bind.ask("d") == [ord("a")]
    assert bind.batches.answered == 2


async def test_where_all_callers_were_cancelled_there_is_no_call() -> None:
    bind = Bind()
    asked = bind.ask("a")
    await asyncio.sleep(0)
    asked.cancel()
    await _settle()
    assert bind.calls == []
