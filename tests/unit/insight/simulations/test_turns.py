"""Turns: one simulation at a time, and no caller waits for all that another one asks."""

import asyncio

import pytest

from trireme.insight.simulations import turns


async def _run(taken: turns.Turns, caller: str, order: list[str], go: asyncio.Event) -> None:
    async with taken.turn_for(caller):
        order.append(caller)
        await go.wait()


async def test_callers_take_turns() -> None:
    """One caller's hundred questions would keep all others waiting."""
    taken, order, go = turns.Turns(), list[str](), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for caller in ("a", "a", "a", "a", "b", "c"):
            group.create_task(_run(taken, caller, order, go))
            await asyncio.sleep(0)
        assert order == ["a"]
        assert taken.waiting == 5
        go.set()
    assert order == ["a", "a", "b", "c", "a", "a"]
    assert taken.waiting == 0


async def test_several_may_have_their_turn_at_once() -> None:
    """Where turns mostly wait for remote plugins, one at a time would take as long as all of these waits."""
    taken, order, go = turns.Turns(at_once=2), list[str](), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for caller in ("a", "a", "a", "b"):
            group.create_task(_run(taken, caller, order, go))
            await asyncio.sleep(0)
        assert order == ["a", "a"]
        assert taken.waiting == 2
        go.set()
    async with taken.turn_for("c"), taken.turn_for("c"):
        assert taken.waiting == 0


async def test_more_than_may_wait_are_refused() -> None:
    """What waits holds memory; a refusal says what to do."""
    taken, order, go = turns.Turns(max_waiting=3, max_of_caller=2), list[str](), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for caller in ("a", "a", "a", "b"):
            group.create_task(_run(taken, caller, order, go))
            await asyncio.sleep(0)
        with pytest.raises(turns.TooManyWaitingError, match="same caller"):
            await _run(taken, "a", order, go)
        with pytest.raises(turns.TooManyWaitingError, match="another replica"):
            await _run(taken, "c", order, go)
        go.set()
    async with taken.turn_for("c"):
        pass


async def test_a_caller_that_goes_away_leaves_its_turn() -> None:
    """A client that disconnects would stop all simulations."""
    taken, order, go = turns.Turns(), list[str](), asyncio.Event()
    first = asyncio.ensure_future(_run(taken, "a", order, go))
    await asyncio.sleep(0)
    gone, last = (asyncio.ensure_future(_run(taken, caller, order, go)) for caller in ("b", "c"))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    first.cancel()
    for _ in range(3):
        await asyncio.sleep(0)
    assert order == ["a", "c"]
    go.set()
    await last
    assert taken.waiting == 0
