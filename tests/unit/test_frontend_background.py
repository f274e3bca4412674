"""Work beside everything else: its failure is noticed, and its end is not taken for one."""

import asyncio

import pytest

from trireme.frontend.background import Background, failure_of


async def _fail() -> None:
    raise ValueError("a fault of ours")


async def test_a_failure_is_raised_by_who_waits_for_it() -> None:
    """Else pods whose binding fails by a fault of ours are in flight for ever, and nobody hears of it."""
    quiet, failing = Background(), Background()
    waiting = asyncio.create_task(failure_of([quiet, failing]))
    failing.start(_fail())
    with pytest.raises(ExceptionGroup) as raised:
        await asyncio.wait_for(waiting, 5)
    assert raised.group_contains(ValueError, match="a fault of ours")


async def test_an_end_is_no_failure() -> None:
    """Else the frontend ends because a binding did, or because it was told to give up what is under way."""
    background = Background()
    waiting = asyncio.create_task(background.failure())
    background.start(asyncio.sleep(0))
    background.start(asyncio.Event().wait())  # type: ignore[arg-type]  # what it answers is of no interest
    await asyncio.sleep(0)
    await background.close()
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()
