"""What may help a pod that NodeVolumeLimits refused.

Source: pkg/scheduler/framework/plugins/nodevolumelimits. Where the departures from kube-scheduler are on, a limit or a
driver's demand that is gone wakes pods too, and what is detached those with claims of their own.
"""

import math
from collections.abc import Sequence
from typing import Any

from trireme.framework import feature_gates
from trireme.plugin_api.hints import ClassHint, ClusterEventWithHint, HintContext, helps_all, helps_none, is_on_node
from trireme.plugin_kit import volumes_attachments, volumes_events, volumes_translation
from trireme.v1 import core_pb2, storage_pb2


def events_to_register(context: HintContext) -> Sequence[ClusterEventWithHint]:
    """NodeVolumeLimits: a node takes more volumes, or one was detached or will be."""
    corrected = context.features.enabled(feature_gates.CORRECTED)

    def after_delete(old: Any, new: Any) -> ClassHint:
        return helps_all if is_on_node(old) and volumes_attachments.uses_volumes(old.pod) else helps_none

    def after_detaching(old: storage_pb2.VolumeAttachment, new: None) -> ClassHint:
        return lambda pod_class: _may_be_attached_by(pod_class.pod, old.spec.attacher, ephemeral=corrected)

    new_node = ClusterEventWithHint("storage.k8s.io/CSINode", ("Add",))
    wanted = (
        ClusterEventWithHint("AssignedPod", ("Delete",), after_delete),
        ClusterEventWithHint(volumes_events.CLAIM, ("Add",), lambda old, new: volumes_events.helps_users_of(new)),
        ClusterEventWithHint("storage.k8s.io/VolumeAttachment", ("Delete",), after_detaching),
    )
    if not corrected:
        return new_node, ClusterEventWithHint("storage.k8s.io/CSINode", ("Update",), _after_limit_change), *wanted
    return (
        new_node,
        ClusterEventWithHint("storage.k8s.io/CSINode", ("Update", "Delete"), _after_change_of_drivers),
        ClusterEventWithHint("storage.k8s.io/CSIDriver", ("Update", "Delete"), _after_driver_demands_less),
        *wanted,
    )


def _after_limit_change(old: storage_pb2.CSINode, new: storage_pb2.CSINode) -> ClassHint:
    """Make the hint for an updated CSINode: it helps if a driver's limit grew."""
    before = {driver.name: driver.allocatable.count for driver in old.spec.drivers}
    more = any(driver.allocatable.count > before.get(driver.name, 0) for driver in new.spec.drivers)
    return helps_all if more else helps_none


def _after_change_of_drivers(old: storage_pb2.CSINode, new: storage_pb2.CSINode | None) -> ClassHint:
    """Make the hint for a CSINode: it helps if it takes more volumes of a driver, or has one that was not there.

    A driver without a limit, and a node without a CSINode, take any number.
    """
    before, after = _limits(old), {} if new is None else _limits(new)
    more = any(limit < after.get(driver, math.inf) for driver, limit in before.items())
    return helps_all if more or not after.keys() <= before.keys() else helps_none


def _limits(entry: storage_pb2.CSINode) -> dict[str, float]:
    """How many volumes the node takes of each of its drivers."""
    return {
        driver.name: driver.allocatable.count if driver.allocatable.HasField("count") else math.inf
        for driver in entry.spec.drivers
    }


def _after_driver_demands_less(old: storage_pb2.CSIDriver, new: storage_pb2.CSIDriver | None) -> ClassHint:
    """Make the hint for a CSIDriver: it helps if pods may go now where the driver is missing."""
    still = new is not None and new.spec.prevent_pod_scheduling_if_missing
    return helps_all if old.spec.prevent_pod_scheduling_if_missing and not still else helps_none


def _may_be_attached_by(pod: core_pb2.Pod, attacher: str, *, ephemeral: bool) -> bool:
    """Return whether the pod has a claim, or a volume of its own that the attacher attaches.

    `ephemeral`: a claim that is made for the pod counts. Raises: TranslationError where that cannot be told.
    """
    for volume in pod.spec.volumes:
        source = volume.volume_source
        if source.HasField("persistent_volume_claim") or (ephemeral and source.HasField("ephemeral")):
            return True
        kind = volumes_translation.in_tree_kind_of_inline(source)
        if kind is None:
            continue
        if kind.migrated:
            kind.inline_handle(getattr(source, kind.field))
        if kind.driver == attacher:
            return True
    return False
