"""Which events plugins register that may help pods which they refused, each with its hint.

Source: EventsToRegister of the plugins.

Tests: tests/unit/queueing/test_registrations.py, tests/unit/plugins/test_hints_table.py,
tests/unit/plugins/test_node_volume_limits_hints.py.
"""

from collections.abc import Sequence
from typing import Any

from trireme.config import gates, scheduler_configuration
from trireme.framework import cluster_event
from trireme.plugin_api.hints import ClassHint, EventHint, HintContext
from trireme.queueing.hints.cluster_view import CacheView
from trireme.queueing.hints.queueing_hint_map import EventRegistration, HintAnswer, HintFunction
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.registry import queue_plugins

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


def of_in_tree_plugins(
    profile: scheduler_configuration.CompletedProfile, features: gates.FeatureGates, cluster: CacheView
) -> list[EventRegistration]:
    """The events that the profile's in-tree plugins register."""
    return [
        EventRegistration(
            plugin,
            cluster_event.parse(registered.resource, registered.actions),
            None if registered.hint is None else _hint_by_class(registered.hint, registered.nominee_hint, cluster),
        )
        for plugin in profile.all_names()
        for registered in queue_plugins.events_to_register(plugin, HintContext(profile.args(plugin), features, cluster))
    ]


def of_extenders(features: gates.FeatureGates) -> list[EventRegistration]:
    """The events that may help pods which HTTP extenders refused."""
    kinds = (*_EXTENDER_EVENTS, _POD_GROUP) if features.enabled("GenericWorkload") else _EXTENDER_EVENTS
    return [EventRegistration(_EXTENDER, cluster_event.parse(kind, ("All",))) for kind in kinds]


def _hint_by_class(event_hint: EventHint, nominee_hint: EventHint | None, cluster: CacheView) -> HintFunction:
    """Make a hint that decodes the event once, and evaluates each pod's class; of pods nominated to its node twice.

    An error about one pod concerns no other.
    """

    def hint(
        event: cluster_event.ClusterEvent, old: Any, new: Any, pods: Sequence[QueuedPodInfo]
    ) -> Sequence[HintAnswer]:
        """The hint's answer for each of these pods."""
        helps = event_hint(old, new)
        answers = [_hint_for(pod, helps, cluster) for pod in pods]
        if nominee_hint is None:
            return answers
        return [
            _hint_for(pod, nominee_hint(old, new), cluster)
            if answer is HintAnswer.SKIP and pod.record.nominated_node == new.metadata.name
            else answer
            for pod, answer in zip(pods, answers, strict=True)
        ]

    return hint


def _hint_for(pod: QueuedPodInfo, helps: ClassHint, cluster: CacheView) -> HintAnswer:
    """The hint's answer for one pod; ERROR, which wakes it, where the hint fails."""
    try:
        return HintAnswer.QUEUE if helps(cluster.class_of_waiting_pod(pod.record.class_id)) else HintAnswer.SKIP
    except Exception:
        # Whatever is wrong must not put the pod to sleep; the metric shows it.
        return HintAnswer.ERROR
