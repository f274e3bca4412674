"""What score keeps of a class: filter's answers, whole and patched, and the ranking of the nodes that are open."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.snapshot_views import SnapshotBuilder
from trireme.evaluation import request_errors
from trireme.evaluation.scoring import class_scores, placement, ranking, score_column
from trireme.framework import status
from trireme.plugin_api import scorers
from trireme.wire import node_columns

SIZE = 6
TIES = placement.tie_order(np.arange(64))
REFUSAL = status.unschedulable("P", "no")


def answer(
    generation: int, refused: list[bool], capacity: list[int], at: list[int] | None = None, base: int = 0
) -> node_columns.NodeColumns:
    """Filter's answer about all slots, or a patch about some."""
    return node_columns.NodeColumns(
        generation,
        base,
        len(refused) if at is None else SIZE,
        None if at is None else np.array(at, dtype=np.intp),
        (REFUSAL,),
        np.array(refused, dtype=np.int16),
        np.array(capacity, dtype=np.int32),
    )


def column(*raw: int) -> score_column.ScoreColumn:
    made = score_column.ScoreColumn(True, 0)
    made.write_scores(np.arange(len(raw)), np.array(raw), 64)
    return made


def plugins(*columns: score_column.ScoreColumn) -> list[ranking.RankedPlugin]:
    return [ranking.RankedPlugin(each, 1, scorers.Normalization.NONE, own=False) for each in columns]


_answers = st.lists(st.tuples(st.integers(0, SIZE - 1), st.booleans(), st.integers(0, 2)), max_size=3)
_steps = st.lists(st.one_of(st.tuples(st.just("patch"), _answers), st.tuples(st.just("whole"), _answers),
                            st.tuples(st.just("node"), st.integers(0, SIZE - 1))), max_size=8)  # fmt: skip


@settings(max_examples=150)
@given(_steps, st.lists(st.booleans(), min_size=8, max_size=8))
def test_the_nodes_that_are_open_follow_each_answer_and_each_node(steps: list[Any], looks: list[bool]) -> None:
    """Whether the columns are looked at after each change or after several, the best node is that of all open ones."""
    builder = SnapshotBuilder()
    alive = dict.fromkeys(range(SIZE), True)
    for number in alive:
        builder.set_node(f"n{number}")
    cached, of = class_scores.ClassScores(), plugins(column(3, 1, 4, 1, 5, 9))
    refused, capacity = [False] * SIZE, [1] * SIZE
    cached.store_filter_answer(answer(1, refused, capacity))
    for generation, (kind, what) in enumerate(steps, start=2):
        if kind == "node":
            alive[what] = not alive[what]
            if alive[what]:
                builder.set_node(f"n{what}")
            else:
                builder.remove_node(f"n{what}")
            cached.capacity_generation = generation
        else:
            for slot, no, copies in what:
                refused[slot], capacity[slot] = no, copies
            at = sorted({slot for slot, *_ in what})
            if kind == "patch":
                stored = answer(
                    generation, [refused[s] for s in at], [capacity[s] for s in at], at, cached.capacity_generation
                )
            else:
                stored = answer(generation, refused, capacity)
            cached.store_filter_answer(stored)
        if looks[generation - 2]:
            cached.refresh_open_slots(builder.snap.nodes)
            cached.refresh_ranking(of, 0, TIES)
    cached.refresh_open_slots(builder.snap.nodes)
    expected = [alive[slot] and not refused[slot] and capacity[slot] > 0 for slot in range(SIZE)]
    assert (cached.open.tolist(), cached.open_count) == (expected, sum(expected))
    fresh = ranking.Ranking(of, 0, SIZE)
    fresh.update(np.arange(SIZE), np.array(expected), TIES)
    found = cached.refresh_ranking(of, 0, TIES)
    for count in (1, 2, SIZE):
        assert found.best_open_slots(count).tolist() == fresh.best_open_slots(count).tolist()


def test_a_patch_holds_only_for_the_answer_that_it_patches() -> None:
    cached = class_scores.ClassScores()
    whole = answer(5, [False, True], [4, 0])
    cached.store_filter_answer(whole)
    for base in (4, 6):
        with pytest.raises(request_errors.StaleRequestError, match=f"capacities.base_generation: {base} is not here"):
            cached.store_filter_answer(answer(7, [False], [9], [0], base))
    cached.store_filter_answer(answer(6, [False], [9], [0], 5))
    assert (cached.capacity[:2].tolist(), cached.capacity_generation) == ([9, 0], 6)
    # It is here already, by a call before this one.
    cached.store_filter_answer(answer(6, [False], [1], [0], 3))
    assert cached.capacity[:2].tolist() == [9, 0]


def test_filter_may_know_of_more_nodes_than_are_here_and_of_fewer() -> None:
    builder = SnapshotBuilder()
    for number in range(2):
        builder.set_node(f"n{number}")
    cached = class_scores.ClassScores()
    cached.store_filter_answer(answer(1, [False] * 4, [1] * 4))
    cached.refresh_open_slots(builder.snap.nodes)
    assert cached.open.tolist() == [True, True]
    builder.set_node("n2")
    cached.refresh_open_slots(builder.snap.nodes)
    assert (cached.open.tolist(), cached.open_count) == ([True] * 3, 3)
    cached.store_filter_answer(answer(2, [False], [1], [3], 1))
    cached.refresh_open_slots(builder.snap.nodes)
    assert cached.open.tolist() == [True] * 3
    cached.store_filter_answer(answer(3, [False], [1]))
    cached.refresh_open_slots(builder.snap.nodes)
    assert cached.open.tolist() == [True]


def test_a_ranking_is_brought_up_to_date_as_long_as_plugins_score_as_before() -> None:
    """Another column, weight or common score changes all totals."""
    cached = class_scores.ClassScores()
    cached.open = np.ones(2, dtype=np.bool_)
    one, other = column(1, 2), column(2, 1)
    first = cached.refresh_ranking(plugins(one), 0, TIES)
    assert cached.refresh_ranking(plugins(one), 0, TIES) is first, "each call would rank all nodes"
    assert cached.refresh_ranking(plugins(other), 0, TIES).best_open_slots(1).tolist() == [0]
    assert cached.refresh_ranking(plugins(other), 5, TIES).totals(np.array([0, 1])).tolist() == [7, 6]
    cached.open = np.ones(1, dtype=np.bool_)
    assert cached.refresh_ranking(plugins(one), 0, TIES).best_open_slots(2).tolist() == [0]


def test_columns_that_are_made_anew_keep_what_filter_answered_last() -> None:
    """But for an answer that is here and as new; and how many copies a node got."""
    before, after = class_scores.ClassScores(copies_on_a_node=4), class_scores.ClassScores(copies_on_a_node=2)
    before.store_filter_answer(answer(5, [False, True], [4, 0]))
    after.take_over(before)
    assert (after.capacity.tolist(), after.refused.tolist()) == ([4, 0], [False, True])
    assert (after.capacity_generation, after.copies_on_a_node) == (5, 4)
    before.capacity[0] = 1
    assert after.capacity.tolist() == [4, 0], "the dropped columns may change"
    for generation, kept in ((4, [4, 0]), (5, [7, 7]), (6, [7, 7])):
        newer = class_scores.ClassScores(copies_on_a_node=9)
        newer.store_filter_answer(answer(generation, [False, False], [7, 7]))
        newer.take_over(after)
        assert (newer.capacity.tolist(), newer.copies_on_a_node) == (kept, 9)


def test_a_class_of_a_family_begins_with_some_scores_and_shares_others() -> None:
    sibling, made = class_scores.ClassScores(), class_scores.ClassScores()
    sibling.plugins.update(A=column(1, 2), B=column(3, 4), C=column(5, 6))
    made.begin_with(sibling, ["A", "B", "unknown"], {"B"})
    assert list(made.plugins) == ["A", "B"]
    assert made.plugins["B"] is sibling.plugins["B"]
    made.plugins["A"].write_scores(np.array([0]), np.array([9]), 64)
    assert sibling.plugins["A"].raw[:2].tolist() == [1, 2]


def test_memory_counts_capacities_scores_and_the_ranking() -> None:
    cached = class_scores.ClassScores()
    assert cached.nbytes == 0
    cached.store_filter_answer(answer(1, [False] * 4, [1] * 4))
    assert cached.nbytes == cached.capacity.nbytes + cached.refused.nbytes
    of = column(1, 2)
    cached.plugins["A"] = of
    cached.open = np.ones(4, dtype=np.bool_)
    ranked: Any = cached.refresh_ranking(plugins(of), 0, TIES)
    of.copies.write(np.array([0]), np.array([[1, 2]], dtype=np.int64))
    own = cached.capacity.nbytes + cached.refused.nbytes + cached.open.nbytes
    assert cached.nbytes == own + ranked.nbytes + of.raw.nbytes + 16
