"""What searches for devices came to, as columns over what nodes see.

Tests: tests/unit/plugins/dynamic_resources/test_preparing.py, tests/conformance/test_decisions.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from trireme.framework import status
from trireme.plugins.dynamic_resources import allocator
from trireme.snapshot import arrays


@dataclass(slots=True, eq=False)
class SearchOutcome:
    """What the search came to for all nodes of one kind."""

    solutions: list[allocator.ClaimSolution] | None = None
    refusal: status.Status | None = None
    late: bool = False

    @property
    def holds_for_others(self) -> bool:
        """Whether it may answer for other claims that ask for the same: an error names its claim."""
        return not self.late and (self.refusal is None or self.refusal.code is not status.Code.ERROR)


class OutcomeColumns:
    """Outcomes for claims that ask for the same, by the view of a node, each with the version that it is of.

    Shapes: versions and refused (view,); `refused` counts from 1 in `refusals`, 0 for none.
    """

    def __init__(self) -> None:
        self.versions: arrays.Int64Array = arrays.EMPTY_INT64
        self.refused: arrays.Int16Array = arrays.EMPTY_INT16
        self.refusals: list[status.Status] = []
        self._found: list[SearchOutcome | None] = []

    def ensure_views(self, size: int) -> None:
        """Make room for so many views."""
        have = len(self._found)
        if size > have:
            self.versions = arrays.grow_last_axis(self.versions, size)
            self.versions[have:] = -1
            self.refused = arrays.grow_last_axis(self.refused, size)
            self._found.extend([None] * (size - have))

    def store(self, view: int, version: int, outcome: SearchOutcome) -> None:
        """Note an outcome for a view."""
        self.versions[view] = version
        self._found[view] = outcome
        self.refused[view] = 0 if outcome.refusal is None else self._number_of_refusal(outcome.refusal)

    def forget(self, view: int) -> None:
        """Drop what is known of a view."""
        if view < len(self._found):
            self.versions[view] = -1
            self._found[view] = None

    def at(self, view: int) -> SearchOutcome | None:
        """The last outcome for the view."""
        return self._found[view]

    def _number_of_refusal(self, refusal: status.Status) -> int:
        if refusal not in self.refusals:
            self.refusals.append(refusal)
        return self.refusals.index(refusal) + 1


@dataclass(frozen=True, slots=True)
class SlotOutcomes:
    """Outcomes for some slots. Shape: refused (given slot,); it counts from 1 in `refusals`, 0 for none.

    `outcome_at` answers by the position in the given slots; None: there is nothing to search for. To be read at once:
    the next search may overwrite it.
    """

    refused: arrays.Int16Array
    refusals: Sequence[status.Status]
    outcome_at: Callable[[int], SearchOutcome | None]


def nothing_to_search(count: int) -> SlotOutcomes:
    """The outcomes for so many slots where nothing has to be found."""
    return SlotOutcomes(np.zeros(count, dtype=np.int16), (), lambda _: None)


def of_positions(outcomes: Sequence[SearchOutcome | None]) -> SlotOutcomes:
    """The outcomes for slots, given one by one."""
    refusals: list[status.Status] = []
    refused = np.zeros(len(outcomes), dtype=np.int16)
    for at, outcome in enumerate(outcomes):
        if outcome is not None and outcome.refusal is not None:
            if outcome.refusal not in refusals:
                refusals.append(outcome.refusal)
            refused[at] = refusals.index(outcome.refusal) + 1
    return SlotOutcomes(refused, refusals, outcomes.__getitem__)
