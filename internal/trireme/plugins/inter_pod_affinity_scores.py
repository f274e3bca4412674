"""InterPodAffinity's scores of the nodes that passed, kept up to date while a batch is placed.

A node's raw score is the sum, over topology keys, of what the pods in its domain weigh. A placement adds what a pod of
the class weighs for its own kind. Source: pkg/scheduler/framework/plugins/interpodaffinity (scoring.go).
"""

from dataclasses import dataclass

import numpy as np

from trireme.snapshot import arrays
from trireme.snapshot.dictionary import ABSENT

MAX_SCORE = 100


@dataclass(slots=True)
class KeyedScores:
    """One topology key over nodes 0 … n−1. Shapes: value (node,), score (value,); `adds` is what a placement adds."""

    value: arrays.Int32Array
    score: arrays.Int64Array
    adds: int


class AffinityScores:
    """Scores over nodes 0 … n−1."""

    def __init__(self, keys: list[KeyedScores], nodes: int) -> None:
        self._changing = [each for each in keys if each.adds]
        self._constant = np.zeros(nodes, dtype=np.int64)
        for each in keys:
            if not each.adds:
                self._constant += each.score[each.value]
        self._feasible: arrays.SlotArray | None = None  # None: all
        self._raw: arrays.Int64Array | None = None

    def set_feasible(self, feasible: arrays.BoolArray) -> None:
        """Scores are normalised over the feasible nodes."""
        self._feasible = None if feasible.all() else np.flatnonzero(feasible)

    def raw(self) -> arrays.Int64Array:
        """Sums of weights."""
        if self._raw is None:
            raw = self._constant
            for each in self._changing:
                raw = raw + each.score[each.value]
            self._raw = raw
        return self._raw

    def normalized(self, raw: arrays.Int64Array) -> arrays.Int64Array:
        """Linear between the lowest and the highest; all 0 where they are equal."""
        among = raw if self._feasible is None else raw[self._feasible]
        if not among.size:
            return np.zeros_like(raw)
        least, most = int(among.min()), int(among.max())
        if most == least:
            return np.zeros_like(raw)
        # As the original computes it: what is lost by floating point is lost there too.
        return (MAX_SCORE * ((raw - least) / float(most - least))).astype(np.int64)

    def place(self, node: int) -> None:
        """One more pod of the class in the node's domains."""
        for each in self._changing:
            value = int(each.value[node])
            if value != ABSENT:
                each.score[value] += each.adds
                self._raw = None
