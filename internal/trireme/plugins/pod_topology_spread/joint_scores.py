"""PodTopologySpread's scores of the nodes that passed, kept up to date while a batch is placed.

A node's raw score is a sum over the soft constraints of the pods in its domain, weighed by how many domains there are
among the feasible nodes. So a placement changes all nodes of its domain, and a node that is full changes the weights.
Source: pkg/scheduler/framework/plugins/podtopologyspread (scoring.go).

Also change: internal/trireme/evaluation/scoring/copy_scores.py,
internal/trireme/plugins/inter_pod_affinity/joint_scores.py, internal/trireme/plugin_api/scorers.py (the joint scores).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from trireme.framework import plugin_spec
from trireme.snapshot import arrays


@dataclass(slots=True)
class DomainTerm:
    """One soft constraint over nodes 0 … n−1. Shapes: domain, has_key and adds (node,), count (domain,).

    `per_node`: pods are counted on the node itself, which is its own domain. `adds`: a placement there is counted.
    """

    max_skew: int
    per_node: bool
    domain: npt.NDArray[Any]
    has_key: arrays.BoolArray | None  # None: all have it
    count: arrays.Int64Array
    adds: arrays.BoolArray | None  # None: none

    def restricted_to(self, nodes: arrays.SlotArray) -> "DomainTerm":
        """The same term over these nodes alone."""
        has_key = None if self.has_key is None else self.has_key[nodes]
        count = self.count[nodes] if self.per_node else self.count
        adds = None if self.adds is None else self.adds[nodes]
        return DomainTerm(self.max_skew, self.per_node, self.domain[nodes], has_key, count, adds)


class SpreadScores:
    """Scores over nodes 0 … n−1; `ignored` nodes score 0 and do not take part (None: there are none)."""

    def __init__(
        self,
        terms: list[DomainTerm],
        ignored: arrays.BoolArray | None,
        stands_for: arrays.Int64Array | None = None,
    ) -> None:
        """`stands_for`: how many nodes each counts for (None: each for itself). Shape: (node,)."""
        self._terms = terms
        self._stands_for = stands_for
        self._ignored = ignored
        self._counted: arrays.SlotArray | None = None  # the nodes that take part; None: all
        self._parts: list[arrays.Float64Array] = []  # per term and domain, what it adds to the score
        self._weights: list[float] = []
        self._raw: arrays.Int64Array | None = None

    def distinguishing_columns(self) -> list[npt.NDArray[Any]]:
        """Domains, or the counts of nodes that are their own, and what leaves nodes out."""
        out: list[npt.NDArray[Any]] = [] if self._ignored is None else [self._ignored]
        for term in self._terms:
            out.append(term.count if term.per_node else term.domain)
            if term.has_key is not None:
                out.append(term.has_key)
        return out

    def restricted_to(self, nodes: arrays.SlotArray, stands_for: arrays.Int64Array) -> "SpreadScores":
        """The scores of these nodes."""
        terms = [term.restricted_to(nodes) for term in self._terms]
        return SpreadScores(terms, None if self._ignored is None else self._ignored[nodes], stands_for)

    def set_feasible(self, feasible: arrays.BoolArray) -> None:
        """Weigh the constraints by how many domains the feasible nodes have: only these count from now on."""
        counted = feasible if self._ignored is None else feasible & ~self._ignored
        everywhere = bool(counted.all())
        self._counted = None if everywhere else np.flatnonzero(counted)
        self._parts, self._weights = [], []
        standing = self._stands_for
        for term in self._terms:
            if term.per_node:
                size = np.count_nonzero(counted) if standing is None else int(standing.sum(where=counted))
            else:
                seen = np.zeros(term.count.shape[0], dtype=np.bool_)
                seen[term.domain if self._counted is None else term.domain[self._counted]] = True
                size = int(np.count_nonzero(seen))
            self._weights.append(math.log(size + 2))
            self._parts.append(term.count * np.float64(self._weights[-1]) + (term.max_skew - 1))
        self._raw = None

    def raw_scores(self) -> arrays.Int64Array:
        """Return the weighted counts of pods per node, rounded; fewer is better, which normalisation turns round."""
        if self._raw is None:
            total: arrays.Float64Array | None = None
            for term, part in zip(self._terms, self._parts, strict=True):
                here = part if term.per_node else part[term.domain]
                if term.has_key is not None:
                    here = np.where(term.has_key, here, 0.0)
                total = here if total is None else total + here
            assert total is not None
            rounded = np.floor(total + 0.5).astype(np.int64)
            if self._ignored is not None:
                rounded[self._ignored] = 0
            self._raw = rounded
        return self._raw

    def normalized_scores(self, raw: arrays.Int64Array) -> arrays.Int64Array:
        """Few pods score high: 100 × (highest + lowest − own) / highest."""
        counted = raw if self._counted is None else raw[self._counted]
        if not counted.size:
            return np.zeros_like(raw)
        most = max(int(counted.max()), 0)
        if most == 0:
            out = np.full_like(raw, plugin_spec.MAX_SCORE)
        else:
            out = (most + int(counted.min()) - raw) * plugin_spec.MAX_SCORE // most
        if self._ignored is not None:
            out[self._ignored] = 0
        return out

    def place(self, node: int) -> None:
        """Count one more pod in the node's domains, under the constraints that count it there."""
        for number, term in enumerate(self._terms):
            if term.adds is not None and term.adds[node]:
                domain = node if term.per_node else int(term.domain[node])
                term.count[domain] += 1
                self._parts[number][domain] = term.count[domain] * self._weights[number] + (term.max_skew - 1)
                self._raw = None
