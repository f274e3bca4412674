"""ClusterEvent: a change in the cluster, in the words that plugins register for.

A refused pod sleeps until an event that may help it. To make that precise, an update is first split into the parts of
the object that changed (labels, taints, requests, …): `pod_update_events` and `node_update_events` do so, as pure
functions over the object before and after. Names, labels and matching are kube-scheduler's, since they appear in
metrics, in plugins' registrations and in `trireme status`.

Source: pkg/scheduler/framework/events.go and types.go, k8s.io/kube-scheduler/framework/types.go (v1.37).

Also change: sdk/go/framework/events.go, sdk/go/queueing.go, docs/extension-points.md (names of events).
"""

import enum
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from trireme.framework import amounts, pod_conditions
from trireme.v1 import core_pb2, meta_pb2
from trireme_kube.apimachinery import quantity


class ActionType(enum.IntFlag):
    """Kinds of change; one bit each, in kube-scheduler's order, because matching compares the numbers."""

    ADD = 1 << 0
    DELETE = 1 << 1
    UPDATE_NODE_ALLOCATABLE = 1 << 2
    UPDATE_NODE_LABEL = 1 << 3
    UPDATE_NODE_TAINT = 1 << 4
    UPDATE_NODE_CONDITION = 1 << 5
    UPDATE_NODE_ANNOTATION = 1 << 6
    UPDATE_NODE_DECLARED_FEATURE = 1 << 7
    UPDATE_NODE_PREEMPTION_POLICY = 1 << 8
    UPDATE_POD_LABEL = 1 << 9
    UPDATE_POD_SCALE_DOWN = 1 << 10
    UPDATE_POD_SCALE_UP = 1 << 11
    UPDATE_POD_TOLERATION = 1 << 12
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 1 << 13
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 1 << 14
    UPDATE = (1 << 15) - 1 - ADD - DELETE
    ALL = (1 << 15) - 1


class Resource(enum.StrEnum):
    """What changed. Registrations may also name others, as `group/Kind`."""

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULED_POD = "UnscheduledPod"
    TARGET_POD = "TargetPod"
    NODE = "Node"
    NAMESPACE = "Namespace"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    POD_GROUP = "scheduling.k8s.io/PodGroup"
    COMPOSITE_POD_GROUP = "scheduling.k8s.io/CompositePodGroup"
    WILDCARD = "*"


# The kinds of pod that a registration for `Pod` stands for.
POD_RESOURCES: Final = (Resource.ASSIGNED_POD, Resource.UNSCHEDULED_POD, Resource.TARGET_POD)

_ACTION_LABELS: Final[Mapping[int, str]] = {
    action.value: "".join(word.capitalize() for word in (action.name or "").split("_"))
    for action in (*ActionType, ActionType.UPDATE, ActionType.ALL)
}
_ACTIONS_BY_LABEL: Final = {label: ActionType(value) for value, label in _ACTION_LABELS.items()}


_RESOURCES: Final = tuple(resource.value for resource in Resource)


def _can_have_action(resource: str, action: ActionType) -> bool:
    if (
        action in (ActionType.ADD, ActionType.DELETE, ActionType.UPDATE, ActionType.ALL)
        or resource == Resource.WILDCARD
    ):
        return True
    of_nodes = (action.name or "").startswith("UPDATE_NODE_")
    return resource == Resource.NODE if of_nodes else resource in (Resource.POD, *POD_RESOURCES)


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """One kind of change: a resource, an action on it, and a label if it is not made of these two."""

    resource: str
    action: ActionType
    custom_label: str = ""
    label: str = field(init=False, repr=False, compare=False)
    """The name in metrics and logs, e.g. `NodeUpdateNodeTaint`."""

    def __post_init__(self) -> None:
        label = self.custom_label or f"{self.resource}{_ACTION_LABELS.get(self.action, '')}"
        object.__setattr__(self, "label", label)

    @property
    def wildcard(self) -> bool:
        """Whether it concerns every pod, whatever refused it."""
        return self.resource == Resource.WILDCARD and self.action == ActionType.ALL

    def matches(self, incoming: "ClusterEvent") -> bool:
        """Whether a registration for this event covers `incoming`, which is the same or more specific."""
        if self.wildcard:
            return True
        action = incoming.action
        return bool(self.action & action) and action <= self.action and self._covers_resource(incoming.resource)

    def _covers_resource(self, resource: str) -> bool:
        """Whether a registration for its resource includes this one: the same, any, or a kind of pod."""
        if self.resource in (Resource.WILDCARD, resource):
            return True
        return self.resource == Resource.POD and resource in POD_RESOURCES

    def unrolled(self) -> tuple["ClusterEvent", ...]:
        """A registration for `Pod` as three, one per kind of pod; any other as itself."""
        if self.resource != Resource.POD:
            return (self,)
        return tuple(ClusterEvent(resource, self.action) for resource in POD_RESOURCES)


# Labels of moves that no change of an object caused.
SCHEDULE_ATTEMPT_FAILURE: Final = "ScheduleAttemptFailure"
BACKOFF_COMPLETE: Final = "BackoffComplete"
POP_FROM_BACKOFF_Q: Final = "PopFromBackoffQ"

# Labels of the transitions of a pod that leaves the queue: for an attempt, when it got a node, and for good.
POPPED: Final = "popped"
PLACED: Final = "done"
BOUND: Final = "bound"
DELETED: Final = "deleted"
GONE: Final = "gone when requeued"

ASSIGNED_POD_ADD: Final = ClusterEvent(Resource.ASSIGNED_POD, ActionType.ADD)
ASSIGNED_POD_DELETE: Final = ClusterEvent(Resource.ASSIGNED_POD, ActionType.DELETE)
UNSCHEDULED_POD_ADD: Final = ClusterEvent(Resource.UNSCHEDULED_POD, ActionType.ADD)
NODE_ADD: Final = ClusterEvent(Resource.NODE, ActionType.ADD)
FORCE_ACTIVATE: Final = ClusterEvent(Resource.WILDCARD, ActionType.ALL, "ForceActivate")
UNSCHEDULABLE_TIMEOUT: Final = ClusterEvent(Resource.WILDCARD, ActionType.ALL, "UnschedulableTimeout")
#: A waiting pod was found to fit, though no event had woken it.
MISSED_WAKE_UP: Final = ClusterEvent(Resource.WILDCARD, ActionType.ALL, "MissedWakeUp")

#: A remote plugin can be called now that was missing, rejected or without the cluster, or it is another version or
#: instance. The new object of both events is the plugin's name.
PLUGIN_JOINED: Final = ClusterEvent("trireme.dev/RemotePlugin", ActionType.ADD)
#: A remote plugin that took part is rejected, or has not received the cluster: the pods that need it wait.
PLUGIN_REJECTED: Final = ClusterEvent("trireme.dev/RemotePlugin", ActionType.DELETE)


@functools.lru_cache(maxsize=4096)
def event(resource: str, action: ActionType) -> ClusterEvent:
    """The event of that resource and action; one shared object for each, so that thousands can be stored."""
    return ClusterEvent(resource, action)


def parse(resource: str, actions: Iterable[str]) -> ClusterEvent:
    """The event that a plugin registers by names.

    Raises: ValueError for an unknown resource, an unknown action or one that the resource does not have, or no action;
    the text names the supported values.
    """
    if resource not in _RESOURCES:
        raise ValueError(f"resource: Unsupported value: {resource!r}: supported values: {', '.join(_RESOURCES)}")
    supported = [label for label, action in _ACTIONS_BY_LABEL.items() if _can_have_action(resource, action)]
    combined = ActionType(0)
    for name in actions:
        if name not in supported:
            raise ValueError(f"actions: Unsupported value: {name!r}: supported values: {', '.join(supported)}")
        combined |= _ACTIONS_BY_LABEL[name]
    if not combined:
        raise ValueError("actions: Required value")
    return ClusterEvent(resource, combined)


def action_label(action: ActionType) -> str:
    """How the action is written in labels, e.g. `UpdateNodeTaint`."""
    return _ACTION_LABELS[action]


def action_names(action: ActionType) -> list[str]:
    """The names of the actions in `action`, `Update` where all updates are among them."""
    names = ["Update"] if action & ActionType.UPDATE == ActionType.UPDATE else []
    return names + [_ACTION_LABELS[bit] for bit in action if not (names and bit & ActionType.UPDATE)]


def pod_update_events(
    old: core_pb2.Pod, new: core_pb2.Pod, *, target: bool, rules: amounts.Rules = amounts.DEFAULT_RULES
) -> list[ClusterEvent]:
    """The changes in an update of a pod, at least one event.

    `target`: the event is for that pod itself, while it is queued.
    """
    if new.spec.node_name:
        resource = Resource.ASSIGNED_POD
    elif target:
        resource = Resource.TARGET_POD
    else:
        resource = Resource.UNSCHEDULED_POD
    return [event(resource, action) for action in _pod_change_actions(old, new, rules)] or [
        event(resource, ActionType.UPDATE)
    ]


def _pod_change_actions(old: core_pb2.Pod, new: core_pb2.Pod, rules: amounts.Rules) -> list[ActionType]:
    """The kinds of change between two versions of a pod."""
    actions = []
    if old.metadata.labels != new.metadata.labels:
        actions.append(ActionType.UPDATE_POD_LABEL)
    if not _same_requests(old, new):
        actions += _actions_of_request_change(amounts.exact_requests(old, rules), amounts.exact_requests(new, rules))
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        actions.append(ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    # Tolerations can be added, never changed or removed, so their number suffices.
    if len(old.spec.tolerations) != len(new.spec.tolerations):
        actions.append(ActionType.UPDATE_POD_TOLERATION)
    if not _same_claim_statuses(old.status, new.status):
        actions.append(ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    return actions


def _actions_of_request_change(old: Mapping[str, int], new: Mapping[str, int]) -> list[ActionType]:
    """Whether requests went down, up, or, by resource, both."""
    actions = []
    if any(name not in new or new[name] < amount for name, amount in old.items()):
        actions.append(ActionType.UPDATE_POD_SCALE_DOWN)
    if any(name not in old or old[name] < amount for name, amount in new.items()):
        actions.append(ActionType.UPDATE_POD_SCALE_UP)
    return actions


def _same_requests(old: core_pb2.Pod, new: core_pb2.Pod) -> bool:
    """Whether all fields that requests are computed from are equal.

    Spares the arithmetic on every pod's status updates.
    """
    same_spec = old.spec == new.spec or (
        old.spec.containers == new.spec.containers
        and old.spec.init_containers == new.spec.init_containers
        and old.spec.resources == new.spec.resources
        and old.spec.overhead == new.spec.overhead
    )
    return same_spec and _status_parts_of_requests(old.status) == _status_parts_of_requests(new.status)


def _status_parts_of_requests(status: core_pb2.PodStatus) -> list[object]:
    """The parts of the status that requests depend on, for comparison."""
    state: list[object] = [status.HasField("resources"), status.resources, status.allocated_resources]
    for entry in (*status.init_container_statuses, *status.container_statuses):
        if entry.allocated_resources or entry.HasField("resources"):
            state += [entry.name, entry.allocated_resources, entry.HasField("resources"), entry.resources]
    state += [condition.reason for condition in status.conditions if condition.type == pod_conditions.RESIZE_PENDING]
    return state


def _same_claim_statuses(old: core_pb2.PodStatus, new: core_pb2.PodStatus) -> bool:
    """Whether the claims that were made for the pod are the same."""
    return (
        old.resource_claim_statuses == new.resource_claim_statuses
        and old.HasField("extended_resource_claim_status") == new.HasField("extended_resource_claim_status")
        and old.extended_resource_claim_status == new.extended_resource_claim_status
    )


def node_update_events(old: core_pb2.Node, new: core_pb2.Node) -> list[ClusterEvent]:
    """The changes in an update of a node that scheduling may depend on; often none (heartbeats)."""
    actions = []
    if old.spec.unschedulable and not new.spec.unschedulable:
        actions.append(ActionType.UPDATE_NODE_TAINT)
    if not _same_quantities_by_value(old.status.allocatable, new.status.allocatable):
        actions.append(ActionType.UPDATE_NODE_ALLOCATABLE)
    if old.metadata.labels != new.metadata.labels:
        actions.append(ActionType.UPDATE_NODE_LABEL)
    if old.spec.taints != new.spec.taints:
        actions.append(ActionType.UPDATE_NODE_TAINT)
    if _condition_statuses(old) != _condition_statuses(new):
        actions.append(ActionType.UPDATE_NODE_CONDITION)
    if old.metadata.annotations != new.metadata.annotations:
        actions.append(ActionType.UPDATE_NODE_ANNOTATION)
    if _preemption_policy(old.spec) != _preemption_policy(new.spec):
        actions.append(ActionType.UPDATE_NODE_PREEMPTION_POLICY)
    if old.status.declared_features != new.status.declared_features:
        actions.append(ActionType.UPDATE_NODE_DECLARED_FEATURE)
    return [event(Resource.NODE, action) for action in actions]


def _same_quantities_by_value(old: Mapping[str, meta_pb2.Quantity], new: Mapping[str, meta_pb2.Quantity]) -> bool:
    """Compares by value: `1` and `1000m` are the same."""
    if old == new:
        return True
    return old.keys() == new.keys() and all(
        quantity.parse_quantity(old[name].string).nanos == quantity.parse_quantity(new[name].string).nanos
        for name in old
    )


def _condition_statuses(node: core_pb2.Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}


def _preemption_policy(spec: core_pb2.NodeSpec) -> tuple[str, ...] | None:
    """The node's policy on preemption for resizes, for comparison; None: it has none."""
    if not spec.HasField("pod_preemption_policy"):
        return None
    return tuple(spec.pod_preemption_policy.disable_resize_preemption)
