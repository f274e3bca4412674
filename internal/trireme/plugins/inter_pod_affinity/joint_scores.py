"""InterPodAffinity's scores of the nodes that passed, kept up to date while a batch is placed.

A node's raw score is the sum, over topology keys, of what the pods in its domain weigh. A placement adds what a pod of
the class weighs for its own kind. Source: pkg/scheduler/framework/plugins/interpodaffinity (scoring.go).

Also change: internal/trireme/evaluation/scoring/copy_scores.py,
internal/trireme/plugins/pod_topology_spread/joint_scores.py, internal/trireme/plugin_api/scorers.py (the joint scores).

Tests: tests/unit/plugins/test_inter_pod_affinity.py, tests/unit/evaluation/test_placement_domains.py.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from trireme.framework import domain_rules, plugin_spec
from trireme.snapshot import arrays
from trireme.snapshot.dictionary import ABSENT


@dataclass(slots=True)
class TopologyKeyScores:
    """One topology key over nodes 0 … n−1. Shapes: value (node,), score (value,); `adds` is what a placement adds."""

    value: arrays.Int32Array
    score: arrays.Int64Array
    adds: int


class AffinityScores:
    """Scores over nodes 0 … n−1."""

    def __init__(self, changing: list[TopologyKeyScores], constant: arrays.Int64Array) -> None:
        """`constant` is what no placement changes. Shape: (node,)."""
        self._changing = changing
        self._constant = constant
        self._feasible: arrays.SlotArray | None = None  # None: all
        self._raw: arrays.Int64Array | None = None

    @classmethod
    def of(cls, keys: list[TopologyKeyScores], nodes: int) -> "AffinityScores":
        """The scores of so many nodes under some keys."""
        constant = np.zeros(nodes, dtype=np.int64)
        for each in keys:
            if not each.adds:
                constant += each.score[each.value]
        return cls([each for each in keys if each.adds], constant)

    def distinguishing_columns(self) -> list[npt.NDArray[Any]]:
        """Domains, and scores of nodes that are alone in theirs."""
        out: list[npt.NDArray[Any]] = [self._constant]
        for each in self._changing:
            out += domain_rules.distinguishing_columns(each.value, each.score)
        return out

    def restricted_to(self, nodes: arrays.SlotArray, stands_for: arrays.Int64Array) -> "AffinityScores":
        """The scores of these nodes; nothing is counted, so it does not matter for how many each stands."""
        changing = [TopologyKeyScores(each.value[nodes], each.score, each.adds) for each in self._changing]
        return AffinityScores(changing, self._constant[nodes])

    def set_feasible(self, feasible: arrays.BoolArray) -> None:
        """Scores are normalised over the feasible nodes."""
        self._feasible = None if feasible.all() else np.flatnonzero(feasible)

    def raw_scores(self) -> arrays.Int64Array:
        """Sums of weights by node, as they are after the placements so far."""
        if self._raw is None:
            raw = self._constant
            for each in self._changing:
                raw = raw + each.score[each.value]
            self._raw = raw
        return self._raw

    def normalized_scores(self, raw: arrays.Int64Array) -> arrays.Int64Array:
        """Linear between the lowest and the highest; all 0 where they are equal."""
        among = raw if self._feasible is None else raw[self._feasible]
        if not among.size:
            return np.zeros_like(raw)
        least, most = int(among.min()), int(among.max())
        if most == least:
            return np.zeros_like(raw)
        # As the original computes it: what is lost by floating point is lost there too.
        return (plugin_spec.MAX_SCORE * ((raw - least) / float(most - least))).astype(np.int64)

    def place(self, node: int) -> None:
        """Count one more pod of the class in the node's domains."""
        for each in self._changing:
            value = int(each.value[node])
            if value != ABSENT:
                each.score[value] += each.adds
                self._raw = None
