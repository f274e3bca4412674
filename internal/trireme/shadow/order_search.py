"""Whether a choice that is not the best on the state of its binding is the best on a state that is near.

A scheduler decides on the state that it has seen, its own decisions included, and a watch shows bindings when they are
written, which is later and in another order. So a choice is explained by the order if it is the best, or equal to the
best, on one of these states:

1. the state before its binding, without the last n bindings, for n = 1, 2, 4, … up to all since the pod was created:
   those may have been decided later;
2. the state just before a change of a node or another object since the pod was created, which the scheduler may not
   have seen yet;
3. the state before its binding with some bindings of other pods moved over the moment of the decision: bindings to the
   chosen node since the pod was created removed (decided later), bindings within GRACE_SECONDS afterwards to nodes that
   score higher added (decided before), and pods that left such a node later than GRACE_SECONDS before the pod was
   created put back (not seen to leave).

Nothing else is assumed: a choice that is best on none of these states is different.

Tests: tests/unit/shadow/test_decision_comparison.py.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from trireme.insight import explanation
from trireme.shadow import judgement
from trireme.snapshot import snapshot

NO_ROWS = np.zeros(0, dtype=np.intp)
NO_PODS = np.zeros(0, dtype=np.int32)

# Bindings so long after one may have been decided before it; departures may be seen so late.
GRACE_SECONDS = 5.0
# How often bindings are moved in the third kind of state, at most.
_MOVES = 6


@dataclass(frozen=True, slots=True)
class Move:
    """A pod that came to a node, or left it. Times in seconds of the shadow's clock."""

    at: float
    uid: str
    pod_class: int
    node: str


@dataclass(frozen=True, slots=True)
class EarlierState:
    """The state before a change of a node or an object."""

    at: float
    snap: snapshot.Snapshot


@dataclass(slots=True)
class OpenDecision:
    """A choice that differs on the state of its binding, which waits for the bindings after it.

    `snap` is a fork of the state before the binding. `before` are the bindings since the pod was created, `left` the
    departures since GRACE_SECONDS before that, oldest first; `after` are the bindings that followed, of pods that
    existed at the binding.
    """

    profile: str
    pod_class: int
    created: float
    bound: float
    found: judgement.Judgement
    snap: snapshot.Snapshot
    before: Sequence[Move]
    left: Sequence[Move]
    earlier: Sequence[EarlierState]
    after: list[Move] = field(default_factory=list)


#: Evaluates a class of a profile on a snapshot.
Evaluate = Callable[[snapshot.Snapshot, str, int], Awaitable[explanation.Explanation]]


async def explain_by_order(decision: OpenDecision, evaluate: Evaluate) -> str:
    """The state on which the choice is the best, for people; empty: there is none of those above."""
    search = _Search(decision, evaluate)
    return await search.without_last_bindings() or await search.before_changes() or await search.with_moves()


class _Search:
    """The search for one decision."""

    def __init__(self, decision: OpenDecision, evaluate: Evaluate) -> None:
        self._decision = decision
        self._evaluate = evaluate

    async def without_last_bindings(self) -> str:
        """States of the first kind."""
        before = self._decision.before
        count = 1
        while before and count < 2 * len(before):
            removed = before[-min(count, len(before)) :]
            if await self._is_best(self._state(removed, ())):
                return f"best without the last {len(removed)} bindings"
            count *= 2
        return ""

    async def before_changes(self) -> str:
        """States of the second kind."""
        for state in self._decision.earlier:
            if self._decision.pod_class in state.snap.classes and await self._is_best(state.snap):
                return f"best on the state {self._decision.bound - state.at:.1f} s before, before an object changed"
        return ""

    async def with_moves(self) -> str:
        """States of the third kind: more bindings are moved as long as that leaves nodes that score higher."""
        chosen = self._decision.found.chosen
        on_chosen = [each for each in self._decision.before if each.node == chosen]
        added: list[Move] = []
        removed: list[Move] = []
        for _ in range(_MOVES):
            found, slot = await self._found(self._state(removed, added))
            if _is_best(found, slot):
                return f"best with {len(added)} bindings or departures seen otherwise, {len(removed)} decided later"
            names = self._decision.snap.nodes.names
            better = {names[each] for each in judgement.better_slots(found, slot)}
            more = [
                each
                for each in (*self._decision.after, *self._decision.left)
                if each.node in better and each not in added
            ]
            if not more and len(removed) == len(on_chosen):
                return ""
            added += more
            removed = on_chosen[len(on_chosen) - min(len(removed) + 1, len(on_chosen)) :]
        return ""

    def _state(self, removed: Sequence[Move], added: Sequence[Move]) -> snapshot.Snapshot:
        """The state before the binding without some pods, and with others."""
        snap = self._decision.snap
        slots = snap.nodes.slot_of_name
        rows = [
            row
            for each in removed
            if each.node in slots and (row := snap.pods.find(each.uid, slots[each.node])) is not None
        ]
        placed = [each for each in added if each.node in slots and each.pod_class in snap.classes]
        return snap.fork(
            np.array(rows, dtype=np.intp),
            np.array([each.pod_class for each in placed], dtype=np.int32),
            np.array([slots[each.node] for each in placed], dtype=np.int32),
        )

    async def _found(self, snap: snapshot.Snapshot) -> tuple[explanation.Explanation, int]:
        """The evaluation of the pod's class on a state, and the slot of the chosen node there; -1: there is none."""
        found = await self._evaluate(snap, self._decision.profile, self._decision.pod_class)
        return found, snap.nodes.slot_of_name.get(self._decision.found.chosen, -1)

    async def _is_best(self, snap: snapshot.Snapshot) -> bool:
        """Whether no node scores higher than the chosen one on the state, which takes the pod."""
        return _is_best(*await self._found(snap))


def _is_best(found: explanation.Explanation, slot: int) -> bool:
    """Whether the slot is feasible and none scores higher."""
    return bool(np.any(found.feasible == slot)) and not judgement.better_slots(found, slot)
