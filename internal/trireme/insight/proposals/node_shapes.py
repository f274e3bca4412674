"""The shapes of nodes: what one more node would be like.

Tests: tests/unit/insight/test_proposals.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trireme.insight.proposals import simulated_cluster
from trireme.simulation import node_copies
from trireme.snapshot import arrays, snapshot
from trireme.v1 import core_pb2


@dataclass(frozen=True, slots=True)
class NodeShape:
    """What some nodes have in common; `slot` is that of the first one, `nodes` how many there are."""

    slot: int
    nodes: int


def node_shapes(snap: snapshot.Snapshot, refused: Sequence[arrays.BoolArray]) -> list[NodeShape]:
    """The different shapes of the cluster's nodes, the most promising first, of these the smallest.

    Nodes have one shape if they differ in no more than pods, conditions, and labels that (nearly) each node has a value
    of its own for. `refused` has the slots that each plugin refuses for the sake of the node alone. Shapes: (slot,).
    """
    nodes = snap.nodes
    live = nodes.live_slots()
    if not live.size:
        return []
    columns = [nodes.allocatable[row, live] for row in range(nodes.allocatable.shape[0])]
    columns += [nodes.allowed_pods[live], nodes.feature_set[live], _lasting_taints(snap)[nodes.taint_set[live]]]
    for key in nodes.labels.keys:
        values = nodes.labels.column(key).values(nodes.size)[live].astype(np.int64)
        if key != node_copies.HOSTNAME and (live.size <= 2 or np.unique(values).size * 2 <= live.size):
            columns.append(values)
    _, first, counts = np.unique(np.stack(columns), axis=1, return_index=True, return_counts=True)
    refusals = np.sum(refused, axis=0)[live[first]] if refused else np.zeros(first.shape[0], dtype=np.int64)
    order = np.lexsort((live[first], -counts, columns[1][first], columns[0][first], refusals))
    return [NodeShape(int(live[first[number]]), int(counts[number])) for number in order.tolist()]


def node_of_shape(snap: snapshot.Snapshot, slot: int) -> core_pb2.Node:
    """A node of the shape of the one at the slot: without pods, images and conditions, with a host name of its own."""
    return node_copies.node_like(snap, slot, simulated_cluster.ADDED_NODE)


def _lasting_taints(snap: snapshot.Snapshot) -> arrays.Int64Array:
    """By number of a taint set, the number of the taints in it that say nothing of a condition. Shape: (taint set,)."""
    numbers: dict[frozenset[tuple[str, str, str]], int] = {}
    out = [
        numbers.setdefault(
            frozenset(taint for taint in taints if not taint[0].startswith(node_copies.CONDITION_TAINTS)), len(numbers)
        )
        for taints in snap.nodes.taint_sets.values_from(1)
    ]
    # No set has the number 0.
    return np.array([0, *out], dtype=np.int64)
