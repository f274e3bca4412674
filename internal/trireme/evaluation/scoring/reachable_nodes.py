"""The nodes that a batch can reach: a few stand for all, exactly, so that placing goes over a few.

Nodes are alike where placements elsewhere change them alike: same domains, or domains of their own in the same state,
and the same raw scores where scores are normalised. Among nodes that are alike, those that nothing was placed on yet
keep their order, whatever happens. So of each group only the best can be chosen, as many as the batch has pods; and the
last of these, which is chosen last of all, stands for those left out, wherever nodes are counted.

Tests: tests/unit/evaluation/test_reachable_nodes.py, tests/unit/evaluation/test_batches_with_remote_scores.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from trireme.snapshot import arrays

# Beyond so many kinds of node, or groups larger than a batch, telling them apart costs more than it saves.
_MOST_KINDS = 1 << 16
_MOST_GROUPS = 64

# So many times as many nodes as can be chosen are looked at first.
_LIKELY = 4


@dataclass(frozen=True, slots=True)
class ReachableNodes:
    """Nodes, ascending, and for how many each stands. Shapes: both (node,)."""

    nodes: arrays.SlotArray
    stands_for: arrays.Int64Array


def find_reachable_nodes(alone: arrays.Int64Array, columns: Sequence[npt.NDArray[Any]], count: int) -> ReachableNodes:
    """Return the nodes that `count` placements can go to: of each kind the best `count`, of small kinds all.

    `alone` orders nodes that are alike, the best highest; those are alike that have the same in all `columns`, of
    integers or booleans. With too many kinds it returns all nodes. Shapes: all (node,).
    """
    size = alone.shape[0]
    kind = None if count < 2 or size <= count else _number_alike_nodes(columns, size)
    if kind is None:
        return ReachableNodes(np.arange(size), np.ones(size, dtype=np.int64))
    sizes = np.bincount(kind)
    large = np.flatnonzero(sizes > count).tolist()
    if len(large) > _MOST_GROUPS:
        return ReachableNodes(np.arange(size), np.ones(size, dtype=np.int64))
    within = sizes <= count
    found = [np.flatnonzero(within[kind])] if within.any() else []
    last = []
    likely = _best_nodes_of_any_kind(alone, _LIKELY * count * len(large))
    for number in large:
        alike = likely[kind[likely] == number]
        if alike.shape[0] < count:
            alike = np.flatnonzero(kind == number)
        best = alike[np.argpartition(alone[alike], -count)[-count:]]
        found.append(best)
        # Where argpartition splits stands the lowest of the best.
        last.append((best[0], sizes[number] - count))
    nodes = np.sort(np.concatenate(found))
    stands_for = np.ones(nodes.shape[0], dtype=np.int64)
    for node, others in last:
        stands_for[np.searchsorted(nodes, node)] += others
    return ReachableNodes(nodes, stands_for)


def _best_nodes_of_any_kind(alone: arrays.Int64Array, count: int) -> arrays.SlotArray:
    """The best nodes of all kinds, so many or more: most often the best of each are among them. Shape: (n,)."""
    if alone.shape[0] <= count:
        return np.arange(alone.shape[0])
    return np.flatnonzero(alone >= np.partition(alone, -count)[-count])


def _number_alike_nodes(columns: Sequence[npt.NDArray[Any]], size: int) -> arrays.Int64Array | None:
    """A number from 0 for each node, the same for nodes that are alike; None where there are too many."""
    kind = np.zeros(size, dtype=np.int64)
    kinds = 1
    for column in columns:
        least = int(column.min())
        values = int(column.max()) - least + 1
        if values == 1:
            continue
        kinds *= values
        if kinds > _MOST_KINDS:
            return None
        kind *= values
        kind += column
        kind -= least
    return kind
