"""NodeUnschedulable: a cordoned node takes only pods that tolerate the unschedulable taint."""

from typing import Any, Literal

import numpy as np

from trireme.framework import status, tolerations
from trireme.plugin_api import interfaces
from trireme.plugin_kit import plugin_context
from trireme.plugins.node_unschedulable.spec import SPEC
from trireme.snapshot import arrays, classes, snapshot_view

_REASON = "node(s) were unschedulable"


class NodeUnschedulable:
    """The filter of NodeUnschedulable: refuses cordoned nodes, unless the pod tolerates that."""

    name = SPEC.name
    depends_on = interfaces.Dependency.NODE
    ignores_requests: Literal[True] = True
    ignores_node_affinity: Literal[True] = True
    reads: tuple[str, ...] = ()

    def __init__(self, comparing: bool) -> None:
        """`comparing`: tolerations may compare numbers."""
        self._comparing = comparing
        self._refusal = status.unresolvable(self.name, _REASON, reasons=(status.Reason("unschedulable"),))

    def pre_filter(
        self, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, table: interfaces.StatusTable
    ) -> interfaces.PreFilterResult:
        """Skip pods that tolerate the taint of unschedulable nodes."""
        own = pod_class.tolerations
        tolerated = tolerations.is_tolerated(own, tolerations.UNSCHEDULABLE, comparing=self._comparing)
        return interfaces.PreFilterResult(skip=tolerated)

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        state: Any,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """Refuse the cordoned slots."""
        cordoned = arrays.entries_at(snap.nodes.unschedulable, slots)
        if not cordoned.any():
            return interfaces.Verdicts(np.zeros(slots.shape[0], dtype=np.int16))
        return interfaces.Verdicts(np.where(cordoned, table.intern(self._refusal), 0).astype(np.int16))


def make(context: plugin_context.PluginContext) -> NodeUnschedulable:
    """Make the plugin, by the feature gates."""
    return NodeUnschedulable(context.features.get(tolerations.GATE, False))
