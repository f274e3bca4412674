"""NodeName: a pod that names a node runs there or nowhere."""

from typing import Any, Literal

import numpy as np

from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.plugin_kit import plugin_context
from trireme.plugins.node_name.spec import SPEC
from trireme.snapshot import arrays, classes, snapshot_view

_REASON = "node(s) didn't match the requested node name"


class NodeName:
    """The filter of NodeName: a pod that names its node may run on no other."""

    name = SPEC.name
    depends_on = interfaces.Dependency.NODE
    ignores_requests: Literal[True] = True
    ignores_node_affinity: Literal[True] = True
    reads: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._refusal = status.unresolvable(self.name, _REASON, reasons=(status.Reason("nodeName"),))

    def pre_filter(
        self, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, table: interfaces.StatusTable
    ) -> interfaces.PreFilterResult:
        """A pending pod names no node; of one that is resized only its own node is looked at."""
        wanted = pod_class.pod.spec.node_name
        return interfaces.PreFilterResult(nodes=frozenset({wanted})) if wanted else interfaces.SKIPPED

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        state: Any,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """Refuse every slot but the named one."""
        wanted = snap.nodes.slot_of_name.get(pod_class.pod.spec.node_name, -1)
        return interfaces.Verdicts(
            np.where(slots == wanted, interfaces.PASSES, table.intern(self._refusal)).astype(np.int16)
        )


def make(context: plugin_context.PluginContext) -> NodeName:
    """Make the plugin, which depends on nothing in its profile."""
    return NodeName()
