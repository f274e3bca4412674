"""Which events each in-tree plugin registers. Source: EventsToRegister of pkg/scheduler/framework/plugins."""

from collections.abc import Mapping, Sequence
from typing import Any

from trireme.config import model
from trireme.framework import cluster_event
from trireme.frontend import queue_hints, queue_pod
from trireme.frontend.hints.cluster_view import CacheView

_PREEMPTION = "DefaultPreemption"

_TABLE: Mapping[str, Sequence[tuple[str, tuple[str, ...]]]] = {
    _PREEMPTION: (("AssignedPod", ("Delete",)),),
    "DynamicResources": (
        ("Node", ("Add", "UpdateNodeAllocatable", "UpdateNodeLabel")),
        ("resource.k8s.io/ResourceClaim", ("Add", "Delete", "Update")),
        ("TargetPod", ("UpdatePodGeneratedResourceClaim",)),
        ("resource.k8s.io/DeviceClass", ("Add", "Update")),
        ("resource.k8s.io/ResourceSlice", ("Add", "Update")),
    ),
    "InterPodAffinity": (
        ("AssignedPod", ("Add", "Delete", "UpdatePodLabel")),
        ("TargetPod", ("UpdatePodLabel",)),
        ("Node", ("Add", "UpdateNodeLabel")),
    ),
    "NodeAffinity": (("Node", ("Add", "UpdateNodeLabel")),),
    "NodeDeclaredFeatures": (("Node", ("Add", "UpdateNodeDeclaredFeature")), ("TargetPod", ("Update",))),
    "NodeName": (("Node", ("Add",)),),
    "NodePorts": (("AssignedPod", ("Delete",)), ("Node", ("Add",))),
    "NodeResourcesFit": (
        ("AssignedPod", ("Delete",)),
        ("Node", ("Add", "UpdateNodeAllocatable")),
        ("resource.k8s.io/DeviceClass", ("Add", "Update")),
        ("AssignedPod", ("UpdatePodScaleDown",)),
        ("TargetPod", ("UpdatePodScaleDown",)),
    ),
    "NodeUnschedulable": (("Node", ("Add", "UpdateNodeTaint")), ("TargetPod", ("UpdatePodToleration",))),
    "NodeVolumeLimits": (
        ("storage.k8s.io/CSINode", ("Add",)),
        ("storage.k8s.io/CSINode", ("Update",)),
        ("AssignedPod", ("Delete",)),
        ("PersistentVolumeClaim", ("Add",)),
        ("storage.k8s.io/VolumeAttachment", ("Delete",)),
    ),
    "PodTopologySpread": (
        ("AssignedPod", ("Add", "Delete", "UpdatePodLabel")),
        ("TargetPod", ("UpdatePodLabel", "UpdatePodToleration")),
        ("Node", ("Add", "Delete", "UpdateNodeLabel", "UpdateNodeTaint")),
    ),
    "SchedulingGates": (("TargetPod", ("UpdatePodSchedulingGatesEliminated",)),),
    "TaintToleration": (("Node", ("Add", "UpdateNodeTaint")), ("TargetPod", ("UpdatePodToleration",))),
    "VolumeBinding": (
        ("storage.k8s.io/StorageClass", ("Add", "Update")),
        ("PersistentVolumeClaim", ("Add", "Update")),
        ("PersistentVolume", ("Add", "Update")),
        ("Node", ("Add", "UpdateNodeLabel")),
        ("storage.k8s.io/CSINode", ("Add", "Update")),
        ("storage.k8s.io/CSIDriver", ("Update",)),
        ("storage.k8s.io/CSIStorageCapacity", ("Add", "Update")),
    ),
    "VolumeRestrictions": (
        ("AssignedPod", ("Delete",)),
        ("Node", ("Add",)),
        ("PersistentVolumeClaim", ("Add",)),
    ),
    "VolumeZone": (
        ("storage.k8s.io/StorageClass", ("Add",)),
        ("Node", ("Add", "UpdateNodeLabel")),
        ("PersistentVolumeClaim", ("Add", "Update")),
        ("PersistentVolume", ("Add", "Update")),
    ),
}


def _never(
    event: cluster_event.ClusterEvent, old: Any, new: Any, pods: Sequence[queue_pod.QueuedPod]
) -> Sequence[queue_hints.Hint]:
    """A pod that waits for its victims is looked at again when one is gone, but whether that helps others say."""
    return [queue_hints.Hint.SKIP] * len(pods)


_HINTS: Mapping[str, queue_hints.HintFunction] = {_PREEMPTION: _never}


def registrations(profile: model.CompletedProfile, cluster: CacheView) -> list[queue_hints.Registration]:
    """The registrations of a profile's in-tree plugins."""
    return [
        queue_hints.Registration(plugin, cluster_event.parse(resource, actions), _HINTS.get(plugin))
        for plugin in profile.all_names()
        for resource, actions in _TABLE.get(plugin, ())
    ]
