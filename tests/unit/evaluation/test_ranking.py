"""The ranking of a class's nodes, brought up to date by patches, is the one that is made anew."""

import numpy as np
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
