"""Hints of the plugins that look at volumes: VolumeRestrictions, NodeVolumeLimits, VolumeBinding and VolumeZone.

Source: pkg/scheduler/framework/plugins volumerestrictions, nodevolumelimits, volumebinding, volumezone.
"""

from collections.abc import Sequence
from typing import Any

from trireme.plugin_kit import volumes_attachments, volumes_claims, volumes_objects, volumes_translation
from trireme.plugins.volume_restrictions import filter as volume_restrictions
from trireme.plugins.volume_zone import filter as volume_zone
from trireme.queueing.hints.wanted import Helps, Setting, Wanted, everybody, nobody, on_node
from trireme.snapshot import classes
from trireme.v1 import core_pb2, storage_pb2
from trireme_kube.apimachinery import quantity

_MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
_CLAIM = "PersistentVolumeClaim"


def volume_restrictions_hints(setting: Setting) -> Sequence[Wanted]:
    """VolumeRestrictions: a disk or a claim that the pod wants is let go, or its claim is there."""

    def after_delete(old: Any, new: Any) -> Helps:
        gone = setting.cluster.class_of(old.pod)
        claims = _claims(gone, ephemeral=False)

        def helps(pod_class: classes.PodClass) -> bool:
            if pod_class.namespace != gone.namespace:
                return False
            if volume_restrictions.conflict(pod_class.pod, gone.pod):
                return True
            return not claims.isdisjoint(_claims(pod_class, ephemeral=False))

        return helps if gone.pod.spec.volumes else nobody

    return (
        Wanted("AssignedPod", ("Delete",), after_delete),
        Wanted("Node", ("Add",)),
        Wanted(_CLAIM, ("Add",), lambda old, new: _users_of(new, ephemeral=False)),
    )


def node_volume_limits(setting: Setting) -> Sequence[Wanted]:
    """NodeVolumeLimits: a node takes more volumes, or one was detached or will be."""

    def after_delete(old: Any, new: Any) -> Helps:
        return everybody if on_node(old) and volumes_attachments.uses_volumes(old.pod) else nobody

    def after_detaching(old: storage_pb2.VolumeAttachment, new: None) -> Helps:
        return lambda pod_class: _attaches_by(pod_class.pod, old.spec.attacher)

    return (
        Wanted("storage.k8s.io/CSINode", ("Add",)),
        Wanted("storage.k8s.io/CSINode", ("Update",), _after_limits),
        Wanted("AssignedPod", ("Delete",), after_delete),
        Wanted(_CLAIM, ("Add",), lambda old, new: _users_of(new)),
        Wanted("storage.k8s.io/VolumeAttachment", ("Delete",), after_detaching),
    )


def volume_binding(setting: Setting) -> Sequence[Wanted]:
    """VolumeBinding: what claims can be bound to, or made from, has changed, or the pod's own claim has."""

    def after_csi_driver(old: storage_pb2.CSIDriver, new: storage_pb2.CSIDriver) -> Helps:
        if not old.spec.storage_capacity or new.spec.storage_capacity:
            return nobody
        return lambda pod_class: any(
            volume.volume_source.HasField("csi") and volume.volume_source.csi.driver == new.metadata.name
            for volume in pod_class.pod.spec.volumes
        )

    return (
        Wanted("storage.k8s.io/StorageClass", ("Add", "Update"), _after_storage_class),
        Wanted(_CLAIM, ("Add", "Update"), lambda old, new: _users_of(new)),
        Wanted("PersistentVolume", ("Add", "Update")),
        Wanted("Node", ("Add", "UpdateNodeLabel")),
        Wanted("storage.k8s.io/CSINode", ("Add", "Update"), _after_migration),
        Wanted("storage.k8s.io/CSIDriver", ("Update",), after_csi_driver),
        Wanted("storage.k8s.io/CSIStorageCapacity", ("Add", "Update"), _after_capacity),
    )


def volume_zone_hints(setting: Setting) -> Sequence[Wanted]:
    """VolumeZone: the pod's claim, or the zones of a volume, have changed."""

    def after_storage_class(old: None, new: storage_pb2.StorageClass) -> Helps:
        delayed = new.volume_binding_mode == volumes_objects.WAIT_FOR_FIRST_CONSUMER
        return everybody if delayed else nobody

    def after_volume(old: core_pb2.PersistentVolume | None, new: core_pb2.PersistentVolume) -> Helps:
        same = old is not None and volume_zone.topologies_of(old) == volume_zone.topologies_of(new)
        return nobody if same else everybody

    return (
        Wanted("storage.k8s.io/StorageClass", ("Add",), after_storage_class),
        Wanted("Node", ("Add", "UpdateNodeLabel")),
        Wanted(_CLAIM, ("Add", "Update"), lambda old, new: _users_of(new, ephemeral=False)),
        Wanted("PersistentVolume", ("Add", "Update"), after_volume),
    )


def _users_of(claim: core_pb2.PersistentVolumeClaim, *, ephemeral: bool = True) -> Helps:
    """The pods that use the claim; `ephemeral`: also where it was made for the pod."""
    namespace, name = claim.metadata.namespace, claim.metadata.name
    return lambda pod_class: pod_class.namespace == namespace and name in _claims(pod_class, ephemeral=ephemeral)


def _claims(pod_class: classes.PodClass, *, ephemeral: bool) -> set[str]:
    return {use.name for use in volumes_claims.claims_of(pod_class) if ephemeral or not use.ephemeral}


def _after_limits(old: storage_pb2.CSINode, new: storage_pb2.CSINode) -> Helps:
    before = {driver.name: driver.allocatable.count for driver in old.spec.drivers}
    more = any(driver.allocatable.count > before.get(driver.name, 0) for driver in new.spec.drivers)
    return everybody if more else nobody


def _attaches_by(pod: core_pb2.Pod, attacher: str) -> bool:
    """Whether the pod has a claim, or a volume of its own that the attacher attaches.

    Raises: TranslationError where that cannot be told.
    """
    for volume in pod.spec.volumes:
        source = volume.volume_source
        if source.HasField("persistent_volume_claim"):
            return True
        kind = volumes_translation.of_inline(source)
        if kind is None:
            continue
        if kind.migrated:
            kind.inline_handle(getattr(source, kind.field))
        if kind.driver == attacher:
            return True
    return False


def _after_storage_class(old: storage_pb2.StorageClass | None, new: storage_pb2.StorageClass) -> Helps:
    same = old is not None and old.allowed_topologies == new.allowed_topologies
    return nobody if same else everybody


def _after_migration(old: storage_pb2.CSINode | None, new: storage_pb2.CSINode) -> Helps:
    if old is None:
        return everybody
    before, after = (entry.metadata.annotations.get(_MIGRATED, "") for entry in (old, new))
    return nobody if before == after else everybody


def _after_capacity(old: storage_pb2.CSIStorageCapacity | None, new: storage_pb2.CSIStorageCapacity) -> Helps:
    if old is None:
        return everybody
    before, after = _limit(old), _limit(new)
    return everybody if after is not None and (before is None or after > before) else nobody


def _limit(capacity: storage_pb2.CSIStorageCapacity) -> int | None:
    """How large a volume may be, in bytes; None: nothing is said."""
    for name in ("maximum_volume_size", "capacity"):
        if capacity.HasField(name):
            return quantity.parse_quantity(getattr(capacity, name).string).value()
    return None
