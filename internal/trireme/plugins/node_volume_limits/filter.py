"""NodeVolumeLimits: a node takes only so many volumes of a driver, and some drivers must be there at all.

What a pod of the class would attach is known without looking at nodes, but for whether the node has a CSINode: then
in-tree volumes count as their driver's. The rest is arithmetic on columns: how many volumes of the driver are attached,
which of the pod's own are among them, and the limit.

Tests: tests/conformance/test_volume_sequences.py, tests/conformance/test_decisions.py,
tests/unit/plugins/test_node_volume_limits.py.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from trireme.framework import feature_gates, status
from trireme.plugin_api import interfaces
from trireme.plugin_kit import plugin_context, volumes_attachments, volumes_claims, volumes_index, volumes_nodes
from trireme.plugins.node_volume_limits.spec import SPEC
from trireme.snapshot import arrays, classes, snapshot_view

_EXCEEDED = "node(s) exceed max volume count"

_DRIVER = "csi_driver"


@dataclass(frozen=True, slots=True)
class _SlotsAndPositions:
    """Some of the given slots, and where they are among them. Shapes: both (n,)."""

    slots: arrays.SlotArray
    at: arrays.SlotArray


class NodeVolumeLimits:
    """The filter of NodeVolumeLimits: refuses nodes that would have more volumes of a driver than it can attach."""

    name = SPEC.name
    depends_on = interfaces.Dependency.NODE_PODS
    ignores_requests: Literal[True] = True
    ignores_node_affinity: Literal[True] = True
    reads: tuple[str, ...] = (
        volumes_claims.CLAIM,
        volumes_claims.VOLUME,
        volumes_claims.STORAGE_CLASS,
        volumes_nodes.CSI_NODE,
        volumes_attachments.ATTACHMENT,
        _DRIVER,
    )

    def __init__(self, require_driver: bool, corrected: bool = False) -> None:
        """`require_driver`: refuse nodes that lack a driver which says that it must be there (VolumeLimitScaling).

        `corrected`: a volume that a pod on a node cannot have does not count there. Otherwise it is an error of every
        pod with volumes.
        """
        self._require_driver = require_driver
        self._corrected = corrected

    def pre_filter(
        self, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, table: interfaces.StatusTable
    ) -> interfaces.PreFilterResult:
        """Skip pods without volumes that may be attached."""
        uses = pod_class.memo(f"{self.name}/uses", lambda of: volumes_attachments.uses_volumes(of.pod))
        return interfaces.PreFilterResult() if uses else interfaces.SKIPPED

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        state: Any,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """Refuse slots that lack a driver, or would have too many volumes of one.

        Copies of a pod use the same volumes, so where one fits any number does.
        """
        index = np.full(slots.shape[0], interfaces.PASSES, dtype=np.int16)
        present = volumes_index.volume_index_of(snap).csi.present[slots]
        for csi_node in (False, True):
            at = np.flatnonzero(present == csi_node)
            if at.size:
                subset = _SlotsAndPositions(slots[at], at)
                self._write_verdicts(pod_class, snap, csi_node, subset, table, index)
        return interfaces.Verdicts(index)

    def _write_verdicts(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        csi_node: bool,
        subset: _SlotsAndPositions,
        table: interfaces.StatusTable,
        index: arrays.Int16Array,
    ) -> None:
        """Write the verdicts about nodes that all have a CSINode, or all have none, to `index`.

        A claim that is missing, or a volume that cannot be read, refuses the pod on all of them.
        """
        try:
            volumes = volumes_attachments.new_volumes(pod_class, snap, csi_node)
        except volumes_attachments.MissingClaimError as error:
            reason = status.Reason.of("claimNotFound", {"claim": error.claim})
            index[subset.at] = table.intern(status.unresolvable(self.name, str(error), reasons=(reason,)))
            return
        except volumes_attachments.VolumeError as error:
            index[subset.at] = table.intern(self._error_status(str(error)))
            return
        if not volumes:
            return
        # A node has the status that is written last: of the limits first, then of what kube-scheduler looks at before.
        if csi_node:
            self._check_limits(volumes, snap, subset, table, index)
        if self._require_driver:
            self._check_drivers(volumes, snap, subset, table, index)

    def _check_limits(
        self,
        volumes: frozenset[volumes_attachments.Attached],
        snap: snapshot_view.SnapshotView,
        subset: _SlotsAndPositions,
        table: interfaces.StatusTable,
        index: arrays.Int16Array,
    ) -> None:
        """Refuse nodes where the class's new volumes of a driver exceed its limit, in `index`.

        A volume that is on the node already is not new. Where an attached volume is unknown, a limited node is an
        error, unless that is corrected.
        """
        csi = volumes_index.volume_index_of(snap).csi
        attached = volumes_attachments.attachment_index_of(snap)
        for driver, count in sorted(Counter(driver for driver, _ in volumes).items()):
            new = np.full(snap.nodes.size, count, dtype=np.int64)
            for volume in volumes:
                if volume[0] == driver:
                    new[attached.slots_with(volume)] -= 1
            new = new[subset.slots]
            limit = csi.limits(driver)[subset.slots]
            exceeded = (limit != volumes_nodes.NO_LIMIT) & (new > 0)
            exceeded &= attached.counts(driver)[subset.slots] + new > limit
            if exceeded.any():
                refusal = status.unschedulable(
                    self.name, _EXCEEDED, reasons=(status.Reason.of("volumeLimit", {"driver": driver}),)
                )
                index[subset.at[exceeded]] = table.intern(refusal)
        if self._corrected:
            return
        positions = dict(zip(subset.slots.tolist(), subset.at.tolist(), strict=True))
        for slot, text in attached.errors().items():
            if slot in positions and csi.limited[slot]:
                index[positions[slot]] = table.intern(self._error_status(text))

    def _check_drivers(
        self,
        volumes: frozenset[volumes_attachments.Attached],
        snap: snapshot_view.SnapshotView,
        subset: _SlotsAndPositions,
        table: interfaces.StatusTable,
        index: arrays.Int16Array,
    ) -> None:
        """Refuse nodes that lack a driver which says that pods must not go where it is missing, in `index`."""
        csi = volumes_index.volume_index_of(snap).csi
        for driver in sorted({driver for driver, _ in volumes}, reverse=True):
            described = snap.objects.get(_DRIVER, "", driver)
            if described is None or not described.spec.prevent_pod_scheduling_if_missing:
                continue
            lacking = ~csi.installed(driver)[subset.slots]
            refusal = status.unschedulable(
                self.name,
                f"{driver} CSI driver is not installed on the node",
                reasons=(status.Reason.of("driverMissing", {"driver": driver}),),
            )
            index[subset.at[lacking]] = table.intern(refusal)

    def _error_status(self, text: str) -> status.Status:
        """Make the error that ends the attempt, with kube-scheduler's text."""
        return status.error(self.name, f'running "{self.name}" filter plugin: {text}')


def make(context: plugin_context.PluginContext) -> NodeVolumeLimits:
    """Make the plugin, by the feature gates."""
    return NodeVolumeLimits(
        context.features.get("VolumeLimitScaling", True), context.features.get(feature_gates.CORRECTED, False)
    )
