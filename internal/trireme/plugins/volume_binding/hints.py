"""What may help a pod that VolumeBinding refused.

Source: pkg/scheduler/framework/plugins/volumebinding. Where the departures from kube-scheduler are on, a driver that
reports no capacity any more wakes pods with claims, and one that is gone too.
"""

from collections.abc import Sequence

from trireme.framework import feature_gates
from trireme.plugin_api.hints import ClassHint, ClusterEventWithHint, HintContext, helps_all, helps_none
from trireme.plugin_kit import volumes_claims, volumes_events, volumes_nodes
from trireme.v1 import storage_pb2
from trireme_kube.apimachinery import quantity


def events_to_register(context: HintContext) -> Sequence[ClusterEventWithHint]:
    """VolumeBinding: what claims can be bound to, or made from, has changed, or the pod's own claim has."""
    corrected = context.features.enabled(feature_gates.CORRECTED)

    def after_csi_driver(old: storage_pb2.CSIDriver, new: storage_pb2.CSIDriver | None) -> ClassHint:
        if not old.spec.storage_capacity or (new is not None and new.spec.storage_capacity):
            return helps_none
        if corrected:
            return lambda pod_class: bool(volumes_claims.claims_of(pod_class))
        return lambda pod_class: any(
            volume.volume_source.HasField("csi") and volume.volume_source.csi.driver == old.metadata.name
            for volume in pod_class.pod.spec.volumes
        )

    return (
        ClusterEventWithHint("storage.k8s.io/StorageClass", ("Add", "Update"), _after_storage_class_change),
        ClusterEventWithHint(
            volumes_events.CLAIM, ("Add", "Update"), lambda old, new: volumes_events.helps_users_of(new)
        ),
        ClusterEventWithHint("PersistentVolume", ("Add", "Update")),
        ClusterEventWithHint("Node", ("Add", "UpdateNodeLabel")),
        ClusterEventWithHint("storage.k8s.io/CSINode", ("Add", "Update"), _after_csi_node_change),
        ClusterEventWithHint(
            "storage.k8s.io/CSIDriver", ("Update", "Delete") if corrected else ("Update",), after_csi_driver
        ),
        ClusterEventWithHint("storage.k8s.io/CSIStorageCapacity", ("Add", "Update"), _after_capacity_change),
    )


def _after_storage_class_change(old: storage_pb2.StorageClass | None, new: storage_pb2.StorageClass) -> ClassHint:
    """Make the hint for a StorageClass: it helps if it is new, or its allowed topologies changed."""
    same = old is not None and old.allowed_topologies == new.allowed_topologies
    return helps_none if same else helps_all


def _after_csi_node_change(old: storage_pb2.CSINode | None, new: storage_pb2.CSINode) -> ClassHint:
    """Make the hint for a CSINode: it helps if it is new, or its migrated plugins changed."""
    if old is None:
        return helps_all
    before, after = (entry.metadata.annotations.get(volumes_nodes.MIGRATED_PLUGINS, "") for entry in (old, new))
    return helps_none if before == after else helps_all


def _after_capacity_change(
    old: storage_pb2.CSIStorageCapacity | None, new: storage_pb2.CSIStorageCapacity
) -> ClassHint:
    """Make the hint for a CSIStorageCapacity: it helps if it is new, or the largest possible volume grew."""
    if old is None:
        return helps_all
    before, after = _max_volume_nanos(old), _max_volume_nanos(new)
    return helps_all if after is not None and (before is None or after > before) else helps_none


def _max_volume_nanos(capacity: storage_pb2.CSIStorageCapacity) -> int | None:
    """How large a volume may be, in billionths of bytes, exactly; None: nothing is said."""
    for name in ("maximum_volume_size", "capacity"):
        if capacity.HasField(name):
            return quantity.parse_quantity(getattr(capacity, name).string).nanos
    return None
