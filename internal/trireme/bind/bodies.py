"""The bodies of the writes beside a binding, as pure functions of the action and of the object as it is.

They are those that kube-scheduler sends. What is changed as a whole is changed as the raw JSON that was read, because
the program's own messages are subsets and would lose the rest.
Source: pkg/scheduler/util PatchPodStatus, pkg/scheduler/framework/preemption and the DynamicResources plugin of
Kubernetes 1.37; the writes of a real kube-scheduler as an API server recorded them.
"""

from collections.abc import Mapping
from typing import Any

from trireme.kube.encode import encode
from trireme.v1 import bind_pb2, core_pb2

DELETE_PROTECTION = "resource.kubernetes.io/delete-protection"
DISRUPTION_TARGET = "DisruptionTarget"
PREEMPTED = "PreemptionByScheduler"


def condition_patch(condition: core_pb2.PodCondition, nominated_node_name: str | None) -> dict[str, Any]:
    """The status patch that sets a condition and, unless it is None, the nomination ("" clears it)."""
    status: dict[str, Any] = {"conditions": [{"lastProbeTime": None, **encode(condition)}]}
    if nominated_node_name is not None:
        status["nominatedNodeName"] = nominated_node_name or None
    return {"status": status}


def nomination_patch(node_name: str) -> dict[str, Any]:
    """The status patch that sets the nomination; "" clears it."""
    return {"status": {"nominatedNodeName": node_name or None}}


def disruption_patch(pod: Mapping[str, Any], evict: bind_pb2.Evict, now: str) -> dict[str, Any] | None:
    """The status patch that marks a pod as evicted by the scheduler, or None if it is marked already."""
    conditions = [item for item in (pod.get("status") or {}).get("conditions") or [] if isinstance(item, dict)]
    condition: dict[str, Any] = {
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "message": evict.message,
        "reason": PREEMPTED,
        "status": "True",
        "type": DISRUPTION_TARGET,
    }
    if evict.observed_generation:
        condition["observedGeneration"] = evict.observed_generation
    types = [item.get("type") for item in conditions]
    if DISRUPTION_TARGET in types:
        old = conditions[types.index(DISRUPTION_TARGET)]
        if old.get("status") == "True":
            condition["lastTransitionTime"] = old.get("lastTransitionTime", now)
        if all(old.get(key) == condition[key] for key in ("status", "reason", "message")):
            return None
    else:
        types.append(DISRUPTION_TARGET)
    status: dict[str, Any] = {"conditions": [condition]}
    if len(types) > 1:
        status["$setElementOrder/conditions"] = [{"type": name} for name in types]
    return {"status": status}


def deallocated(claim: Mapping[str, Any], pod_uid: str) -> dict[str, Any] | None:
    """The claim without its allocation, or None if there is nothing to take away.

    Raises:
        ValueError: somebody else than that pod uses it.
    """
    status = claim.get("status") or {}
    users = status.get("reservedFor") or []
    if any(not isinstance(user, dict) or user.get("uid") != pod_uid for user in users):
        raise ValueError("it is reserved for another pod")
    if not any(status.get(key) for key in ("allocation", "reservedFor", "devices")):
        return None
    left = {key: value for key, value in status.items() if key not in ("allocation", "reservedFor", "devices")}
    return {**claim, "status": left}


def unprotected(claim: Mapping[str, Any]) -> dict[str, Any] | None:
    """The claim without the finalizer that the scheduler put on it, or None if it has none."""
    finalizers = claim["metadata"].get("finalizers") or []
    if DELETE_PROTECTION not in finalizers:
        return None
    left = [name for name in finalizers if name != DELETE_PROTECTION]
    return {**claim, "metadata": {**claim["metadata"], "finalizers": left}}
