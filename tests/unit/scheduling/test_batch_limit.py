"""How many pods one batch has."""

import itertools
from collections.abc import Callable

import pytest

from trireme.scheduling.batch_limit import GROWTH_TARGET, MAX_PREEMPTORS, MAX_SPECULATIVE, BatchLimit
from trireme.wire.phase_answers import FilterAnswer


def _answer(max_batch: int) -> FilterAnswer:
    return FilterAnswer(max_batch=max_batch)


@pytest.mark.parametrize(("max_pods", "target"), [(100, GROWTH_TARGET), (GROWTH_TARGET, GROWTH_TARGET), (4, 4), (1, 1)])
def test_a_batch_grows_to_no_more_than_the_queue_hands_out(max_pods: int, target: int) -> None:
    """If this fails, pods wait for others that cannot share their batch."""
    assert BatchLimit(max_pods).growth_target == target


@pytest.mark.parametrize(
    ("extended", "pods", "count"),
    [
        pytest.param(lambda class_id: False, 7, 7, id="the-whole-batch"),
        pytest.param(lambda class_id: True, 7, 1, id="an-extender-answers-about-one-pod"),
        pytest.param(lambda class_id: True, 2, 1, id="an-extender-and-two-pods"),
        pytest.param(lambda class_id: class_id == 6, 7, 7, id="an-extender-of-another-class"),
    ],
)
def test_an_extender_has_pods_filtered_one_by_one(extended: Callable[[int], bool], pods: int, count: int) -> None:
    """If this fails, an extender's response about one pod is used for others."""
    assert BatchLimit(100, extended).for_filter(5, pods) == count


@pytest.mark.parametrize(("declared", "pods", "count"), [(0, 7, 7), (1, 7, 1), (5, 7, 5), (9, 7, 7)])
def test_no_more_are_placed_than_the_answer_holds_for(declared: int, pods: int, count: int) -> None:
    """If this fails, two pods get the one volume that only one of them may have."""
    assert BatchLimit(100).for_place(_answer(declared), pods) == count


def test_speculation_doubles_while_it_is_used() -> None:
    """If this fails, each lone pod of many costs two calls, or a class that ends has ever more placed in vain."""
    limit = BatchLimit(100)
    sizes = list(itertools.accumulate(range(9), lambda used, _: limit.for_speculation(used), initial=0))[1:]
    assert sizes == [1, 2, 4, 8, 16, 32, 64, 64, 64]
    assert sizes[-1] == MAX_SPECULATIVE


@pytest.mark.parametrize(("asynchronous", "count"), [(True, MAX_PREEMPTORS), (False, 1)])
def test_a_pod_with_terminating_victims_preempts_alone(asynchronous: bool, count: int) -> None:
    """If this fails, victims are chosen beside others that may still be there."""
    assert BatchLimit(100).for_post_filter(asynchronous) == count
