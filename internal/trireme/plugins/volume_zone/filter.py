"""VolumeZone: a volume that is labelled with zones or regions can only be used there.

The labels of the bound volumes are read once per class; a node is compared with them by its label columns. Nodes
without any zone or region label are taken to be in a cluster that has no zones.

Tests: tests/conformance/test_volume_sequences.py, tests/unit/plugins/test_volume_zone_hints.py,
tests/conformance/test_decisions.py.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.plugin_kit import plugin_context, volumes_claims, volumes_objects, volumes_translation
from trireme.plugins.volume_zone.spec import SPEC
from trireme.snapshot import arrays, classes, snapshot_view
from trireme.v1 import core_pb2
from trireme_kube.apimachinery import well_known_labels

_CONFLICT = "node(s) had no available volume zone"

# In the order in which they are looked at; the labels of old releases are also sought under today's name.
_TODAYS = {
    well_known_labels.BETA_ZONE: well_known_labels.ZONE,
    well_known_labels.BETA_REGION: well_known_labels.REGION,
    well_known_labels.ZONE: well_known_labels.ZONE,
    well_known_labels.REGION: well_known_labels.REGION,
}


@dataclass(frozen=True, slots=True)
class TopologyLabel:
    """A zone or region label of a volume, and the values that nodes may have."""

    key: str
    values: frozenset[str]


class VolumeZone:
    """The filter of VolumeZone: refuses nodes outside the zones that a bound volume's labels name."""

    name = SPEC.name
    depends_on = interfaces.Dependency.NODE
    ignores_requests: Literal[True] = True
    ignores_node_affinity: Literal[True] = True
    reads: tuple[str, ...] = (volumes_claims.CLAIM, volumes_claims.VOLUME, volumes_claims.STORAGE_CLASS)

    def __init__(self) -> None:
        self._conflict = status.unresolvable(self.name, _CONFLICT, reasons=(status.Reason("volumeZone"),))

    def pre_filter(
        self, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, table: interfaces.StatusTable
    ) -> interfaces.PreFilterResult:
        """Collect the zones of the pod's volumes; refuse if a claim or volume is missing, skip if none is labelled.

        Claims that wait for a node, and ephemeral ones, are passed over.
        """
        topologies: list[TopologyLabel] = []
        for use in volumes_claims.claims_of(pod_class):
            if use.ephemeral:
                continue
            found = _volume_of_claim(pod_class.namespace, use.name, snap)
            if isinstance(found, str):
                refusal = status.unresolvable(
                    self.name, found, reasons=(status.Reason.of("claim", {"claim": use.name}),)
                )
                return interfaces.PreFilterResult(status=refusal)
            if found is not None:
                topologies += topologies_of(found)
        return interfaces.PreFilterResult(state=tuple(topologies)) if topologies else interfaces.SKIPPED

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        state: Any,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """Refuse slots with a zone label that a volume does not have; nodes without zone labels pass."""
        labels = snap.nodes.labels
        zoned = np.zeros(slots.shape[0], dtype=np.bool_)
        for key in _TODAYS:
            zoned |= labels.column(key).at(slots) != 0
        matches = np.ones(slots.shape[0], dtype=np.bool_)
        topologies: tuple[TopologyLabel, ...] = state
        for topology in topologies:
            own, todays = labels.column(topology.key), labels.column(_TODAYS[topology.key])
            stated = own.at(slots)
            matches &= np.where(
                stated != 0,
                np.isin(stated, own.numbers_of(topology.values)),
                np.isin(todays.at(slots), todays.numbers_of(topology.values)),
            )
        index = np.where(zoned & ~matches, table.intern(self._conflict), interfaces.PASSES)
        return interfaces.Verdicts(index.astype(np.int16))


def _volume_of_claim(
    namespace: str, name: str, snap: snapshot_view.SnapshotView
) -> core_pb2.PersistentVolume | str | None:
    """Return the claim's volume; None: it will get one on its node; a text: why there is neither."""
    if not name:
        return "PersistentVolumeClaim had no name"
    claim = volumes_claims.find_claim(snap, namespace, name)
    if claim is None:
        return volumes_objects.claim_not_found(name)
    if claim.spec.volume_name:
        volume = volumes_claims.find_volume(snap, claim.spec.volume_name)
        return f'persistentvolume "{claim.spec.volume_name}" not found' if volume is None else volume
    class_name = volumes_objects.storage_class_of_claim(claim)
    if not class_name:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    storage_class = volumes_claims.find_storage_class(snap, class_name)
    if storage_class is None:
        return f'storageclass.storage.k8s.io "{class_name}" not found'
    if not storage_class.HasField("volume_binding_mode"):
        return f'VolumeBindingMode not set for StorageClass "{class_name}"'
    if storage_class.volume_binding_mode == volumes_objects.WAIT_FOR_FIRST_CONSUMER:
        return None
    return "PersistentVolume had no name"


def topologies_of(volume: core_pb2.PersistentVolume) -> list[TopologyLabel]:
    """The zones and regions that the volume is labelled with."""
    out = []
    for key in _TODAYS:
        value = volume.metadata.labels.get(key)
        if value is None:
            continue
        values = [part.strip() for part in value.split(volumes_translation.ZONE_DELIMITER)]
        if all(values):
            out.append(TopologyLabel(key, frozenset(values)))
    return out


def make(context: plugin_context.PluginContext) -> VolumeZone:
    """Make the plugin, which depends on nothing in its profile."""
    return VolumeZone()
