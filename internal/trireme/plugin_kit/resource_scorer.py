"""Score plugins that look at nothing but what the pods of a node use of its resources, as the two resource scorers are.

Scores are made for several copies at once, the k-th copy with those before it on the node, and for pods of several
classes at once.

Tests: tests/unit/plugins/test_node_resources_fit.py, tests/unit/plugins/test_node_resources_balanced_allocation.py,
tests/unit/evaluation/test_scoring.py.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from trireme.plugin_api import interfaces, scorers
from trireme.plugin_kit import resource_usage
from trireme.snapshot import arrays, classes, node_usage, snapshot


class ColumnScores(Protocol):
    """What a plugin scores by: its resources, and the score of a node with what is added to it.

    Implementers: trireme.plugins.node_resources_balanced_allocation.score.BalanceScores,
    trireme.plugins.node_resources_fit.score.StrategyScores.
    """

    def resources_of(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot
    ) -> Sequence[resource_usage.ScoredResource] | None:
        """Return the resources that are scored for the class; None: the plugin has nothing to say about it."""
        ...

    def score_columns(self, usage: node_usage.NodeUsage, added: resource_usage.AddedPods) -> arrays.Int64Array:
        """Return the scores with what is added in each column. Shape: (node, column)."""
        ...


class ResourceScorer:
    """A plugin's scores of one pod, of copies of it, and of pods of several classes."""

    normalization = scorers.Normalization.NONE

    def __init__(
        self, name: str, columns: ColumnScores, *, nonzero: bool, counts_devices: bool, reads: tuple[str, ...] = ()
    ) -> None:
        """`nonzero`: containers without a request count by a default; `counts_devices`: scores depend on devices."""
        self.name = name
        self.reads = reads
        self.depends_on = interfaces.Dependency.CLUSTER if counts_devices else interfaces.Dependency.NODE_PODS
        self._columns = columns
        self._nonzero = nonzero

    def pre_score(self, pod_class: classes.PodClass, snap: snapshot.Snapshot) -> Any:
        """Return the resources that are scored; None: the plugin has nothing to say about the class."""
        return self._columns.resources_of(pod_class, snap)

    def score(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray
    ) -> arrays.Int64Array:
        """Return the scores with one pod on each node."""
        return self.score_copies(pod_class, snap, state, slots, 1)[:, 0]

    def score_copies(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray, copies: int
    ) -> arrays.Int64Array:
        """As score, for one copy, two, … on the node. Shape: (slot, copy)."""
        added = resource_usage.add_copies(state, copies, nonzero=self._nonzero)
        return self._columns.score_columns(node_usage.NodeUsage(snap, slots), added)

    def pods_of_classes(self, states: Sequence[Any]) -> Sequence[resource_usage.AddedPods]:
        """What a pod of each class adds to its node; in parts where other resources count for some than for others."""
        return resource_usage.add_pods(states, nonzero=self._nonzero)

    def score_pods(self, usage: node_usage.NodeUsage, pods: Sequence[resource_usage.AddedPods]) -> arrays.Int64Array:
        """The scores of nodes with this usage for each of the pods. Shape: (node, pod)."""
        parts = [self._columns.score_columns(usage, part) for part in pods]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
