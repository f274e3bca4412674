"""What may help a pod that NodeVolumeLimits refused.

Source: pkg/scheduler/framework/plugins/nodevolumelimits.
"""

from collections.abc import Sequence
from typing import Any

from trireme.plugin_api.hints import ClassHint, ClusterEventWithHint, HintContext, helps_all, helps_none, is_on_node
from trireme.plugin_kit import volumes_attachments, volumes_events, volumes_translation
from trireme.v1 import core_pb2, storage_pb2


def events_to_register(context: HintContext) -> Sequence[ClusterEventWithHint]:
    """NodeVolumeLimits: a node takes more volumes, or one was detached or will be."""

    def after_delete(old: Any, new: Any) -> ClassHint:
        return helps_all if is_on_node(old) and volumes_attachments.uses_volumes(old.pod) else helps_none

    def after_detaching(old: storage_pb2.VolumeAttachment, new: None) -> ClassHint:
        return lambda pod_class: _may_be_attached_by(pod_class.pod, old.spec.attacher)

    return (
        ClusterEventWithHint("storage.k8s.io/CSINode", ("Add",)),
        ClusterEventWithHint("storage.k8s.io/CSINode", ("Update",), _after_limit_change),
        ClusterEventWithHint("AssignedPod", ("Delete",), after_delete),
        ClusterEventWithHint(volumes_events.CLAIM, ("Add",), lambda old, new: volumes_events.helps_users_of(new)),
        ClusterEventWithHint("storage.k8s.io/VolumeAttachment", ("Delete",), after_detaching),
    )


def _after_limit_change(old: storage_pb2.CSINode, new: storage_pb2.CSINode) -> ClassHint:
    """Make the hint for an updated CSINode: it helps if a driver's limit grew."""
    before = {driver.name: driver.allocatable.count for driver in old.spec.drivers}
    more = any(driver.allocatable.count > before.get(driver.name, 0) for driver in new.spec.drivers)
    return helps_all if more else helps_none


def _may_be_attached_by(pod: core_pb2.Pod, attacher: str) -> bool:
    """Return whether the pod has a claim, or a volume of its own that the attacher attaches.

    Raises: TranslationError where that cannot be told.
    """
    for volume in pod.spec.volumes:
        source = volume.volume_source
        if source.HasField("persistent_volume_claim"):
            return True
        kind = volumes_translation.in_tree_kind_of_inline(source)
        if kind is None:
            continue
        if kind.migrated:
            kind.inline_handle(getattr(source, kind.field))
        if kind.driver == attacher:
            return True
    return False
