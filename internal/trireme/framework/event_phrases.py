"""Cluster events in words, for `trireme status` and `trireme explain`.

Metrics, logs and JSON use kube-scheduler's labels (`NodeUpdateNodeTaint`); people read a clause that goes on from
"when": "a node's taints change".

Tests: tests/unit/cli/test_display.py.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from trireme.framework import cluster_event
from trireme.framework.cluster_event import ActionType, Resource, action_label

# The objects of events.
_OBJECTS: Final = {
    Resource.ASSIGNED_POD.value: "a pod on a node",
    Resource.UNSCHEDULED_POD.value: "another pending pod",
    Resource.TARGET_POD.value: "this pod",
    Resource.POD.value: "a pod",
    Resource.NODE.value: "a node",
    Resource.NAMESPACE.value: "a namespace",
    Resource.WILDCARD.value: "anything",
}

# The actions on them. `{}` is the object.
_ACTIONS: Final = {
    ActionType.ADD: "{} is added",
    ActionType.DELETE: "{} is deleted",
    ActionType.UPDATE: "{} changes",
    ActionType.ALL: "{} is added, changes or is deleted",
    ActionType.UPDATE_NODE_ALLOCATABLE: "{}'s allocatable resources change",
    ActionType.UPDATE_NODE_LABEL: "{}'s labels change",
    ActionType.UPDATE_NODE_TAINT: "{}'s taints change",
    ActionType.UPDATE_NODE_CONDITION: "{}'s conditions change",
    ActionType.UPDATE_NODE_ANNOTATION: "{}'s annotations change",
    ActionType.UPDATE_NODE_DECLARED_FEATURE: "{}'s declared features change",
    ActionType.UPDATE_NODE_PREEMPTION_POLICY: "{}'s preemption policy changes",
    ActionType.UPDATE_POD_LABEL: "{}'s labels change",
    ActionType.UPDATE_POD_SCALE_DOWN: "{} requests less",
    ActionType.UPDATE_POD_SCALE_UP: "{} requests more",
    ActionType.UPDATE_POD_TOLERATION: "{} gets another toleration",
    ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED: "{}'s scheduling gates are removed",
    ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM: "{}'s generated ResourceClaims change",
}

# Moves within the queue, and the first and last event of every pod.
_MOVES: Final = {
    cluster_event.UNSCHEDULED_POD_ADD.label: "it came into the queue",
    cluster_event.SCHEDULE_ATTEMPT_FAILURE: "it could not be scheduled",
    cluster_event.BACKOFF_COMPLETE: "its back-off ended",
    cluster_event.POP_FROM_BACKOFF_Q: "nothing else was waiting",
    cluster_event.FORCE_ACTIVATE.label: "a plugin activated it",
    cluster_event.UNSCHEDULABLE_TIMEOUT.label: "it had waited long enough",
    cluster_event.MISSED_WAKE_UP.label: "insight found that it fits, though no event had woken it",
    cluster_event.POPPED: "its turn came",
    cluster_event.PLACED: "a node was chosen",
    cluster_event.BOUND: "it was bound",
    cluster_event.DELETED: "it was deleted",
    cluster_event.PLUGIN_JOINED.label: "the plugin joins or restarts",
    cluster_event.PLUGIN_REJECTED.label: "the scheduler stops using the plugin",
}

_GATED_BY: Final = ", gated by "

# The usual events, most frequent first: workloads come and go, then nodes do; the rest is rare.
_LIKELY: Final = (
    "AssignedPodDelete",
    "AssignedPodAdd",
    "NodeAdd",
    "NodeUpdateNodeTaint",
    "NodeUpdateNodeLabel",
    "NodeUpdateNodeAllocatable",
    "TargetPodUpdatePodSchedulingGatesEliminated",
    "AssignedPodUpdatePodLabel",
    "AssignedPodUpdatePodScaleDown",
    "TargetPodUpdatePodScaleDown",
    "TargetPodUpdatePodToleration",
    "PersistentVolumeClaimAdd",
    "PersistentVolumeClaimUpdate",
    "PersistentVolumeAdd",
    "resource.k8s.io/ResourceClaimUpdate",
    "resource.k8s.io/ResourceSliceAdd",
    "scheduling.k8s.io/PodGroupAdd",
)
_RANKS: Final = {label: rank for rank, label in enumerate(_LIKELY)}


def likely_first(labels: Iterable[str]) -> list[str]:
    """Labels of events, those first that happen most often in a cluster; the others by name."""
    return sorted(labels, key=lambda label: (_RANKS.get(label, len(_RANKS)), label))


def gated_phrase(label: str, plugin: str, reason: str) -> str:
    """The cause of a transition to the state in which a plugin gates the pod; the label alone without a plugin."""
    if not plugin:
        return label
    return f"{label}{_GATED_BY}{plugin}: {reason}" if reason else f"{label}{_GATED_BY}{plugin}"


def is_gated(text: str) -> bool:
    """Whether this is the cause of a transition to the state in which a plugin gates the pod."""
    return _GATED_BY in text


def event_cause(text: str) -> str:
    """Why a pod moved within the queue, as a clause."""
    label, gate, rest = text.partition(_GATED_BY)
    return event_phrase(label) + gate + rest


# Events that a summary names.
_SHOWN = 2


def event_phrase(label: str) -> str:
    """The event as a clause; a label that is not an event's is returned unchanged."""
    return _PHRASES.get(label) or _phrase_of_other_kind(label) or label


def events_summary(labels: Sequence[str]) -> str:
    """The first events as clauses, and how many more there are; `labels` is in the order to be shown."""
    clauses = [event_phrase(label) for label in labels[:_SHOWN]]
    more = len(labels) - len(clauses)
    if more > 0:
        clauses.append(f"on {more} rarer event{'s' if more > 1 else ''}")
    return " or ".join((", ".join(clauses[:-1]), clauses[-1])) if len(clauses) > 1 else "".join(clauses)


def _phrase_of_other_kind(label: str) -> str:
    """An event of a resource that only a remote plugin names."""
    for action, text in sorted(_ACTIONS.items(), key=lambda entry: -len(action_label(entry[0]))):
        resource = label.removesuffix(action_label(action))
        if resource and resource != label:
            return text.format(_resource_with_article(resource))
    return ""


def _resource_with_article(resource: str) -> str:
    kind = resource.rpartition("/")[2].partition(".")[0]
    return _OBJECTS.get(resource) or f"{'an' if kind[:1].lower() in 'aeio' else 'a'} {kind}"


_PHRASES: Final = {
    f"{resource.value}{action_label(action)}": text.format(_resource_with_article(resource.value))
    for resource in Resource
    for action, text in _ACTIONS.items()
} | _MOVES
