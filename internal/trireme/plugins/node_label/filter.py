"""NodeLabel's Filter: pods run on nodes that have some labels, whatever their values, and lack others."""

from typing import Any, Literal

import numpy as np

from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.plugin_kit import plugin_context
from trireme.plugins.node_label import args as label_args
from trireme.plugins.node_label.spec import SPEC
from trireme.snapshot import arrays, classes, snapshot_view
from trireme.snapshot.dictionary import ABSENT

_REASON = "node(s) didn't have the requested labels"


class NodeLabelFilter:
    """The filter of NodeLabel: labels that nodes must have, or must not have, by the arguments."""

    name = SPEC.name
    depends_on = interfaces.Dependency.NODE
    ignores_requests: Literal[True] = True
    ignores_node_affinity: Literal[True] = True
    reads: tuple[str, ...] = ()

    def __init__(self, args: label_args.Args) -> None:
        self._present = {label: self._refusal("labelMissing", label) for label in args.present}
        self._absent = {label: self._refusal("labelForbidden", label) for label in args.absent}

    def pre_filter(
        self, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, table: interfaces.StatusTable
    ) -> interfaces.PreFilterResult:
        """Skip where the arguments demand nothing; no pod demands anything of its own."""
        return interfaces.PreFilterResult() if self._present or self._absent else interfaces.SKIPPED

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        state: Any,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """Refuse slots by the first label that is not as demanded, present ones first."""
        index = np.zeros(slots.shape[0], dtype=np.int16)
        for refusals, demanded in ((self._present, True), (self._absent, False)):
            for label, refusal in refusals.items():
                wrong = (snap.nodes.labels.column(label).at(slots) != ABSENT) != demanded
                index[wrong & (index == interfaces.PASSES)] = table.intern(refusal)
        return interfaces.Verdicts(index)

    def _refusal(self, code: str, label: str) -> status.Status:
        """Make the refusal of nodes because of one label; preemption cannot help."""
        return status.unresolvable(self.name, _REASON, reasons=(status.Reason.of(code, {"label": label}),))


def make(context: plugin_context.PluginContext) -> NodeLabelFilter:
    """Make the filter, by its arguments."""
    return NodeLabelFilter(label_args.read(context.args))
