"""What nodes cost a group that preempts: the cases of kube-scheduler's CompareVictimSets, RankNodes and Reserve."""

import numpy as np
import pytest

from trireme.scheduling.groups import victim_costs
from trireme.v1 import filter_phase_pb2
from trireme.wire import node_columns
from trireme.wire.phase_answers import FilterAnswer


def victim(
    *slots: int, priority: int = 0, violations: int = 0, group: bool = False, composite: bool = False
) -> filter_phase_pb2.Victim:
    """A victim with a pod on each of the slots."""
    return filter_phase_pb2.Victim(
        pods=[filter_phase_pb2.VictimPod(slot=slot) for slot in slots],
        priority=priority,
        violations=violations,
        of_group=group or composite,
        composite=composite,
    )


def cheapest(costs: victim_costs.VictimCosts, nodes: int, *infeasible: int) -> tuple[list[int], bool]:
    """The slots that are left of so many, and whether they cost nothing."""
    capacity = np.ones(nodes, dtype=np.int32)
    capacity[list(infeasible)] = 0
    columns = node_columns.NodeColumns.complete(1, (), np.zeros(nodes, dtype=np.int16), capacity)
    left, are_free = costs.restrict_to_cheapest(FilterAnswer(columns=columns))
    return np.flatnonzero(left.columns.capacity).tolist(), are_free


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ([victim(0, priority=9)], [victim(1, priority=1, violations=1)]),
        ([victim(0, priority=1)] * 3, [victim(1, priority=2)]),
        ([victim(0, priority=2)], [victim(1, priority=2)] * 2),
        ([victim(0, priority=2)], [victim(1, priority=2), victim(1, priority=1)]),
        ([victim(0, priority=2), victim(0, priority=1)], [victim(1, priority=2), victim(1, 1, priority=1)]),
        ([victim(0, priority=2)] * 2, [victim(1, 1, priority=2, group=True)]),
        ([victim(0, priority=2)], [victim(1, priority=2, group=True)]),
        ([victim(0, 0, priority=2, group=True)], [victim(1, 1, priority=2, composite=True)]),
        ([victim(0, priority=2)] * 2, [victim(1, 1, priority=2)]),
    ],
    ids=[
        "no budget is violated",
        "a lower priority, though more pods",
        "fewer pods of the highest priority",
        "nothing besides",
        "fewer pods of a lower priority",
        "pods, not a group",
        "a pod, not a group of one",
        "a group, not a group of groups",
        "smaller victims",
    ],
)
def test_the_node_with_less_important_victims_is_taken(
    less: list[filter_phase_pb2.Victim], more: list[filter_phase_pb2.Victim]
) -> None:
    assert cheapest(victim_costs.VictimCosts([*more, *less]), 2) == ([0], False)


def test_nodes_that_cost_the_same_are_left_to_their_scores() -> None:
    costs = victim_costs.VictimCosts([victim(0, priority=5), victim(1, priority=5), victim(2, priority=6)])
    assert cheapest(costs, 3) == ([0, 1], False)
    assert cheapest(costs, 3, 0, 1) == ([2], False)
    assert cheapest(costs, 3, 0, 1, 2) == ([], True)


def test_nodes_without_victims_come_first() -> None:
    assert cheapest(victim_costs.VictimCosts([victim(0)]), 3) == ([1, 2], True)


def test_victims_that_go_in_any_case_cost_nothing_anywhere_until_their_member_is_taken_back() -> None:
    """A group is evicted on all of its nodes. A member that condemns nobody pardons nobody."""
    costs = victim_costs.VictimCosts([victim(0, 1, group=True), victim(1), victim(2)])
    assert cheapest(costs, 3) == ([2], False)
    costs.condemn("first", 0)
    assert cheapest(costs, 3) == ([0], True)
    assert cheapest(costs, 3, 0) == ([1, 2], False)
    costs.condemn("second", 0)
    costs.pardon("second")
    assert cheapest(costs, 3) == ([0], True)
    costs.pardon("first")
    assert cheapest(costs, 3) == ([2], False)
