"""The bodies of the writes beside a binding, as pure functions of the action and of the object as it is.

They are those that kube-scheduler sends. What is changed as a whole is changed as the raw JSON that was read, because
the program's own messages are subsets and would lose the rest.
Source: pkg/scheduler/util PatchPodStatus and pkg/scheduler/framework/preemption of Kubernetes 1.37; the writes of a
real kube-scheduler as an API server recorded them.

Also change: internal/trireme_kube/client/status_patch.py (status patches).
"""

from collections.abc import Mapping
from typing import Any

from trireme.framework import pod_conditions
from trireme.v1 import bind_pb2
from trireme_kube.apimachinery import timestamps
from trireme_kube.client import status_patch


def condition_patch(wanted: bind_pb2.SetCondition, now: str) -> dict[str, Any]:
    """Make the status patch that sets a condition, and the nomination if given (empty: removes it).

    `now` is the time of the transition if the condition has none.
    """
    condition = wanted.condition
    since = condition.last_transition_time
    patch = status_patch.pod_status_patch(
        (),
        status_patch.Condition(
            condition.type, condition.status, condition.reason, condition.message, condition.observed_generation
        ),
        timestamps.rfc3339_seconds(since.seconds * 1_000_000_000)
        if condition.HasField("last_transition_time")
        else now,
    )
    assert patch is not None, "a condition that the pod is not known to have is a change"
    if wanted.HasField("nominated_node_name"):
        patch["status"]["nominatedNodeName"] = wanted.nominated_node_name or None
    return patch


def group_condition_patch(wanted: bind_pb2.SetGroupCondition) -> dict[str, Any]:
    """The status patch that sets a group's condition."""
    condition = wanted.condition
    complete = {
        "type": condition.type,
        "status": condition.status,
        "observedGeneration": condition.observed_generation,
        "lastTransitionTime": timestamps.rfc3339_seconds(condition.last_transition_time.seconds * 1_000_000_000),
        "reason": condition.reason,
        "message": condition.message,
    }
    return {"status": {"conditions": [complete]}}


def nomination_patch(node_name: str) -> dict[str, Any]:
    """The status patch that sets the nomination; "" clears it."""
    return {"status": {"nominatedNodeName": node_name or None}}


def disruption_patch(pod: Mapping[str, Any], evict: bind_pb2.Evict, now: str) -> dict[str, Any] | None:
    """The status patch that marks a pod as evicted by the scheduler, or None if it is marked already."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    generation = evict.observed_generation or pod["metadata"].get("generation", 0)
    marked = status_patch.Condition(
        pod_conditions.DISRUPTION_TARGET, "True", pod_conditions.PREEMPTED, evict.message, generation
    )
    return status_patch.pod_status_patch(conditions, marked, now)


def disruption_patch_of_unread_pod(uid: str, evict: bind_pb2.Evict, now: str) -> dict[str, Any]:
    """The status patch that marks a pod as evicted without knowing its conditions.

    The API server refuses the patch for another pod of that name.
    """
    marked = status_patch.Condition(
        pod_conditions.DISRUPTION_TARGET, "True", pod_conditions.PREEMPTED, evict.message, evict.observed_generation
    )
    patch = status_patch.pod_status_patch((), marked, now)
    assert patch is not None, "a condition that the pod is not known to have is a change"
    # A pod on a node has PodScheduled, a kubelet writes it last, and what is new comes after it.
    patch["status"]["$setElementOrder/conditions"] = [
        {"type": pod_conditions.POD_SCHEDULED},
        {"type": pod_conditions.DISRUPTION_TARGET},
    ]
    return {"metadata": {"uid": uid}, **patch}
