"""What nodes cost a group that is tried as if its potential victims were gone: the victims on them.

A member goes to a node without victims if there is one, otherwise to one of those with the least important victims.
The victims of its node are condemned then, and cost the next members nothing.

Source: pkg/scheduler/framework/plugins/defaultpreemption RankNodes, Reserve, Unreserve; pkg/scheduler/framework/
preemption/util.go CompareVictimSets.

Tests: tests/unit/scheduling/test_victim_costs.py.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from trireme.scheduling.trial_scope import GroupPlacement
from trireme.v1 import filter_phase_pb2
from trireme.wire.phase_answers import FilterAnswer

# How important victims of one priority are: a pod; a group; a group of groups.
_POD, _GROUP, _COMPOSITE_GROUP = 1, 2, 3

# Sorts nodes by cost: violations of disruption budgets; priorities, the highest first, with their numbers of pods;
# kinds and sizes of the victims. A node without victims costs the empty tuple.
_Cost = tuple[int, tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]] | tuple[()]


class VictimCosts:
    """The victims on each slot that are not condemned yet, and by which member others were."""

    def __init__(self, victims: Sequence[filter_phase_pb2.Victim]) -> None:
        """`victims` are the potential ones, the most important first."""
        self._victims = victims
        self._by_slot: defaultdict[int, list[int]] = defaultdict(list)
        for number, victim in enumerate(victims):
            for slot in {pod.slot for pod in victim.pods}:
                self._by_slot[slot].append(number)
        self._condemned: set[int] = set()
        self._condemned_by: dict[str, list[int]] = {}
        self._costs: dict[int, _Cost] = {}

    def restrict_to_cheapest(self, filtered: FilterAnswer) -> tuple[FilterAnswer, bool]:
        """Filter's answer about those of the feasible nodes that cost least, and whether they cost nothing."""
        columns = filtered.columns
        feasible = np.flatnonzero((columns.index == 0) & (columns.capacity > 0)).tolist()
        least = min((self._cost(slot) for slot in feasible), default=())
        cheapest = tuple(slot for slot in feasible if self._cost(slot) == least)
        return GroupPlacement("", cheapest).restrict_to_nodes(filtered), not least

    def condemn(self, uid: str, slot: int) -> None:
        """A member (`uid`) is assumed at the slot: the victims there go in any case."""
        condemned = self._surviving(slot)
        if condemned:
            self._condemned_by[uid] = condemned
            self._condemned.update(condemned)
            self._forget_costs(condemned)

    def pardon(self, uid: str) -> None:
        """The member is not assumed any more: the victims that it condemned cost again."""
        pardoned = self._condemned_by.pop(uid, [])
        self._condemned.difference_update(pardoned)
        self._forget_costs(pardoned)

    def _surviving(self, slot: int) -> list[int]:
        return [number for number in self._by_slot.get(slot, ()) if number not in self._condemned]

    def _forget_costs(self, victims: Sequence[int]) -> None:
        for number in victims:
            for pod in self._victims[number].pods:
                self._costs.pop(pod.slot, None)

    def _cost(self, slot: int) -> _Cost:
        if slot not in self._costs:
            self._costs[slot] = _cost_of([self._victims[number] for number in self._surviving(slot)])
        return self._costs[slot]


def _cost_of(victims: Sequence[filter_phase_pb2.Victim]) -> _Cost:
    """What these victims cost together, the most important first."""
    if not victims:
        return ()
    pods_by_priority = tuple(
        (priority, sum(len(victim.pods) for victim in equals))
        for priority, equals in groupby(victims, key=lambda victim: victim.priority)
    )
    kinds = tuple((_importance_of_kind(victim), len(victim.pods)) for victim in victims)
    return sum(victim.violations for victim in victims), pods_by_priority, kinds


def _importance_of_kind(victim: filter_phase_pb2.Victim) -> int:
    if not victim.of_group:
        return _POD
    return _COMPOSITE_GROUP if victim.composite else _GROUP
