"""Raw scores of nodes with copies of the pod on them, of plugins that have to be called for that.

In-tree plugins compute such scores when they are needed. Those of a service are found out ahead, for the nodes that a
batch is likely to go to; where one is missing, the batch ends before the pod that needs it (`placement.UnknownScore`),
is found out, and the batch is placed again.

Also change: internal/trireme/plugins/inter_pod_affinity/joint_scores.py,
internal/trireme/plugins/pod_topology_spread/joint_scores.py, internal/trireme/plugin_api/scorers.py (the joint scores).

Tests: tests/unit/evaluation/test_copies.py, tests/unit/evaluation/test_batches_with_remote_scores.py.
"""

from collections.abc import Callable

import numpy as np

from trireme.evaluation.scoring import placement
from trireme.plugin_api import scorers
from trireme.snapshot import arrays


class CopyScores:
    """One plugin's raw scores of one class with one copy on the node, with two, …, for the slots that it was asked."""

    def __init__(self) -> None:
        self._rows: dict[int, arrays.Int64Array] = {}

    @property
    def nbytes(self) -> int:
        """Memory of the scores, in bytes."""
        return sum(row.nbytes for row in self._rows.values())

    def known_copies(self, slot: int) -> int:
        """With how many copies on the node its score is known."""
        row = self._rows.get(slot)
        return 0 if row is None else row.shape[0]

    def slots(self) -> list[int]:
        """The slots with known answers, ascending."""
        return sorted(self._rows)

    def row(self, slot: int) -> arrays.Int64Array:
        """The scores of the slot with one copy, with two, …, as far as they are known. Shape: (copy,)."""
        row = self._rows.get(slot)
        return np.zeros(0, dtype=np.int64) if row is None else row

    def write(self, slots: arrays.SlotArray, scores: arrays.Int64Array) -> None:
        """Store what a plugin answered; rows end where they are UNKNOWN. Shapes: (slot,), (slot, copy)."""
        for slot, row in zip(slots.tolist(), scores, strict=True):
            unknown = np.flatnonzero(row == scorers.UNKNOWN)
            known = row[: unknown[0]] if unknown.size else row
            if known.shape[0] > self.known_copies(slot):
                self._rows[slot] = known.copy()

    def drop(self, slots: arrays.SlotArray) -> None:
        """Forget what is known of these slots: something has changed there."""
        if self._rows:
            for slot in slots.tolist():
                self._rows.pop(slot, None)

    def table(self, slots: arrays.SlotArray, raw: arrays.Int64Array, copies: int) -> arrays.Int64Array:
        """Raw scores for the first copy, which are `raw`, the second, …; UNKNOWN where nobody knows them.

        Shapes: (slot,), (slot,), result (slot, copy).
        """
        out = np.full((slots.shape[0], copies), scorers.UNKNOWN, dtype=np.int64)
        out[:, 0] = raw
        for at, slot in enumerate(slots.tolist()):
            row = self._rows.get(slot)
            if row is not None:
                known = min(row.shape[0], copies - 1)
                out[at, 1 : known + 1] = row[:known]
        return out


class CopyJointScores:
    """A plugin's scores of some nodes that are normalised by the highest one: a placement may change those of all.

    Implements JointScores. `unknown`: the score of the node that was placed on last is not known any more.
    """

    def __init__(
        self,
        raw: arrays.Int64Array,
        normalization: scorers.Normalization,
        score_with_copies: Callable[[int, int], int],
    ) -> None:
        """`score_with_copies` returns the raw score of a node (node, copies on it), or UNKNOWN. Shape: raw (node,)."""
        self._raw = raw.copy()
        self._normalization = normalization
        self._score_with_copies = score_with_copies
        self._copies: dict[int, int] = {}
        self._feasible: arrays.BoolArray | None = None
        self.unknown = False

    def distinguishing_columns(self) -> list[arrays.Int64Array]:
        """The raw scores: where they are equal, so are the normalised ones."""
        return [self._raw]

    def restricted_to(self, nodes: arrays.SlotArray, stands_for: arrays.Int64Array) -> "CopyJointScores":
        """The scores of these nodes alone."""
        numbers = nodes.tolist()
        return CopyJointScores(
            self._raw[nodes],
            self._normalization,
            lambda node, copies: self._score_with_copies(numbers[node], copies),
        )

    def set_feasible(self, feasible: arrays.BoolArray) -> None:
        """Set which nodes take more pods now."""
        self._feasible = None if feasible.all() else feasible.copy()

    def raw_scores(self) -> arrays.Int64Array:
        """The raw scores now."""
        return self._raw

    def normalized_scores(self, raw: arrays.Int64Array) -> arrays.Int64Array:
        """The scores of 0 to 100 by the highest raw score of the feasible nodes."""
        feasible = raw if self._feasible is None else raw[self._feasible]
        return placement.scale_scores(raw, self._normalization, max(int(feasible.max(initial=0)), 0))

    def place(self, node: int) -> None:
        """Count one more pod of the class on this node."""
        copies = self._copies[node] = self._copies.get(node, 0) + 1
        score = self._score_with_copies(node, copies)
        self.unknown = score == scorers.UNKNOWN
        if not self.unknown:
            self._raw[node] = score
