"""The inbox: the simulated cluster gets events at once, the comparison in order and as it can."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from trireme.shadow import decision_comparison, inbox
from trireme_kube.client.informers.watch import Event, EventKind


class _Comparison:
    """Takes down what comes, and whether it is to be judged."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, bool]] = []

    async def apply_pods(self, events: Sequence[Event[Any]], *, judging: bool = True) -> None:
        self.taken += [(str(event.object), judging) for event in events]

    def apply_nodes(self, events: Sequence[Event[Any]]) -> None:
        self.taken += [(str(event.object), True) for event in events]


def _events(*names: str) -> list[Event[Any]]:
    return [Event(EventKind.MODIFIED, name) for name in names]


async def _run(made: inbox.Inbox) -> None:
    """Until everything is applied."""
    running = asyncio.create_task(made.run())
    await made.emptied.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def _inbox() -> tuple[inbox.Inbox, _Comparison]:
    comparison = _Comparison()
    made = inbox.Inbox(cast("decision_comparison.DecisionComparison", comparison), None)
    made.begin_judging()
    return made, comparison


async def test_events_are_applied_in_the_order_in_which_they_came() -> None:
    """A binding judged before the node came would be refused as on no node."""
    made, comparison = _inbox()
    made.on_nodes(_events("node"))
    made.on_pods(_events("pod", "other"))
    made.on_nodes(_events("later"))
    await _run(made)
    assert [name for name, _ in comparison.taken] == ["node", "pod", "other", "later"]
    assert made.is_empty


async def test_bindings_are_not_judged_while_too_many_events_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A burst would be judged for minutes after it is over, in memory that grows."""
    monkeypatch.setattr(inbox, "MAX_QUEUED", 3)
    made, comparison = _inbox()
    made.on_pods(_events("a", "b"))
    made.on_pods(_events("c", "d"))
    await _run(made)
    assert comparison.taken == [("a", False), ("b", False), ("c", True), ("d", True)]


async def test_nothing_is_judged_before_everything_was_listed() -> None:
    """While Services are still being listed, a pod is judged as if there were none: five of 113 were different."""
    comparison = _Comparison()
    made = inbox.Inbox(cast("decision_comparison.DecisionComparison", comparison), None)
    made.on_pods(_events("early"))
    await _run(made)
    made.begin_judging()
    made.on_pods(_events("late"))
    await _run(made)
    assert comparison.taken == [("early", False), ("late", True)]


async def test_lists_after_the_first_are_counted_as_interruptions() -> None:
    """The report says how often the state of a moment was lost."""
    made, _ = _inbox()
    ended: Event[Any] = Event(EventKind.LIST_END, None)
    made.on_pods([ended])
    made.on_nodes([ended])
    assert made.relists == {}
    made.on_pods([ended])
    assert made.relists == {"pods": 1}
