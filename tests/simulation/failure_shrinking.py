"""Finds a short list of faults and changes that still makes a simulation fail.

It is delta debugging: whole storms and kinds of faults are left out, then halves, quarters and at last single events,
and what the failure does not need stays out. Without an event the network's delays fall differently, so a failure that
needs luck may be lost on the way: the list is short, not always the shortest.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from tests.simulation import simulation_runs
from tests.simulation.simulation_plan import PlannedEvent

if TYPE_CHECKING:
    from tests.simulation.simulation import Outcome

T = TypeVar("T")

# The first and the last sixteenth, eighth and so on are tried alone.
_PARTS = (16, 8, 4, 2)

_NAME_WITH_NUMBER = re.compile(r"[\w.-]*\d[\w.-]*")


def shrink(
    items: Sequence[T],
    groups: Iterable[Iterable[T]],
    attempt: Callable[[list[T]], list[T] | None],
    time_left: Callable[[], bool],
) -> list[T]:
    """Leave out what is not needed to fail.

    `attempt` tries some of the items; it returns those that mattered if they fail, else None. All `items` fail. Each of
    the `groups` is left out as a whole at first.
    """
    found = list(items)
    for group in groups:
        left_out = set(group)
        found = _smaller(found, [item for item in found if item not in left_out], attempt, time_left)
    for part in _PARTS:  # small ones first: they are tried soonest
        count = len(found) // part
        whole = found
        for rest in (whole[-count:], whole[:count]):
            found = _smaller(found, rest, attempt, time_left) if found is whole else found
    size = len(found) // 2
    while size:
        before = len(found)
        start = 0
        while start < len(found):
            smaller = _smaller(found, found[:start] + found[start + size :], attempt, time_left)
            start += size if smaller is found else 0
            found = smaller
        if size > 1 or len(found) == before:
            size //= 2
    return found


def _smaller(
    found: list[T], rest: list[T], attempt: Callable[[list[T]], list[T] | None], time_left: Callable[[], bool]
) -> list[T]:
    """What matters of the `rest`, if it fails, and `found` itself if not."""
    if not rest or len(rest) == len(found) or not time_left():
        return found
    failed = attempt(rest)
    return found if failed is None else failed


def shrink_failure(runs: simulation_runs.Runs, failed: Outcome, seconds: float, say: Callable[[str], None]) -> Outcome:
    """The run of a short list of events that violates the same invariant, found within so many seconds or so."""
    best = failed
    until = simulation_runs.monotonic() + seconds
    attempts = 0

    def attempt(events: list[PlannedEvent]) -> list[PlannedEvent] | None:
        nonlocal best, attempts
        attempts += 1
        outcome = runs.run(dataclasses.replace(failed.options, events=tuple(events)))
        if invariant(failed.violations[0]) not in map(invariant, outcome.violations):
            return None
        best = outcome
        return list(outcome.events)

    shrink(failed.events, _groups(failed.events), attempt, lambda: simulation_runs.monotonic() < until)
    say(f"{len(failed.events)} events shrunk to {len(best.events)} in {attempts} runs")
    return best


def _groups(events: Sequence[PlannedEvent]) -> list[list[PlannedEvent]]:
    """All storms but the last, each kind of faults and changes, and all faults."""
    last = events[-1].storm if events else 0
    kinds = dict.fromkeys((event.what, event.name) for event in events)
    return [
        [event for event in events if event.storm != last],
        [event for event in events if event.what == "fault"],
        *([event for event in events if (event.what, event.name) == kind] for kind in kinds),
    ]


def invariant(violation: str) -> str:
    """Which invariant it is that a text says the violation of: the text without what differs from run to run."""
    return _NAME_WITH_NUMBER.sub("#", violation.partition(":")[0])
