"""NodeLabel's Score: prefers nodes that have some labels, whatever their values, and lack others."""

from typing import Any, Literal

import numpy as np

from trireme.framework import plugin_spec
from trireme.plugin_api import interfaces, scorers
from trireme.plugin_kit import plugin_context
from trireme.plugins.node_label import args as label_args
from trireme.plugins.node_label.spec import SPEC
from trireme.snapshot import arrays, classes, snapshot
from trireme.snapshot.dictionary import ABSENT


class NodeLabelScore:
    """The score of NodeLabel: labels that nodes should have, or should not have, by the arguments."""

    name = SPEC.name
    depends_on = interfaces.Dependency.NODE
    normalization = scorers.Normalization.NONE
    ignores_requests: Literal[True] = True
    reads: tuple[str, ...] = ()

    def __init__(self, args: label_args.Args) -> None:
        # A label that is listed twice counts twice, so these are no dictionaries.
        self._preferences = (
            *((label, True) for label in args.preferred_present),
            *((label, False) for label in args.preferred_absent),
        )

    def pre_score(self, pod_class: classes.PodClass, snap: snapshot.Snapshot) -> Any:
        """The preferences; None without any: all nodes score 0."""
        return self._preferences or None

    def score(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray
    ) -> arrays.Int64Array:
        """How many of the preferences the node meets, in percent."""
        out = np.zeros(slots.shape[0], dtype=np.int64)
        for label, preferred in self._preferences:
            out += plugin_spec.MAX_SCORE * ((snap.nodes.labels.column(label).at(slots) != ABSENT) == preferred)
        return out // len(self._preferences)


def make(context: plugin_context.PluginContext) -> NodeLabelScore:
    """Make the scorer, by its arguments."""
    return NodeLabelScore(label_args.read(context.args))
