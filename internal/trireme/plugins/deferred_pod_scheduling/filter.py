"""DeferredPodScheduling: makes room for a running pod whose resize is deferred, on its own node and only where it may.

Such a pod stays where it is, so only NodeName and NodeResourcesFit decide about it.
"""

from typing import Any, Final

import numpy as np

from trireme.framework import resizes, status
from trireme.plugin_api import interfaces
from trireme.plugin_kit import plugin_context
from trireme.snapshot import arrays, classes, snapshot_view

_ELSEWHERE: Final = "pod assigned to different node"
_FORBIDDEN: Final = "node had resize preemption disabled"


class DeferredPodScheduling:
    """The filter of DeferredPodScheduling: a pod whose resize is deferred may only stay on its own node."""

    name = "DeferredPodScheduling"
    depends_on = interfaces.Dependency.NODE
    reads: tuple[str, ...] = ()

    def __init__(self, enabled: bool) -> None:
        """`enabled`: the gate InPlacePodVerticalScalingSchedulerPreemption is on."""
        self._enabled = enabled
        self._elsewhere = status.unresolvable(self.name, _ELSEWHERE, reasons=(status.Reason("nodeName"),))
        self._forbidden = status.unresolvable(
            self.name, _FORBIDDEN, reasons=(status.Reason("resizePreemptionDisabled"),)
        )

    def pre_filter(
        self, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, table: interfaces.StatusTable
    ) -> interfaces.PreFilterResult:
        """Skip all pods but those whose resize is deferred, and these too without the feature gate."""
        return interfaces.PreFilterResult(skip=not (self._enabled and pod_class.resize_deferred))

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        state: Any,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """Refuse all nodes but the pod's own, and that one where it forbids preemption for resizes."""
        index = np.where(snap.nodes.resize_preemption_disabled[slots], table.intern(self._forbidden), 0)
        node_name = pod_class.pod.spec.node_name
        if node_name:
            own = snap.nodes.slot_of_name.get(node_name, -1)
            index[slots != own] = table.intern(self._elsewhere)
        return interfaces.Verdicts(index.astype(np.int16))


def make(context: plugin_context.PluginContext) -> DeferredPodScheduling:
    """Make the plugin, by the feature gates."""
    return DeferredPodScheduling(context.features.get(resizes.GATE, False))
