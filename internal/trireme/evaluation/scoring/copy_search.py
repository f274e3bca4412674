"""Finds out the scores with copies on the node that a batch turns out to need, a few calls for a batch.

Placing a batch says which score it lacks. That one is found out together with those that are likely to be next: of the
nodes that are best now, with as many copies as one node got of the class's batch before.

Tests: tests/unit/evaluation/test_copies.py, tests/unit/evaluation/test_batches_with_remote_scores.py.
"""

import collections
from collections.abc import Sequence

import numpy as np

from trireme.evaluation.scoring import class_scores, placers, score_evaluator
from trireme.snapshot import arrays, classes

# How many scores one call may be about beyond those needed, for each pod of the batch, and at least.
_SCORES_PER_POD = 4
_LEAST_SCORES = 32

# So often a batch may stop at the same pod, though the score was found: the node changes all the time.
_STALLS = 3


class CopySearch:
    """The search for the scores that one batch needs."""

    def __init__(
        self, evaluator: score_evaluator.ScoreEvaluator, profile: str, pod_class: classes.PodClass, count: int
    ) -> None:
        """`count` pods are to be placed."""
        self._evaluator = evaluator
        self._profile = profile
        self._class = pod_class
        self._count = count
        self._placed = 0
        self._stalls = 0

    async def find(
        self, columns: class_scores.ClassScores, placer: placers.AnyPlacer, slots: arrays.SlotArray, placed: int
    ) -> bool:
        """Find out what ended the placing by these columns after `placed` pods; False: it stays unknown.

        `slots` are those of the placer's nodes. Raises: OutOfStepError where the snapshot was replaced meanwhile.
        """
        unknown = placer.unknown
        assert unknown is not None
        self._stalls = self._stalls + 1 if placed <= self._placed else 0
        self._placed = max(self._placed, placed)
        if self._stalls >= _STALLS:
            return False
        # Who needs many copies on one node needs ever more: twice as many each time.
        copies = max(2 * unknown.copies if unknown.copies > 1 else 1, columns.copies_on_a_node)
        copies = min(copies, self._count)
        most = max(_SCORES_PER_POD * self._count, _LEAST_SCORES) // copies
        likely = placer.likely_nodes(max(min(most, self._count), 1))
        wanted = slots[np.array([unknown.node_number, *likely], dtype=np.intp)]
        await self._evaluator.find_copies(self._profile, self._class, columns, np.unique(wanted), copies)
        return self._evaluator.knows_copies(self._profile, columns, int(slots[unknown.node_number]), unknown.copies)


def remember(columns: class_scores.ClassScores, chosen: Sequence[int]) -> None:
    """The batch went to these slots: the next one of the class will need about as many copies of a node."""
    columns.copies_on_a_node = max(collections.Counter(chosen).values(), default=1)
