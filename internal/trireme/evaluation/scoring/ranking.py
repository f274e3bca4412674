"""A class's nodes by their totals, cached between calls: what a call changes costs as much as it changes.

Raw scores and capacities come by patches, and so the totals are made again for the slots that a patch is about. Scores
that are normalised by the highest raw score are made again for all when that one changes: for each such plugin it is
counted how many nodes hold it. The best are found by looking at blocks of slots, each with its best key: among the `n`
blocks with the best keys are the `n` best nodes.

Also change: internal/trireme/evaluation/scoring/placement.py (how keys are made).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trireme.evaluation.scoring import placement, score_column
from trireme.plugin_api import scorers
from trireme.snapshot import arrays

_BLOCK_BITS = 6
_BLOCK = 1 << _BLOCK_BITS
_WITHIN = np.arange(_BLOCK)

#: Normalised by the highest raw score.
NORMALIZED = (scorers.Normalization.MAX, scorers.Normalization.MAX_REVERSED)
# Lower than every raw score.
_NONE = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class RankedPlugin:
    """A plugin whose scores are ranked; `own`: a placement changes the score of the node that it goes to."""

    column: score_column.ScoreColumn
    weight: int
    normalization: scorers.Normalization
    own: bool


class _MaximumRawScore:
    """The highest raw score of one plugin over the open slots, or 0, and how many slots hold it. Shape: raw (slot,)."""

    __slots__ = ("holders", "most", "raw")

    def __init__(self, size: int) -> None:
        self.raw = np.full(size, _NONE, dtype=np.int64)  # of open slots; the lowest number where one is not
        self.most = 0
        self.holders = 0

    def update(self, slots: arrays.SlotArray, raw: arrays.Int64Array) -> bool:
        """Store the slots' raw scores; return whether the maximum is another one now."""
        before, where = self.most, arrays.slot_index(slots)
        self.holders += int(np.count_nonzero(raw == before)) - int(np.count_nonzero(self.raw[where] == before))
        self.raw[where] = raw
        if self.holders <= 0 or int(raw.max(initial=before)) > before:
            self.most = int(self.raw.max(initial=0))
            self.holders = int(np.count_nonzero(self.raw == self.most))
        return self.most != before


class Ranking:
    """The totals of all slots for one class, so that the best can be found without comparing all. Shapes: (slot,).

    `common` is what plugins add to every total that score all slots alike.
    """

    def __init__(self, plugins: Sequence[RankedPlugin], common: int, size: int) -> None:
        self._plugins = tuple(plugins)
        self._common = common
        self.size = size
        padded = (size + _BLOCK - 1) >> _BLOCK_BITS << _BLOCK_BITS
        # The weighted scores that a placement changes on its node, and those that it does not.
        self.own = np.zeros(padded, dtype=np.int64)
        self.static = np.zeros(padded, dtype=np.int64)
        self._keys = np.full(padded, -1, dtype=np.int64)
        self._blocks = self._keys.reshape(-1, _BLOCK)
        self._best = np.full(self._blocks.shape[0], -1, dtype=np.int64)
        self._maxima = {
            number: _MaximumRawScore(padded) for number, each in enumerate(plugins) if each.normalization in NORMALIZED
        }

    @property
    def nbytes(self) -> int:
        """Memory of the columns, in bytes."""
        return self._keys.nbytes * (3 + len(self._maxima)) + self._best.nbytes

    def has_same_columns(self, plugins: Sequence[RankedPlugin], common: int, size: int) -> bool:
        """Whether the ranking was made for these very columns and as many slots."""
        return self.size == size and self._common == common and self._plugins == tuple(plugins)

    def update(self, slots: arrays.SlotArray, opened: arrays.BoolArray, ties: arrays.Int64Array) -> None:
        """Rank these slots anew, or all if a plugin's maximum moves; `opened` marks those that take pods.

        Shapes: slots and opened (n,), ties (slot,).
        """
        if not slots.shape[0]:
            return
        where = arrays.slot_index(slots)
        own = np.zeros(slots.shape[0], dtype=np.int64)
        moved = False
        for number, each in enumerate(self._plugins):
            raw = each.column.raw[where]
            if each.own:
                own += placement.apply_weight(raw, each.weight)
            elif number in self._maxima:
                moved |= self._maxima[number].update(slots, np.where(opened, raw, _NONE))
        self.own[where] = own
        if moved:
            self._keys[where] = np.where(opened, 0, -1)
            slots = np.flatnonzero(self._keys >= 0)
            opened = np.ones(slots.shape[0], dtype=np.bool_)
            where = arrays.slot_index(slots)
        static = self.static[where] = self._static_totals(slots)
        keys = ((self.own[where] + static) << placement.TIE_BITS) + ties[where]
        self._keys[where] = keys if opened.all() else np.where(opened, keys, -1)
        if moved or slots.shape[0] >= self._best.shape[0]:
            self._best = self._blocks.max(axis=1)
        else:
            touched = np.unique(slots >> _BLOCK_BITS)
            self._best[touched] = self._blocks[touched].max(axis=1)

    def keeps_maxima(self, count: int) -> bool:
        """Whether no maximum is lost when so many nodes fill up: then a placement changes no other node's total."""
        return all(each.most == 0 or each.holders > count for each in self._maxima.values())

    def best_open_slots(self, count: int) -> arrays.SlotArray:
        """The open slots with the `count` highest totals, ascending; all where there are fewer."""
        if count == 1 and self.size:
            block = int(self._best.argmax())
            within = int(self._blocks[block].argmax())
            found = [(block << _BLOCK_BITS) + within] if self._blocks[block, within] >= 0 else []
            return np.array(found, dtype=np.intp)
        blocks = np.arange(self._best.shape[0])
        if blocks.shape[0] > count:
            blocks = np.argpartition(self._best, -count)[-count:]
        keys = self._blocks[blocks].ravel()
        slots = ((blocks << _BLOCK_BITS)[:, None] + _WITHIN).ravel()
        if keys.shape[0] > count:
            best = np.argpartition(keys, -count)[-count:]
            keys, slots = keys[best], slots[best]
        return np.sort(slots[keys >= 0])

    def totals(self, slots: arrays.SlotArray) -> arrays.Int64Array:
        """The totals of these open slots. Shape: as `slots`."""
        return self._keys[slots] >> placement.TIE_BITS

    def _static_totals(self, slots: arrays.SlotArray) -> arrays.Int64Array:
        """The weighted sum of the slots' scores that no placement changes, while maxima stay. Shape: as `slots`."""
        total, where = np.full(slots.shape[0], self._common, dtype=np.int64), arrays.slot_index(slots)
        for number, each in enumerate(self._plugins):
            if each.own:
                continue
            raw = each.column.raw[where]
            if number in self._maxima:
                raw = placement.scale_scores(raw, each.normalization, self._maxima[number].most)
            total += placement.apply_weight(raw, each.weight)
        return total
