"""Scores of nodes with copies of a pod on them: what is stored of a plugin's answers, and which are looked for."""

import itertools
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from trireme.evaluation.scoring import class_scores, copy_scores, copy_search, placement
from trireme.plugin_api import scorers
from trireme.plugin_api.scorers import UNKNOWN
from trireme.snapshot import arrays


def ints(*numbers: Any) -> arrays.Int64Array:
    return np.array(numbers, dtype=np.int64)


def slots(*numbers: int) -> arrays.SlotArray:
    return np.array(numbers, dtype=np.intp)


def test_rows_end_where_a_plugin_answers_nothing_and_never_become_shorter() -> None:
    found = copy_scores.CopyScores()
    found.write(slots(4, 2, 7), ints([9, 8, 7], [5, UNKNOWN, 3], [UNKNOWN, 1, 1]))
    assert found.slots() == [2, 4]
    assert [found.known_copies(slot) for slot in (2, 4, 7, 9)] == [1, 3, 0, 0]
    assert found.nbytes == 4 * 8
    found.write(slots(4, 2), ints([1, 1], [6, 5]))
    assert found.row(4).tolist() == [9, 8, 7]
    assert found.row(2).tolist() == [6, 5]
    assert found.row(7).tolist() == []
    # The first copy has the plain score; what is known of later ones follows as far as so many are wanted.
    table = found.table(slots(2, 4, 7), ints(50, 60, 70), 3)
    assert table.tolist() == [[50, 6, 5], [60, 9, 8], [70, UNKNOWN, UNKNOWN]]
    assert found.table(slots(4), ints(60), 5).tolist() == [[60, 9, 8, 7, UNKNOWN]]
    found.drop(slots(7, 4))
    assert found.slots() == [2]


def joint(*raw: int, known: dict[tuple[int, int], int]) -> copy_scores.CopyJointScores:
    return copy_scores.CopyJointScores(
        ints(*raw), scorers.Normalization.MAX, lambda node, copies: known.get((node, copies), UNKNOWN)
    )


def test_scores_are_normalised_by_the_highest_of_the_nodes_that_take_pods() -> None:
    scores = joint(10, 40, 20, known={})
    assert scores.normalized_scores(scores.raw_scores()).tolist() == [25, 100, 50]
    scores.set_feasible(np.array([True, False, True]))
    assert scores.normalized_scores(scores.raw_scores()).tolist() == [50, 200, 100]
    scores.set_feasible(np.array([True, True, True]))
    assert scores.normalized_scores(scores.raw_scores()).tolist() == [25, 100, 50]


def test_each_placement_gives_its_node_the_score_with_a_copy_more() -> None:
    """Until that is not known: the score stays, and the batch ends."""
    raw = ints(10, 40, 20)
    scores = copy_scores.CopyJointScores(
        raw, scorers.Normalization.NONE, lambda node, copies: {(1, 1): 30, (1, 2): 5}.get((node, copies), UNKNOWN)
    )
    assert not scores.unknown
    for expected in (30, 5):
        scores.place(1)
        assert (scores.raw_scores().tolist(), scores.unknown) == ([10, expected, 20], False)
    scores.place(1)
    assert (scores.raw_scores().tolist(), scores.unknown) == ([10, 5, 20], True)
    assert raw.tolist() == [10, 40, 20], "the column is another class's too"


def test_of_fewer_nodes_each_has_its_own_scores() -> None:
    scores = joint(10, 40, 20, known={(2, 1): 7}).restricted_to(slots(0, 2), ints(1, 1))
    assert scores.distinguishing_columns()[0].tolist() == scores.raw_scores().tolist() == [10, 20]
    scores.place(1)
    assert (scores.raw_scores().tolist(), scores.unknown) == ([10, 7], False)
    scores.place(0)
    assert scores.unknown


class Evaluator:
    """Finds what it is called for, or nothing; notes the calls."""

    def __init__(self, *, finds: bool = True) -> None:
        self.calls: list[tuple[list[int], int]] = []
        self._finds = finds

    async def find_copies(self, profile: object, pod_class: object, columns: object, at: Any, copies: int) -> None:
        self.calls.append((at.tolist(), copies))

    def knows_copies(self, profile: object, columns: object, slot: int, copies: int) -> bool:
        return self._finds


def placer(node: int, copies: int, likely: Sequence[int] = ()) -> Any:
    """One that lacks the score of this node with so many copies."""
    return SimpleNamespace(
        unknown=placement.UnknownScore(node, copies),
        likely_nodes=lambda count: list(itertools.islice(likely, count)),
    )


SLOTS = slots(*range(100, 200))


def search(evaluator: Any, count: int) -> copy_search.CopySearch:
    unused: Any = None
    return copy_search.CopySearch(evaluator, "p", unused, count)


@pytest.mark.parametrize(
    ("count", "copies", "before", "expected"),
    [
        pytest.param(32, 1, 1, 1, id="the first"),
        pytest.param(32, 2, 1, 4, id="twice as many as one that needs more"),
        pytest.param(32, 1, 5, 5, id="as many as one node got of the batch before"),
        pytest.param(32, 4, 5, 8, id="more than that"),
        pytest.param(6, 4, 1, 6, id="no more than there are pods"),
    ],
)
async def test_scores_are_found_out_for_as_many_copies_as_are_likely(
    count: int, copies: int, before: int, expected: int
) -> None:
    evaluator, columns = Evaluator(), class_scores.ClassScores(copies_on_a_node=before)
    assert await search(evaluator, count).find(columns, placer(3, copies), SLOTS, 0)
    assert evaluator.calls == [([103], expected)]


@pytest.mark.parametrize(
    ("count", "before", "nodes"),
    [
        pytest.param(64, 1, 64, id="a node for each pod"),
        pytest.param(10, 8, 5, id="four scores for each pod"),
        pytest.param(4, 4, 4, id="and 32 at least"),
        pytest.param(2, 1, 2, id="of no more nodes than there are pods"),
    ],
)
async def test_likely_nodes_are_asked_about_at_the_same_time(count: int, before: int, nodes: int) -> None:
    evaluator, columns = Evaluator(), class_scores.ClassScores(copies_on_a_node=before)
    await search(evaluator, count).find(columns, placer(99, 1, range(80)), SLOTS, 0)
    assert [at for at, _ in evaluator.calls] == [[*range(100, 100 + nodes), 199]]


@pytest.mark.parametrize("placed", [0, 1, 5])
async def test_a_batch_that_stops_at_the_same_pod_again_and_again_is_cut_short(placed: int) -> None:
    """Its node changes all the time; one that gets further goes on."""
    evaluator, columns = Evaluator(), class_scores.ClassScores()
    searching = search(evaluator, 32)
    found = [await searching.find(columns, placer(3, 1), SLOTS, number) for number in range(1, 5)]
    assert found == [True] * 4
    stopping = search(evaluator, 32)
    if placed:
        assert await stopping.find(columns, placer(3, 1), SLOTS, placed)
    found = [await stopping.find(columns, placer(3, 1), SLOTS, placed) for _ in range(3)]
    assert found == [True, True, False]


async def test_a_score_that_is_not_found_ends_the_search() -> None:
    assert not await search(Evaluator(finds=False), 32).find(class_scores.ClassScores(), placer(3, 1), SLOTS, 4)


@pytest.mark.parametrize(("chosen", "expected"), [((4, 4, 5, 4), 3), ((4, 5), 1), ((4,), 1), ((), 1)])
def test_the_next_batch_is_likely_to_need_as_many_copies_as_this_one(chosen: Sequence[int], expected: int) -> None:
    columns = class_scores.ClassScores(copies_on_a_node=9)
    copy_search.remember(columns, chosen)
    assert columns.copies_on_a_node == expected
