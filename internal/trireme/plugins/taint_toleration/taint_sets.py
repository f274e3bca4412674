"""Numbers that follow from a node's taints, found once per distinct set of taints."""

from collections.abc import Callable

import numpy as np

from trireme.framework import tolerations
from trireme.snapshot import arrays, nodes


class ValueByTaintSet:
    """A number per distinct taint set, made as sets appear. Set number 0 is no node's."""

    __slots__ = ("_numbers", "_of", "_sets")

    def __init__(self, of: Callable[[tuple[tolerations.Taint, ...]], int]) -> None:
        self._of = of
        self._numbers = np.zeros(1, dtype=np.int64)
        # The dictionary whose numbers they are by.
        self._sets: object = None

    def at(self, table: nodes.NodeTable, slots: arrays.SlotArray) -> arrays.Int64Array:
        """Return the number of each slot's taint set; those of new sets are computed here. Shape: as `slots`."""
        if self._sets is not table.taint_sets:
            self._sets, self._numbers = table.taint_sets, self._numbers[:1]
        known = self._numbers.shape[0]
        if known < len(table.taint_sets):
            new = [self._of(taints) for taints in table.taint_sets.values_from(known)]
            self._numbers = np.concatenate([self._numbers, np.array(new, dtype=np.int64)])
        number_of = self._numbers
        if number_of.shape[0] > 1 and (number_of[1:] == number_of[1]).all():
            return np.full(slots.shape[0], number_of[1])
        return number_of.take(arrays.entries_at(table.taint_set, slots))
