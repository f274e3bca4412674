"""A waiter hears of each change since its call started, and of no other; what nobody needs is dropped."""

import asyncio
from collections.abc import Awaitable

import pytest

from tests.helpers.held_entries import held_entries
from trireme.cache import object_waits

A, B, C = ("a", "", "a"), ("b", "", "b"), ("c", "", "c")


async def _ends(wait: Awaitable[None]) -> bool:
    """Whether a wait ends by what has happened so far."""
    task = asyncio.ensure_future(wait)
    for _ in range(3):
        await asyncio.sleep(0)
    ended = task.done()
    task.cancel()
    return ended


async def test_a_change_before_the_wait_counts_from_the_start_of_the_recording() -> None:
    waits = object_waits.ObjectWaits()
    with waits.record_changes() as before:
        waits.record([A])
        with waits.record_changes() as after:
            assert not await _ends(after.wait_for_change([A]))
        assert not await _ends(waits.wait_for_next_change([A]))
        assert await _ends(before.wait_for_change([B, A]))


async def test_a_list_that_started_over_may_have_changed_anything() -> None:
    waits = object_waits.ObjectWaits()
    with waits.record_changes() as before:
        waits.record_all()
        with waits.record_changes() as after:
            assert not await _ends(after.wait_for_change([A]))
            assert await _ends(before.wait_for_change([A]))


@pytest.mark.parametrize("change", ["one", "all"])
async def test_all_that_wait_hear_of_a_change(change: str) -> None:
    waits = object_waits.ObjectWaits()
    with waits.record_changes():
        tasks = [asyncio.ensure_future(waits.wait_for_next_change(keys)) for keys in ([A], [B, A], [A])]
        tasks.append(asyncio.ensure_future(waits.wait_for_next_change([B, C])))
        other = asyncio.ensure_future(waits.wait_for_next_change([C]))
        await asyncio.sleep(0)
        if change == "one":
            waits.record([B, A])
        else:
            waits.record_all()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [task.done() for task in tasks] == [True] * 4
        assert other.done() == (change == "all")
        other.cancel()


async def test_a_recording_that_starts_over_forgets_what_was_before() -> None:
    waits = object_waits.ObjectWaits()
    with waits.record_changes() as recording:
        waits.record([A])
        recording.start_over()
        assert not await _ends(recording.wait_for_change([A]))
        recording.start_over()
        waits.record([A])
        assert await _ends(recording.wait_for_change([A]))


def test_nothing_is_recorded_for_nobody() -> None:
    waits = object_waits.ObjectWaits()
    waits.record([A])
    assert (len(waits), waits.latest) == (0, 0)
    with waits.record_changes():
        waits.record([A, B])
        assert len(waits) == 2
    assert len(waits) == 0


def test_changes_stay_while_another_caller_records() -> None:
    waits = object_waits.ObjectWaits()
    with waits.record_changes() as first:
        with waits.record_changes():
            waits.record([A])
        assert waits.changed_since([A], first.since)


def test_of_many_changes_those_that_all_have_seen_are_dropped() -> None:
    waits = object_waits.ObjectWaits()
    with waits.record_changes() as recording:
        waits.record([("old", "", str(number)) for number in range(object_waits.MIN_RECORDS)])
        recording.start_over()
        waits.record([A])
        assert len(waits) == 1
        assert waits.changed_since([A], recording.since)


async def test_a_waiter_that_leaves_takes_no_other_with_it() -> None:
    waits = object_waits.ObjectWaits()
    with waits.record_changes():
        stays = asyncio.ensure_future(waits.wait_for_next_change([B]))
        leaves = asyncio.ensure_future(waits.wait_for_next_change([A, B]))
        await asyncio.sleep(0)
        leaves.cancel()
        await asyncio.sleep(0)
        waits.record([B])
        await asyncio.wait_for(stays, 1)


async def test_nothing_is_kept_of_waits_that_are_over() -> None:
    """Of each claim that any pod ever waited for."""
    waits = object_waits.ObjectWaits()
    fresh = held_entries(waits)
    for how in ("changed", "cancelled", "all"):
        with waits.record_changes() as recording:
            waiting = asyncio.ensure_future(recording.wait_for_change([A, B]))
            await asyncio.sleep(0)
            if how == "changed":
                waits.record([A])
            elif how == "all":
                waits.record_all()
            else:
                waiting.cancel()
            await asyncio.wait([waiting])
    assert held_entries(waits) == fresh
