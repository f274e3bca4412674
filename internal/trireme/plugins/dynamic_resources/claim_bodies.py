"""The bodies of the writes of claims, as pure functions of the claim as it is.

They are those that kube-scheduler sends. A claim is changed as the raw JSON that was read, because the program's own
messages are subsets and would lose the rest.
Source: pkg/scheduler/framework/plugins/dynamicresources of Kubernetes 1.37; the writes of a real kube-scheduler as an
API server recorded them.

Tests: tests/unit/plugins/dynamic_resources/test_claim_bodies.py, tests/unit/plugins/dynamic_resources/test_pre_bind.py.
"""

from collections.abc import Mapping
from typing import Any

from trireme.v1 import cycle_pb2

DELETE_PROTECTION = "resource.kubernetes.io/delete-protection"

#: The field of a pod's status that says what its claims take of the node.
CLAIM_STATUSES = "nodeAllocatableResourceClaimStatuses"


def deallocated_claim(claim: Mapping[str, Any], user_uid: str) -> dict[str, Any] | None:
    """Return a copy of the claim without allocation and users; None if it has neither.

    Raises: ValueError where a pod or PodGroup other than `user_uid` uses it.
    """
    status = claim.get("status") or {}
    users = status.get("reservedFor") or []
    if any(not isinstance(user, dict) or user.get("uid") != user_uid for user in users):
        raise ValueError("it is reserved for somebody else")
    if not any(status.get(key) for key in ("allocation", "reservedFor", "devices")):
        return None
    left = {key: value for key, value in status.items() if key not in ("allocation", "reservedFor", "devices")}
    return {**claim, "status": left}


def protected_claim(claim: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the claim with the finalizer that keeps it from being deleted while it has devices."""
    finalizers = [*(claim["metadata"].get("finalizers") or ()), DELETE_PROTECTION]
    return {**claim, "metadata": {**claim["metadata"], "finalizers": finalizers}}


def protection_patch(claim_uid: str) -> dict[str, Any]:
    """Return the patch that adds the finalizer to a claim, whatever other finalizers it has."""
    return {"metadata": {"uid": claim_uid, "finalizers": [DELETE_PROTECTION]}}


def pod_user(pod: cycle_pb2.PodIdentity) -> dict[str, Any]:
    """Return the pod's entry for a claim's reservedFor."""
    return {"resource": "pods", "name": pod.name, "uid": pod.uid}


def group_user(name: str, uid: str) -> dict[str, Any]:
    """Return the PodGroup's entry for a claim's reservedFor."""
    return {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": name, "uid": uid}


def remove_user_patch(claim_uid: str, user_uid: str) -> dict[str, Any]:
    """Return the patch that removes one user from a claim's reservedFor, whatever else is in it by now."""
    return {"metadata": {"uid": claim_uid}, "status": {"reservedFor": [{"$patch": "delete", "uid": user_uid}]}}


def reserved_claim(
    claim: Mapping[str, Any], allocation: Mapping[str, Any] | None, user: Mapping[str, Any], now: str | None
) -> dict[str, Any]:
    """The claim as used by the user, and with the allocation if it has none yet.

    `now` is when it got its devices, for a claim without that time; None: no time is
    written, as nobody waits for devices.
    """
    status = dict(claim.get("status") or {})
    given = dict(status.get("allocation") or {}) if allocation is None else dict(allocation)
    if now is not None:
        given.setdefault("allocationTimestamp", now)
    status |= {"allocation": given, "reservedFor": [*(status.get("reservedFor") or ()), user]}
    return {**claim, "status": status}


def unprotected_claim(claim: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a copy of the claim without the scheduler's finalizer; None if it has none."""
    finalizers = claim["metadata"].get("finalizers") or []
    if DELETE_PROTECTION not in finalizers:
        return None
    left = [name for name in finalizers if name != DELETE_PROTECTION]
    return {**claim, "metadata": {**claim["metadata"], "finalizers": left}}
