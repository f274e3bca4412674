"""What each plugin registers, with feature gates in both positions: the whole table, so that no row goes unnoticed.

Source: EventsToRegister of each plugin in pkg/scheduler/framework/plugins of Kubernetes 1.37; for extenders
UnrollWildCardResource in pkg/scheduler/framework/types.go.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.helpers.hint_answers import configuration
from trireme.cache import class_registry, cluster_cache
from trireme.config import gates
from trireme.framework import cluster_event
from trireme.queueing.hints import cluster_view, queueing_hint_map, registrations
from trireme.v1 import core_pb2

# Resource, actions, and whether there is a hint; without one every such event wakes the pod.
Row = tuple[str, frozenset[str], bool]
Table = Mapping[str, Sequence[Row]]


def hinted(resource: str, *actions: str) -> Row:
    """An event that a hint weighs."""
    return resource, frozenset(actions), True


def always(resource: str, *actions: str) -> Row:
    """An event that wakes every pod that the plugin refused."""
    return resource, frozenset(actions), False


DEFAULT: Table = {
    "DefaultPreemption": [hinted("AssignedPod", "Delete")],
    "DynamicResources": [
        always("Node", "Add", "UpdateNodeAllocatable", "UpdateNodeLabel"),
        hinted("resource.k8s.io/ResourceClaim", "Add", "Update", "Delete"),
        hinted("TargetPod", "UpdatePodGeneratedResourceClaim"),
        always("resource.k8s.io/DeviceClass", "Add", "Update"),
        always("resource.k8s.io/ResourceSlice", "Add", "Update"),
    ],
    "InterPodAffinity": [
        hinted("AssignedPod", "Add", "UpdatePodLabel", "Delete"),
        hinted("TargetPod", "UpdatePodLabel"),
        hinted("Node", "Add", "UpdateNodeLabel"),
    ],
    "NodeAffinity": [hinted("Node", "Add", "UpdateNodeLabel")],
    "NodeDeclaredFeatures": [hinted("Node", "Add", "UpdateNodeDeclaredFeature"), hinted("TargetPod", "Update")],
    "NodeName": [always("Node", "Add")],
    "NodePorts": [hinted("AssignedPod", "Delete"), always("Node", "Add")],
    "NodeResourcesFit": [
        hinted("AssignedPod", "Delete"),
        hinted("Node", "Add", "UpdateNodeAllocatable"),
        hinted("resource.k8s.io/DeviceClass", "Add", "Update"),
        hinted("AssignedPod", "UpdatePodScaleDown"),
        hinted("TargetPod", "UpdatePodScaleDown"),
    ],
    "NodeUnschedulable": [hinted("Node", "Add", "UpdateNodeTaint"), hinted("TargetPod", "UpdatePodToleration")],
    "NodeVolumeLimits": [
        always("storage.k8s.io/CSINode", "Add"),
        hinted("storage.k8s.io/CSINode", "Update"),
        hinted("AssignedPod", "Delete"),
        hinted("PersistentVolumeClaim", "Add"),
        hinted("storage.k8s.io/VolumeAttachment", "Delete"),
    ],
    "PodTopologySpread": [
        hinted("AssignedPod", "Add", "UpdatePodLabel", "Delete"),
        hinted("TargetPod", "UpdatePodToleration", "UpdatePodLabel"),
        hinted("Node", "Add", "Delete", "UpdateNodeLabel", "UpdateNodeTaint"),
    ],
    "SchedulingGates": [hinted("TargetPod", "UpdatePodSchedulingGatesEliminated")],
    "TaintToleration": [hinted("Node", "Add", "UpdateNodeTaint"), hinted("TargetPod", "UpdatePodToleration")],
    "VolumeBinding": [
        hinted("storage.k8s.io/StorageClass", "Add", "Update"),
        hinted("PersistentVolumeClaim", "Add", "Update"),
        always("PersistentVolume", "Add", "Update"),
        always("Node", "Add", "UpdateNodeLabel"),
        hinted("storage.k8s.io/CSINode", "Add", "Update"),
        hinted("storage.k8s.io/CSIDriver", "Update"),
        hinted("storage.k8s.io/CSIStorageCapacity", "Add", "Update"),
    ],
    "VolumeRestrictions": [
        hinted("AssignedPod", "Delete"),
        always("Node", "Add"),
        hinted("PersistentVolumeClaim", "Add"),
    ],
    "VolumeZone": [
        hinted("storage.k8s.io/StorageClass", "Add"),
        always("Node", "Add", "UpdateNodeLabel"),
        hinted("PersistentVolumeClaim", "Add", "Update"),
        hinted("PersistentVolume", "Add", "Update"),
    ],
}

FIT = DEFAULT["NodeResourcesFit"]
GANG = [
    hinted("UnscheduledPod", "Add"),
    hinted("AssignedPod", "Add"),
    hinted("scheduling.k8s.io/PodGroup", "Add"),
    hinted("scheduling.k8s.io/PodGroup", "Update"),
]

# Gates that are not at their default, and the plugins that then register something else.
CHANGES: Mapping[str, tuple[Mapping[str, bool], Table]] = {
    "defaults": ({}, {}),
    "no synchronous preemption": ({"SchedulerAsyncPreemption": False}, {"DefaultPreemption": []}),
    "no devices for extended resources": (
        {"DRAExtendedResource": False},
        {"NodeResourcesFit": [row for row in FIT if "DeviceClass" not in row[0]]},
    ),
    "room for resizes": (
        {"InPlacePodVerticalScalingSchedulerPreemption": True},
        {
            "DeferredPodScheduling": [hinted("Node", "UpdateNodePreemptionPolicy"), hinted("Node", "Add")],
            "NodeResourcesFit": [
                *FIT,
                hinted("AssignedPod", "UpdatePodScaleUp"),
                hinted("TargetPod", "UpdatePodScaleUp"),
            ],
        },
    ),
    "no declared features": ({"NodeDeclaredFeatures": False}, {"NodeDeclaredFeatures": []}),
    "groups": ({"GenericWorkload": True}, {"GangScheduling": GANG}),
    "groups of groups": (
        {"GenericWorkload": True, "CompositePodGroup": True, "TopologyAwareWorkloadScheduling": True},
        {
            "GangScheduling": [
                *GANG,
                hinted("scheduling.k8s.io/CompositePodGroup", "Add"),
                hinted("scheduling.k8s.io/CompositePodGroup", "Update"),
            ]
        },
    ),
}


def registered(features: Mapping[str, bool]) -> dict[str, list[Row]]:
    """What the default profile's plugins register with these gates, in order."""
    profile, chosen = configuration(dict(features))
    cache = cluster_cache.ClusterCache(class_registry.ClassRegistry())
    out: dict[str, list[Row]] = {}
    for entry in registrations.of_in_tree_plugins(profile, chosen, cluster_view.CacheView(cache)):
        out.setdefault(entry.plugin, []).append(_row(entry))
    return out


def _row(entry: queueing_hint_map.EventRegistration) -> Row:
    actions = frozenset(cluster_event.action_names(entry.event.action))
    assert not entry.remote
    return str(entry.event.resource), actions, entry.hint is not None


@pytest.mark.parametrize("case", CHANGES)
def test_the_table_is_that_of_the_plugins(case: str) -> None:
    """If this fails, pods that a plugin refused sleep through an event that helps them, or are tried at each one."""
    features, changes = CHANGES[case]
    expected: dict[str, Any] = {plugin: list(rows) for plugin, rows in {**DEFAULT, **changes}.items() if rows}
    found = registered(features)
    assert {plugin: sorted(rows, key=str) for plugin, rows in found.items()} == {
        plugin: sorted(rows, key=str) for plugin, rows in expected.items()
    }


@pytest.mark.parametrize("groups", [False, True], ids=["no groups", "groups"])
def test_whatever_changes_may_help_a_pod_that_an_extender_refused(groups: bool) -> None:
    """If this fails, a pod that an extender refused waits five minutes."""
    features = gates.FeatureGates(values={"GenericWorkload": groups})
    resources = {
        "Pod",
        "Node",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "storage.k8s.io/CSINode",
        "storage.k8s.io/CSIDriver",
        "storage.k8s.io/CSIStorageCapacity",
        "storage.k8s.io/StorageClass",
        "resource.k8s.io/ResourceClaim",
        "resource.k8s.io/DeviceClass",
        *(["scheduling.k8s.io/PodGroup"] if groups else []),
    }
    found = registrations.of_extenders(features)
    assert {(entry.plugin, str(entry.event.resource)) for entry in found} == {("Extender", name) for name in resources}
    assert {entry.event.action for entry in found} == {cluster_event.ActionType.ALL}
    assert not any(entry.hint or entry.remote for entry in found)


def test_the_latest_pods_of_events_are_cached() -> None:
    """If this fails, an event about a pod is read again for each class, or the pods of all events stay in memory."""
    view = cluster_view.CacheView(cluster_cache.ClusterCache(class_registry.ClassRegistry()))
    pods = [core_pb2.Pod() for _ in range(257)]
    first = [view.class_of(pod) for pod in pods[:256]]
    assert all(view.class_of(pod) is known for pod, known in zip(pods, first, strict=False))
    # Such a pod belongs to no class that the registry has.
    assert {pod_class.id for pod_class in first} == {0}
    last = view.class_of(pods[256])
    assert view.class_of(pods[256]) is last
    assert view.class_of(pods[1]) is first[1]
    assert view.class_of(pods[0]) is not first[0]
