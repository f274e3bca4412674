"""What may help a pod that VolumeZone refused.

Source: pkg/scheduler/framework/plugins/volumezone.
"""

from collections.abc import Sequence

from trireme.plugin_api.hints import ClassHint, ClusterEventWithHint, HintContext, helps_all, helps_none
from trireme.plugin_kit import volumes_events, volumes_objects
from trireme.plugins.volume_zone import filter as volume_zone
from trireme.v1 import core_pb2, storage_pb2


def events_to_register(context: HintContext) -> Sequence[ClusterEventWithHint]:
    """VolumeZone: the pod's claim, or the zones of a volume, have changed."""

    def after_storage_class(old: None, new: storage_pb2.StorageClass) -> ClassHint:
        delayed = new.volume_binding_mode == volumes_objects.WAIT_FOR_FIRST_CONSUMER
        return helps_all if delayed else helps_none

    def after_volume(old: core_pb2.PersistentVolume | None, new: core_pb2.PersistentVolume) -> ClassHint:
        same = old is not None and volume_zone.topologies_of(old) == volume_zone.topologies_of(new)
        return helps_none if same else helps_all

    return (
        ClusterEventWithHint("storage.k8s.io/StorageClass", ("Add",), after_storage_class),
        ClusterEventWithHint("Node", ("Add", "UpdateNodeLabel")),
        ClusterEventWithHint(
            volumes_events.CLAIM,
            ("Add", "Update"),
            lambda old, new: volumes_events.helps_users_of(new, ephemeral=False),
        ),
        ClusterEventWithHint("PersistentVolume", ("Add", "Update"), after_volume),
    )
