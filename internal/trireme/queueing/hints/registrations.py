"""Which events the in-tree plugins of a profile register, with their hints, and which help pods that extenders refuse.

Source: EventsToRegister of the plugins.
"""

from collections.abc import Sequence
from typing import Any

from trireme.config import gates, model
from trireme.framework import cluster_event
from trireme.plugin_api.hints import ClassHint, ClusterEventWithHint, EventHint, HintContext
from trireme.queueing import queue_hints, queued_pod
from trireme.queueing.hints.cluster_view import CacheView
from trireme.registry import queue_sides

# An extender cannot name the events that would help a pod that it refused: every event of a kind that the scheduler
# follows may.
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
        queue_hints.Registration(
            plugin, cluster_event.parse(registered.resource, registered.actions), _hint(registered, cluster)
        )
        for plugin in profile.all_names()
        for registered in queue_sides.events(plugin, HintContext(profile.args(plugin), features, cluster))
    ]


def _hint(registered: ClusterEventWithHint, cluster: CacheView) -> queue_hints.HintFunction | None:
    return None if registered.hint is None else _by_class(registered.hint, cluster)


def _by_class(event_hint: EventHint, cluster: CacheView) -> queue_hints.HintFunction:
    """Reads the event once, and evaluates each pod's class. An error about one pod concerns no other."""

    def hint(
        event: cluster_event.ClusterEvent, old: Any, new: Any, pods: Sequence[queued_pod.QueuedPodInfo]
    ) -> Sequence[queue_hints.Hint]:
        helps = event_hint(old, new)
        return [_answer(helps, cluster, pod) for pod in pods]

    return hint


def _answer(helps: ClassHint, cluster: CacheView, pod: queued_pod.QueuedPodInfo) -> queue_hints.Hint:
    try:
        return queue_hints.Hint.QUEUE if helps(cluster.waiting(pod.record.class_id)) else queue_hints.Hint.SKIP
    except Exception:
        # Whatever is wrong must not put the pod to sleep; the metric shows it.
        return queue_hints.Hint.ERROR
