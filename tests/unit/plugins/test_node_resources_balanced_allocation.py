"""NodeResourcesBalancedAllocation: how evenly a node's resources are used."""

import numpy as np
import pytest
from plugin_answers import Answers
from snapshot_views import one_node, pod_of, requesting

from trireme.plugins.node_resources_balanced_allocation import args as balanced_args
from trireme.plugins.node_resources_balanced_allocation import score as node_resources_balanced_allocation
from trireme.plugins.node_resources_fit import args as fit_args
from trireme.plugins.node_resources_fit import score as fit_score

BALANCED = node_resources_balanced_allocation.NodeResourcesBalancedAllocation(balanced_args.Args())


@pytest.mark.parametrize(
    ("requests", "score"),
    [
        pytest.param({"cpu": "1", "memory": "2Gi"}, 75, id="stays-balanced"),
        pytest.param({"cpu": "2"}, 50 + (50 - 25) // 2, id="less-balanced"),
        pytest.param({"example.com/gpu": "1"}, None, id="asks-for-none-of-it"),
    ],
)
def test_balance_is_scored_by_what_the_pod_changes(requests: dict[str, str], score: int | None) -> None:
    """Else a node that is lopsided anyway is held against every pod."""
    builder = one_node({"cpu": "4", "memory": "8Gi", "pods": "9"}, pod_of(requesting(cpu="1", memory="2Gi")))
    scores = Answers(builder, BALANCED, pod_of(requesting(**requests))).scores()
    assert scores == (None if score is None else {"n0": score})


def test_two_resources_are_balanced_as_any_number_of_them() -> None:
    """A third resource that does not count on any node changes no score, but the formula that is used."""
    random = np.random.default_rng(7)
    fractions, counted = random.random((2, 500, 3)), random.random((2, 500, 3)) < 0.8
    alone = node_resources_balanced_allocation._balance_score(fractions, counted)
    uncounted = np.concatenate([counted, np.zeros((1, 500, 3), dtype=bool)])
    of_three = node_resources_balanced_allocation._balance_score(np.concatenate([fractions, fractions[:1]]), uncounted)
    assert alone.tolist() == of_three.tolist()


LEAST_ALLOCATED = fit_score.NodeResourcesFitScore(fit_args.Args("LeastAllocated", (("cpu", 1), ("memory", 1))))


def test_balance_sees_pod_level_requests_and_the_fit_score_does_not() -> None:
    """Else one of the two scores a pod with pod-level requests by what the other one counts."""
    builder = one_node({"cpu": "4", "memory": "8Gi", "pods": "9"})
    pod = pod_of({**requesting(cpu="1", memory="2Gi"), "resources": {"requests": {"cpu": "4"}}})
    assert Answers(builder, BALANCED, pod).scores() == {"n0": 50 + (50 + 62 - 100) // 2}
    assert Answers(builder, LEAST_ALLOCATED, pod).scores() == {"n0": 75}
