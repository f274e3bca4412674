"""Which slots changed: the log and the column say the same."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trireme.snapshot import slot_changes

SIZE = 400
# Of so many slots even a full log is a small part, and is read in place of the column.
MANY = 2 * slot_changes.LOG_ENTRIES * slot_changes.LOG_PART


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


@pytest.mark.parametrize("size", [SIZE, MANY])
def test_a_log_that_is_full_forgets_nothing(size: int) -> None:
    """Beyond what the log holds a change would be lost."""
    changed = slot_changes.SlotChanges()
    changed.ensure_capacity(size)
    for generation in range(1, 2 * slot_changes.LOG_ENTRIES):
        changed.touch(np.array([generation % size]), generation)
    for since in (0, slot_changes.LOG_ENTRIES - 2, 2 * slot_changes.LOG_ENTRIES - 3):
        found = set(changed.since(since, size).tolist())
        assert found == {generation % size for generation in range(since + 1, 2 * slot_changes.LOG_ENTRIES)}


@pytest.mark.parametrize("size", [SIZE, MANY])
def test_a_fork_whose_log_is_full_forgets_nothing(size: int) -> None:
    """Its column is made late, of the log: a change that has left it by then would be lost."""
    base = slot_changes.SlotChanges()
    base.ensure_capacity(size)
    base.touch(np.array([0]), 7)
    fork = base.fork(size)
    last = 7 + slot_changes.LOG_ENTRIES + 10
    for generation in range(8, last + 1):
        fork.touch(np.array([generation]), generation)
    assert fork.since(7, size).tolist() == list(range(8, last + 1))
    assert fork.since(last - 2, size).tolist() == [last - 1, last]
    assert fork.since(6, size).tolist() == list(range(size)), "what was before the fork may all have changed"


def test_slots_may_come_in_any_order() -> None:
    """Pods are listed by row: slots that begin with the first and end as a range would are no range."""
    changed = slot_changes.SlotChanges()
    changed.ensure_capacity(SIZE)
    changed.touch(np.array([0, 5, 2]), 7)
    assert np.flatnonzero(changed.at == 7).tolist() == [0, 2, 5]


@pytest.mark.parametrize("size", [8, MANY])
def test_a_union_has_each_slot_once_in_order(size: int) -> None:
    """Few slots are sorted, many are marked."""
    parts = [np.array(slots, dtype=np.intp) for slots in ([5, 2], [], [2, 7, 0])]
    assert slot_changes.union(parts, size).tolist() == [0, 2, 5, 7]
    assert slot_changes.union([], size).tolist() == []


def test_a_column_never_shrinks() -> None:
    """Slots beyond a smaller size would be forgotten."""
    changed = slot_changes.SlotChanges()
    changed.ensure_capacity(SIZE)
    changed.touch(np.array([SIZE - 1]), 7)
    fork = changed.fork(SIZE)
    for each in (changed, fork):
        each.ensure_capacity(2)
        each.touch(np.array([SIZE - 2]), 8)
        assert each.at.shape == (SIZE,)
        assert each.since(7, SIZE).tolist() == [SIZE - 2]


def test_nothing_has_changed_since_the_latest_change() -> None:
    changed = slot_changes.SlotChanges()
    changed.ensure_capacity(SIZE)
    changed.touch(np.array([3, 3, 1]), 7)
    changed.touch(np.array([], dtype=np.intp), 9)
    assert (changed.latest, changed.since(7, SIZE).tolist(), changed.since(6, SIZE).tolist()) == (7, [], [1, 3])


def test_a_fork_has_its_column_and_no_other_attribute() -> None:
    changes = slot_changes.SlotChanges()
    changes.ensure_capacity(4)
    changes.touch(np.array([1]), 5)
    fork = changes.fork(4)
    assert not hasattr(fork, "other")
    assert fork.at.tolist() == [5] * 4
