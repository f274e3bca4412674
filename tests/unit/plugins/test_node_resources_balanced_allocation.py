"""NodeResourcesBalancedAllocation: how evenly a node's resources are used."""

import numpy as np
import pytest

from tests.helpers.plugin_answers import Answers
from tests.helpers.snapshot_views import cluster_of, one_node, pod_of, requesting
from trireme.plugins.node_resources_balanced_allocation import args as balanced_args
from trireme.plugins.node_resources_balanced_allocation import score as node_resources_balanced_allocation
from trireme.plugins.node_resources_fit import args as fit_args
from trireme.plugins.node_resources_fit import score as fit_score

BALANCED = node_resources_balanced_allocation.make_scorer(balanced_args.Args())


@pytest.mark.parametrize(
    ("requests", "score"),
    [
        pytest.param({"cpu": "1", "memory": "2Gi"}, 75, id="stays-balanced"),
        pytest.param({"cpu": "2"}, 50 + (50 - 25) // 2, id="less-balanced"),
        pytest.param({"example.com/gpu": "1"}, None, id="asks-for-none-of-it"),
    ],
)
def test_balance_is_scored_by_what_the_pod_changes(requests: dict[str, str], score: int | None) -> None:
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


def test_scores_of_all_nodes_follow_pods_and_nodes_as_those_of_each_alone_do() -> None:
    """What all nodes are without the pod is remembered for the next class: an old one would favour full nodes."""
    random = np.random.default_rng(7)
    builder = cluster_of(**{f"n{number}": {} for number in range(8)})
    builder.add_class(1, pod_of(requesting(cpu="500m", memory="1Gi")))
    builder.add_class(2, pod_of(requesting(cpu="1")))
    rows: list[int] = []
    for step in range(30):
        names = [f"n{number}" for number in np.flatnonzero(random.random(8) < 0.3).tolist()]
        rows += builder.place(1 + step % 2, *names)
        if len(rows) > 6:
            builder.remove(*[rows.pop() for _ in range(3)])
        if step % 5 == 4:
            name, cpu = f"n{step % 8}", str(1 + step % 7)
            builder.set_node(name, allocatable={"cpu": cpu, "memory": "8Gi", "pods": "9"})
        if step == 20:
            builder.remove_node("n3")
            del builder.objects["n3"]
        for pod_class in (builder.snap.classes[1], builder.snap.classes[2]):
            state, slots = BALANCED.pre_score(pod_class, builder.snap), builder.snap.nodes.live_slots()
            alone = [BALANCED.score(pod_class, builder.snap, state, slots[at : at + 1])[0] for at in range(slots.size)]
            assert BALANCED.score(pod_class, builder.snap, state, slots).tolist() == alone


LEAST_ALLOCATED = fit_score.make_scorer(fit_args.Args("LeastAllocated", (("cpu", 1), ("memory", 1))))


def test_both_scores_see_pod_level_requests() -> None:
    builder = one_node({"cpu": "4", "memory": "8Gi", "pods": "9"})
    pod = pod_of({**requesting(cpu="1", memory="2Gi"), "resources": {"requests": {"cpu": "4"}}})
    assert Answers(builder, BALANCED, pod).scores() == {"n0": 50 + (50 + 62 - 100) // 2}
    assert Answers(builder, LEAST_ALLOCATED, pod).scores() == {"n0": 75 // 2}
