"""Entries of columns by slots, without a copy where the slots are all there are."""

import numpy as np
import pytest

from trireme.snapshot import arrays

SLOTS = [
    pytest.param([0, 1, 2], True, id="the-first-ones"),
    pytest.param([0, 1, 2, 3], True, id="all"),
    pytest.param([0, 2, 3], False, id="with-a-gap"),
    pytest.param([3, 0, 2], False, id="rolled-with-a-gap"),
    pytest.param([1, 2, 3, 0], False, id="rolled"),
    pytest.param([1, 2], True, id="not-from-the-first"),
    pytest.param([2], True, id="one"),
    pytest.param([2, 3, 1], False, id="rolled-not-from-the-first"),
    pytest.param([], False, id="none"),
]


@pytest.mark.parametrize(("slots", "shared"), SLOTS)
def test_entries_are_those_of_the_slots(slots: list[int], shared: bool) -> None:
    """Entries of other slots would be other nodes' verdicts and scores."""
    column = np.array([10, 11, 12, 13])
    found = arrays.entries_at(column, np.array(slots, dtype=np.intp))
    assert found.tolist() == [10 + slot for slot in slots]
    assert np.shares_memory(found, column) == shared


def test_slots_that_all_share_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="read-only"):
        arrays.first_slots(1237)[0] = 1
