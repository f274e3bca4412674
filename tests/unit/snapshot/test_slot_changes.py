"""Which slots changed: the log and the column say the same."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trireme.snapshot import slot_changes

SIZE = 400


@given(
    st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(0, SIZE - 1), max_size=60)), max_size=40),
    st.integers(0, 40),
)
def test_log_and_column_agree_on_changes_since_a_generation(steps: list[tuple[int, list[int]]], since: int) -> None:
    """A slot that is left out keeps an old verdict or score forever."""
    changed = slot_changes.SlotChanges()
    changed.ensure_capacity(SIZE)
    generation, last = 1, dict[int, int]()
    for later, slots in steps:
        generation += later
        changed.touch(np.array(slots, dtype=np.intp), generation)
        last.update(dict.fromkeys(slots, generation))
    assert changed.since(since, SIZE).tolist() == sorted(slot for slot, when in last.items() if when > since)


def test_a_log_that_is_full_forgets_nothing() -> None:
    """Beyond what the log holds a change would be lost."""
    changed = slot_changes.SlotChanges()
    changed.ensure_capacity(SIZE)
    for generation in range(1, 2 * slot_changes.LOG_ENTRIES):
        changed.touch(np.array([generation % SIZE]), generation)
    for since in (0, slot_changes.LOG_ENTRIES - 2, 2 * slot_changes.LOG_ENTRIES - 3):
        found = set(changed.since(since, SIZE).tolist())
        assert found == {generation % SIZE for generation in range(since + 1, 2 * slot_changes.LOG_ENTRIES)}


def test_slots_may_come_in_any_order() -> None:
    """Pods are listed by row: slots that begin with the first and end as a range would are no range."""
    changed = slot_changes.SlotChanges()
    changed.ensure_capacity(SIZE)
    changed.touch(np.array([0, 5, 2]), 7)
    assert np.flatnonzero(changed.at == 7).tolist() == [0, 2, 5]
