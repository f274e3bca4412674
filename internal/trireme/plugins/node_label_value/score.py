"""NodeLabelValue's Score: prefers nodes by the integer in one of their labels."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from trireme.framework import plugin_spec
from trireme.plugin_api import interfaces, scorers
from trireme.plugin_kit import plugin_context
from trireme.plugins.node_label_value import args as value_args
from trireme.plugins.node_label_value.spec import SPEC
from trireme.snapshot import arrays, classes, snapshot


@dataclass(frozen=True, slots=True)
class _Range:
    """The lowest and the highest integer that the label has on any node."""

    lowest: int
    highest: int


class NodeLabelValueScore:
    """The score of NodeLabelValue: 0 to 100 between the worst and the best value in the cluster.

    The values of all nodes count, also of those that cannot take the pod, so that a node's score is the same for all
    pods. Another node's label may change it, hence the dependency.
    """

    name = SPEC.name
    depends_on = interfaces.Dependency.CLUSTER
    normalization = scorers.Normalization.NONE
    ignores_requests: Literal[True] = True
    reads: tuple[str, ...] = ()

    def __init__(self, args: value_args.Args) -> None:
        self._key = args.label_key
        self._highest_first = args.order == value_args.HIGHEST

    def pre_score(self, pod_class: classes.PodClass, snap: snapshot.Snapshot) -> Any:
        """The range of the values; None if no node has an integer: all nodes score 0."""
        values, valid = self._values(snap, np.flatnonzero(snap.nodes.alive[: snap.nodes.size]))
        found = values[valid]
        return _Range(int(found.min()), int(found.max())) if found.size else None

    def score(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray
    ) -> arrays.Int64Array:
        """Where the node's value is between the worst and the best; nodes without an integer are like the worst."""
        values, valid = self._values(snap, slots)
        if state.lowest == state.highest:
            return np.where(valid, plugin_spec.MAX_SCORE, 0)
        # As floats, since the difference of two integers of 64 bits may not be one.
        worst, best = (state.lowest, state.highest) if self._highest_first else (state.highest, state.lowest)
        share = (values.astype(np.float64) - worst) / (float(best) - worst)
        return np.floor(plugin_spec.MAX_SCORE * np.where(valid, share, 0)).astype(np.int64)

    def _values(self, snap: snapshot.Snapshot, slots: arrays.SlotArray) -> tuple[arrays.Int64Array, arrays.BoolArray]:
        """The integers of the slots' labels, and which slots have one. Shapes: as `slots`."""
        column = snap.nodes.labels.column(self._key)
        numbers = column.at(slots)
        integers, parses = column.integers()
        return integers[numbers], parses[numbers]


def make(context: plugin_context.PluginContext) -> NodeLabelValueScore:
    """Make the scorer, by its arguments."""
    return NodeLabelValueScore(value_args.read(context.args))
