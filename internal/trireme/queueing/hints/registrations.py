"""Which events each in-tree plugin registers, with its hints. Source: EventsToRegister of the plugins.

A plugin that is not named here refuses nobody, or nobody whom an event could help.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trireme.config import gates, model
from trireme.framework import cluster_event
from trireme.queueing import queue_hints, queued_pod
from trireme.queueing.hints import dynamic_resources, nodes, pod_groups, pods, resources, volumes
from trireme.queueing.hints.cluster_view import CacheView
from trireme.queueing.hints.wanted import Helps, Reading, Setting, Wanted, always, never


def _default_preemption(setting: Setting) -> Sequence[Wanted]:
    """A pod that waits for its victims hears when one is gone, but whether that helps is for others to say."""
    if not setting.features.enabled("SchedulerAsyncPreemption"):
        return ()
    return (Wanted("AssignedPod", ("Delete",), never),)


def _scheduling_gates(setting: Setting) -> Sequence[Wanted]:
    return (Wanted("TargetPod", ("UpdatePodSchedulingGatesEliminated",), always),)


_PLUGINS: Mapping[str, Callable[[Setting], Sequence[Wanted]]] = {
    "DefaultPreemption": _default_preemption,
    "DeferredPodScheduling": nodes.deferred_pod_scheduling,
    "DynamicResources": dynamic_resources.dynamic_resources,
    "GangScheduling": pod_groups.gang_scheduling,
    "InterPodAffinity": pods.inter_pod_affinity,
    "NodeAffinity": nodes.node_affinity_hints,
    "NodeDeclaredFeatures": nodes.declared_features,
    "NodeName": nodes.node_name,
    "NodePorts": resources.node_ports_hints,
    "NodeResourcesFit": resources.node_resources_fit,
    "NodeUnschedulable": nodes.node_unschedulable,
    "NodeVolumeLimits": volumes.node_volume_limits,
    "PodTopologySpread": pods.pod_topology_spread,
    "SchedulingGates": _scheduling_gates,
    "TaintToleration": nodes.taint_toleration,
    "VolumeBinding": volumes.volume_binding,
    "VolumeRestrictions": volumes.volume_restrictions_hints,
    "VolumeZone": volumes.volume_zone_hints,
}


# An extender cannot say what would help a pod that it refused: every event of a kind that the scheduler follows may.
_EXTENDER = "Extender"
_EXTENDER_EVENTS = (
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
)
_POD_GROUP = "scheduling.k8s.io/PodGroup"


def of_extenders(features: gates.FeatureGates) -> list[queue_hints.Registration]:
    """The registrations of a profile whose pods extenders may refuse."""
    kinds = (*_EXTENDER_EVENTS, _POD_GROUP) if features.enabled("GenericWorkload") else _EXTENDER_EVENTS
    return [queue_hints.Registration(_EXTENDER, cluster_event.parse(kind, ("All",))) for kind in kinds]


def registrations(
    profile: model.CompletedProfile, features: gates.FeatureGates, cluster: CacheView
) -> list[queue_hints.Registration]:
    """The registrations of a profile's in-tree plugins."""
    return [
        queue_hints.Registration(plugin, cluster_event.parse(wanted.resource, wanted.actions), _hint(wanted, cluster))
        for plugin in profile.all_names()
        if plugin in _PLUGINS
        for wanted in _PLUGINS[plugin](Setting(profile.args(plugin), features, cluster))
    ]


def _hint(wanted: Wanted, cluster: CacheView) -> queue_hints.HintFunction | None:
    return None if wanted.reading is None else _by_class(wanted.reading, cluster)


def _by_class(reading: Reading, cluster: CacheView) -> queue_hints.HintFunction:
    """Reads the event once, and asks about each pod's class. An error about one pod concerns no other."""

    def hint(
        event: cluster_event.ClusterEvent, old: Any, new: Any, pods: Sequence[queued_pod.QueuedPodInfo]
    ) -> Sequence[queue_hints.Hint]:
        helps = reading(old, new)
        return [_answer(helps, cluster, pod) for pod in pods]

    return hint


def _answer(helps: Helps, cluster: CacheView, pod: queued_pod.QueuedPodInfo) -> queue_hints.Hint:
    try:
        return queue_hints.Hint.QUEUE if helps(cluster.waiting(pod.record.class_id)) else queue_hints.Hint.SKIP
    except Exception:
        # Whatever is wrong must not put the pod to sleep; the metric shows it.
        return queue_hints.Hint.ERROR
