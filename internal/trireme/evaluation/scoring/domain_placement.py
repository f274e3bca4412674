"""Place where a placement changes other nodes too: by domain constraints, or by scores that many nodes share.

As in placement.py, each pod goes where a cycle of its own would have put it. First the nodes are narrowed to those that
a batch can reach (reachable_nodes.py); so what follows costs as much in a large cluster as in a small one. What changes
at a step is brought up to date for those by vector operations: nodes admitted and not, shared scores and their
normalisation over all that is feasible, and the static scores' where the feasible nodes have another maximum.

Also change: internal/trireme/evaluation/scoring/placement.py (how keys are made).

Tests: tests/unit/evaluation/test_placement_domains.py, tests/unit/evaluation/test_batches_exact.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trireme.evaluation.scoring import constraint_admission, copy_scores, placement, reachable_nodes
from trireme.framework import domain_rules
from trireme.plugin_api import scorers
from trireme.snapshot import arrays

# Copies for which a node's own scores are made ahead: few nodes get more in one batch.
_COPIES = 6


@dataclass(frozen=True, slots=True)
class JointPlugin:
    """One plugin whose scores many nodes share."""

    weight: int
    scores: scorers.JointScores


class DomainPlacer:
    """Places a batch of one class where a placement changes other nodes' scores or admission, as by topology domain.

    All nodes take at least one pod by themselves.
    """

    def __init__(
        self,
        scored: placement.ScoredNodes,
        joint: Sequence[JointPlugin],
        constraints: Sequence[domain_rules.DomainConstraint],
        slots: arrays.SlotArray,
        count: int,
    ) -> None:
        """Place at most `count` pods on these nodes, which are at these slots (n,)."""
        # Plugins that score all nodes alike go on doing so, whichever are feasible.
        even: list[placement.ScoredPlugin] = []
        uneven: list[placement.ScoredPlugin] = []
        for each in scored.static:
            if each.raw.size:
                (even if each.even or each.raw.min() == each.raw.max() else uneven).append(each)
        self._even = sum(placement.common_score(int(each.raw[0]), each.normalization, each.weight) for each in even)
        assert scored.own_now is not None
        own_now = scored.own_now
        reach = _reachable_nodes(count, scored.ties, uneven, own_now, joint=joint, constraints=constraints, slots=slots)
        nodes = self._nodes = reach.nodes
        self._stands_for = reach.stands_for
        self._capacity = scored.capacity[nodes]
        self._ties = scored.ties[nodes]
        self._uneven = [
            placement.ScoredPlugin(each.name, each.weight, each.normalization, each.raw[nodes]) for each in uneven
        ]
        self._own = scored.own
        self._own_now = own_now[nodes]
        self._joint = [JointPlugin(each.weight, each.scores.restricted_to(nodes, reach.stands_for)) for each in joint]
        self._constraints = constraint_admission.ConstraintAdmission(constraints, slots[nodes])
        self._copies: dict[int, int] = {}
        self._rows: dict[int, arrays.Int64Array] = {}
        self._maxima: tuple[int, ...] | None = None
        self._static = np.zeros(nodes.shape[0], dtype=np.int64)
        self._feasible = np.zeros(0, dtype=np.bool_)
        self._closed: arrays.BoolArray | None = None  # None: all are feasible
        self._open = 0
        self._keys = np.zeros(0, dtype=np.int64)
        #: What ended `place` before all pods had a node, if not that no more fit.
        self.unknown: placement.UnknownScore | None = None

    def place(self, count: int) -> list[placement.ChosenNode]:
        """The hosts of the next `count` pods, in order; fewer where no more fit, or where a score is not known."""
        choices: list[placement.ChosenNode] = []
        self._refresh_feasible()
        while self._open and len(choices) < count and self.unknown is None:
            keys = self._keys = self._ranking_keys()
            node = int(keys.argmax())
            total = int(keys[node]) >> placement.TIE_BITS if self._open > 1 else 0
            choices.append(placement.ChosenNode(int(self._nodes[node]), total))
            if len(choices) < count:
                self._count_pod_on_node(node, keys, count)
        return choices

    def likely_nodes(self, count: int) -> list[int]:
        """The nodes that pods go to next, most likely, also in domains that others come before now."""
        alone = ((self._static + self._own_now) << placement.TIE_BITS) + self._ties
        open_ones = np.where(self._capacity > 0, alone, -1)
        found = {*placement.highest_keys(self._keys, count), *placement.highest_keys(open_ones, count)}
        return self._nodes[[node for node in sorted(found) if open_ones[node] >= 0]].tolist()

    def _count_pod_on_node(self, node: int, keys: arrays.Int64Array, count: int) -> None:
        """Count one pod on the node, and update the scores and the admission that this changes."""
        self._capacity[node] -= 1
        placed = self._copies[node] = self._copies.get(node, 0) + 1
        if self._own is not None and self._capacity[node] > 0:
            row = self._rows.get(node)
            if row is None or row.shape[0] <= placed:
                row = self._own_scores_by_copies(node, placed, keys, count)
            self._own_now[node] = row[placed]
        for each in self._joint:
            each.scores.place(node)
        if self._capacity[node] > 0 and self._lacks_score(node):
            self.unknown = placement.UnknownScore(int(self._nodes[node]), placed)
            return
        if self._constraints.place(node) or self._capacity[node] == 0:
            self._refresh_feasible()

    def _lacks_score(self, node: int) -> bool:
        """Whether a score of the node, which was placed on last, is not known."""
        if self._own_now[node] == scorers.UNKNOWN:
            return True
        return any(isinstance(each.scores, copy_scores.CopyJointScores) and each.scores.unknown for each in self._joint)

    def _own_scores_by_copies(self, node: int, placed: int, keys: arrays.Int64Array, count: int) -> arrays.Int64Array:
        """Return the node's own scores with one copy, two, …: a few, or `count` where a few were not enough.

        The likeliest nodes get theirs at the same time: asking for many costs little more than asking for one.
        """
        assert self._own is not None
        if placed >= _COPIES:
            row: arrays.Int64Array = self._own(self._nodes[[node]], count)[0]
            self._rows[node] = row
            return row
        # Within a domain the best stays the best: by its own scores alone.
        alone = ((self._static + self._own_now) << placement.TIE_BITS) + self._ties
        likely = {
            node,
            *placement.highest_keys(keys, 2 * count),
            *placement.highest_keys(np.where(keys < 0, -1, alone), 4 * count),
        }
        new = sorted(each for each in likely if each not in self._rows)
        self._rows.update(zip(new, self._own(self._nodes[new], min(count, _COPIES)), strict=True))
        return self._rows[node]

    def _refresh_feasible(self) -> None:
        """Find which nodes have room and are admitted now, and rescore if others are than before."""
        feasible = self._capacity > 0
        feasible &= self._constraints.admitted_nodes()
        if np.array_equal(feasible, self._feasible):
            return
        self._feasible = feasible
        self._open = int(self._stands_for.sum(where=feasible))
        self._closed = None if feasible.all() else ~feasible
        for each in self._joint:
            each.scores.set_feasible(feasible)
        maxima = tuple(int(each.raw.max(where=feasible, initial=0)) for each in self._uneven)
        if maxima != self._maxima:
            self._maxima = maxima
            self._static = self._static_scores(maxima)

    def _static_scores(self, maxima: tuple[int, ...]) -> arrays.Int64Array:
        """The weighted scores of the plugins whose raw scores a placement does not change. Shape: (node,).

        Nodes that are not feasible yet have theirs too.
        """
        total = np.full(self._capacity.shape[0], self._even, dtype=np.int64)
        for each, most in zip(self._uneven, maxima, strict=True):
            total += placement.apply_weight(placement.scale_scores(each.raw, each.normalization, most), each.weight)
        return total

    def _ranking_keys(self) -> arrays.Int64Array:
        """Totals, and places among equals below them; −1 where a node is not feasible. Shape: (node,)."""
        total = self._static + self._own_now
        for each in self._joint:
            total += placement.apply_weight(each.scores.normalized_scores(each.scores.raw_scores()), each.weight)
        keys = (total << placement.TIE_BITS) + self._ties
        if self._closed is not None:
            keys[self._closed] = -1
        return keys


def _reachable_nodes(
    count: int,
    ties: arrays.Int64Array,
    uneven: Sequence[placement.ScoredPlugin],
    own_now: arrays.Int64Array,
    *,
    joint: Sequence[JointPlugin],
    constraints: Sequence[domain_rules.DomainConstraint],
    slots: arrays.SlotArray,
) -> reachable_nodes.ReachableNodes:
    """Return the nodes that so many placements can go to; of nodes that are alike in all columns only the best."""
    alone = own_now
    columns = [column for each in joint for column in each.scores.distinguishing_columns()]
    columns += [column for each in constraints for column in constraint_admission.distinguishing_columns(each, slots)]
    for each in uneven:
        if each.normalization == scorers.Normalization.NONE:
            alone = alone + placement.apply_weight(each.raw, each.weight)
        else:
            columns.append(each.raw)
    return reachable_nodes.find_reachable_nodes((alone << placement.TIE_BITS) + ties, columns, count)
