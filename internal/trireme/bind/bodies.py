"""The bodies of the writes beside a binding, as pure functions of the action and of the object as it is.

They are those that kube-scheduler sends. What is changed as a whole is changed as the raw JSON that was read, because
the program's own messages are subsets and would lose the rest.
Source: pkg/scheduler/util PatchPodStatus, pkg/scheduler/framework/preemption and the DynamicResources plugin of
Kubernetes 1.37; the writes of a real kube-scheduler as an API server recorded them.
"""

from collections.abc import Mapping
from typing import Any

from trireme.v1 import bind_pb2, cycle_pb2
from trireme_kube.apimachinery import timestamps
from trireme_kube.client import status_patch

DELETE_PROTECTION = "resource.kubernetes.io/delete-protection"
DISRUPTION_TARGET = "DisruptionTarget"
PREEMPTED = "PreemptionByScheduler"


def condition_patch(wanted: bind_pb2.SetCondition, now: str) -> dict[str, Any]:
    """The status patch that sets a condition and, where asked, the nomination. `now` is for one without a time."""
    condition = wanted.condition
    since = condition.last_transition_time
    patch = status_patch.pod_status_patch(
        (),
        status_patch.Condition(
            condition.type, condition.status, condition.reason, condition.message, condition.observed_generation
        ),
        timestamps.seconds(since.seconds * 1_000_000_000) if condition.HasField("last_transition_time") else now,
    )
    if patch is None:
        raise AssertionError("a condition that the pod is not known to have is a change")
    if wanted.HasField("nominated_node_name"):
        patch["status"]["nominatedNodeName"] = wanted.nominated_node_name or None
    return patch


def group_condition_patch(wanted: bind_pb2.SetGroupCondition) -> dict[str, Any]:
    """The status patch that sets a PodGroup's condition."""
    condition = wanted.condition
    complete = {
        "type": condition.type,
        "status": condition.status,
        "observedGeneration": condition.observed_generation,
        "lastTransitionTime": timestamps.seconds(condition.last_transition_time.seconds * 1_000_000_000),
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
    marked = status_patch.Condition(DISRUPTION_TARGET, "True", PREEMPTED, evict.message, generation)
    return status_patch.pod_status_patch(conditions, marked, now)


def blind_disruption_patch(uid: str, evict: bind_pb2.Evict, now: str) -> dict[str, Any]:
    """The status patch that marks a pod as evicted, whatever conditions it has; the API server refuses it for any other
    pod of that name.
    """
    marked = status_patch.Condition(DISRUPTION_TARGET, "True", PREEMPTED, evict.message, evict.observed_generation)
    patch = status_patch.pod_status_patch((), marked, now)
    if patch is None:
        raise AssertionError("a condition that the pod is not known to have is a change")
    # A pod on a node has PodScheduled, a kubelet writes it last, and what is new comes after it.
    patch["status"]["$setElementOrder/conditions"] = [{"type": "PodScheduled"}, {"type": DISRUPTION_TARGET}]
    return {"metadata": {"uid": uid}, **patch}


def deallocated(claim: Mapping[str, Any], user_uid: str) -> dict[str, Any] | None:
    """The claim without its allocation, or None if there is nothing to take away.

    Raises:
        ValueError: somebody else than that user, a pod or a PodGroup, uses it.
    """
    status = claim.get("status") or {}
    users = status.get("reservedFor") or []
    if any(not isinstance(user, dict) or user.get("uid") != user_uid for user in users):
        raise ValueError("it is reserved for somebody else")
    if not any(status.get(key) for key in ("allocation", "reservedFor", "devices")):
        return None
    left = {key: value for key, value in status.items() if key not in ("allocation", "reservedFor", "devices")}
    return {**claim, "status": left}


def protected(claim: Mapping[str, Any]) -> dict[str, Any]:
    """The claim with the finalizer that keeps it while it has devices."""
    finalizers = [*(claim["metadata"].get("finalizers") or ()), DELETE_PROTECTION]
    return {**claim, "metadata": {**claim["metadata"], "finalizers": finalizers}}


def protection(claim_uid: str) -> dict[str, Any]:
    """The patch that gives a claim the finalizer, whatever finalizers it has."""
    return {"metadata": {"uid": claim_uid, "finalizers": [DELETE_PROTECTION]}}


def pod_user(pod: cycle_pb2.PodIdentity) -> dict[str, Any]:
    """The pod as a user of a claim."""
    return {"resource": "pods", "name": pod.name, "uid": pod.uid}


def group_user(name: str, uid: str) -> dict[str, Any]:
    """The PodGroup as a user of a claim."""
    return {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": name, "uid": uid}


def without_user(claim_uid: str, user_uid: str) -> dict[str, Any]:
    """The patch that takes one user out of a claim's list, whatever else is in it by now."""
    return {"metadata": {"uid": claim_uid}, "status": {"reservedFor": [{"$patch": "delete", "uid": user_uid}]}}


def reserved(
    claim: Mapping[str, Any], allocation: Mapping[str, Any] | None, user: Mapping[str, Any], now: str | None
) -> dict[str, Any]:
    """The claim as used by the user, and with the allocation if it has none yet. `now` is when it got its devices, for
    a claim that does not say; None: nobody waits for devices, and it is not stated.
    """
    status = dict(claim.get("status") or {})
    given = dict(status.get("allocation") or {}) if allocation is None else dict(allocation)
    if now is not None:
        given.setdefault("allocationTimestamp", now)
    status |= {"allocation": given, "reservedFor": [*(status.get("reservedFor") or ()), user]}
    return {**claim, "status": status}


def unprotected(claim: Mapping[str, Any]) -> dict[str, Any] | None:
    """The claim without the finalizer that the scheduler put on it, or None if it has none."""
    finalizers = claim["metadata"].get("finalizers") or []
    if DELETE_PROTECTION not in finalizers:
        return None
    left = [name for name in finalizers if name != DELETE_PROTECTION]
    return {**claim, "metadata": {**claim["metadata"], "finalizers": left}}
