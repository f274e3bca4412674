"""The ranking of a class's nodes, brought up to date by patches, is the one that is made anew."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trireme.evaluation.scoring import class_scores, placement, ranking, score_column
from trireme.plugin_api import scorers

SIZE = 200
TIES = placement.tie_order(np.arange(SIZE))
PATCH = st.lists(
    st.tuples(st.integers(0, SIZE - 1), st.integers(0, 3), st.integers(0, 100), st.booleans()), min_size=1, max_size=20
)


@given(st.lists(PATCH, max_size=8), st.integers(1, 40), st.sampled_from(list(scorers.Normalization)[:3]))
def test_the_best_nodes_are_those_of_all_totals(
    patches: list[list[tuple[int, int, int, bool]]], count: int, normalization: scorers.Normalization
) -> None:
    """A total that is not brought up to date, or a maximum that is, places pods elsewhere than one-by-one cycles."""
    raw, own = score_column.ScoreColumn(True, 0), score_column.ScoreColumn(True, 0)
    cached = class_scores.ClassScores()
    cached.open = np.ones(SIZE, dtype=np.bool_)
    every = np.arange(SIZE)
    raw.write_scores(every, every % 2, SIZE)
    own.write_scores(every, every % 7, SIZE)
    plugins = [
        ranking.RankedPlugin(raw, 3, normalization, own=False),
        ranking.RankedPlugin(own, 1, scorers.Normalization.NONE, own=True),
    ]
    ranked = cached.refresh_ranking(plugins, 0, TIES)
    for patch in patches:
        for slot, preferred, fullness, opened in patch:
            raw.write_scores(np.array([slot]), np.array([preferred]), SIZE)
            own.write_scores(np.array([slot]), np.array([fullness]), SIZE)
            cached.open[slot] = opened
            cached.mark_unranked(np.array([slot]))
        ranked = cached.refresh_ranking(plugins, 0, TIES)
    feasible = np.flatnonzero(cached.open)
    totals = placement.normalize_scores(raw.raw[feasible], normalization) * 3 + own.raw[feasible]
    keys = (totals << placement.TIE_BITS) + TIES[feasible]
    assert ranked.best_open_slots(count).tolist() == sorted(feasible[np.argsort(-keys)[:count]].tolist())


@pytest.mark.parametrize("count", [1, 3])
def test_where_no_node_is_open_none_is_the_best(count: int) -> None:
    cached, column = class_scores.ClassScores(), score_column.ScoreColumn(True, 0)
    plugins = [ranking.RankedPlugin(column, 1, scorers.Normalization.NONE, own=False)]
    assert cached.refresh_ranking(plugins, 0, TIES).best_open_slots(count).tolist() == []
    column.write_scores(np.arange(3), np.array([0, 5, 1]), 3)
    cached.open = np.array([False, True, False])
    assert cached.refresh_ranking(plugins, 0, TIES).best_open_slots(count).tolist() == [1]


def test_an_answer_about_nodes_that_came_since_is_stored_beside_the_one_before() -> None:
    """Filter's patch may be about slots beyond those of its last answer."""
    cached = class_scores.ClassScores()
    cached.store_capacities(None, 2, np.array([False, True]), np.array([4, 0], dtype=np.int32), 5)
    cached.store_capacities(np.array([1, 3]), 4, np.array([False, True]), np.array([7, 2], dtype=np.int32), 6)
    assert (cached.capacity.tolist(), cached.refused.tolist()) == ([4, 7, 0, 2], [False, False, False, True])
    assert cached.capacity_generation == 6


def test_memory_counts_the_totals_and_what_they_are_made_of() -> None:
    """For each slot, in blocks of 64: two sums, a key, and raw scores that are normalised by the highest."""
    plugins = [
        ranking.RankedPlugin(score_column.ScoreColumn(True, 0), 1, normalization, own=False)
        for normalization in (scorers.Normalization.MAX, scorers.Normalization.NONE)
    ]
    assert ranking.Ranking(plugins, 0, 65).nbytes == (3 + 1) * 128 * 8 + 2 * 8
