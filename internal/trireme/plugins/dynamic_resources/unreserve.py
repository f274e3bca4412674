"""DynamicResources' Unreserve: gives back what PreBind wrote for a pod that is not bound after all.

Source: pkg/scheduler/framework/plugins/dynamicresources (Unreserve).

Tests: tests/unit/plugins/dynamic_resources/test_pre_bind.py.
"""

from collections.abc import Mapping
from typing import Any

from trireme.plugin_api.api_writer import ApiWriter
from trireme.plugins.dynamic_resources import claim_api_calls, claim_bodies, extended_claims, reserve_state
from trireme.v1 import cycle_pb2
from trireme_kube.apimachinery import api_writes

Json = Mapping[str, Any]


async def unreserve(writer: ApiWriter, pod: api_writes.PodName, state: bytes) -> api_writes.Outcome | None:
    """Give back what PreBind wrote for the pod; None: all of it was, else the write that failed. Raises: ValueError."""
    claims = reserve_state.DeviceClaims.from_bytes(state)
    for one in claims.claims:
        if one.make:
            failed = await _delete_extended_claims(writer, pod, one)
        else:
            failed = await _remove_pod_from_users(writer, one, pod.uid)
        if failed is not None:
            return failed
    return await _clear_node_allocatable_status(writer, pod) if claims.node_allocatable else None


async def _clear_node_allocatable_status(writer: ApiWriter, pod: api_writes.PodName) -> api_writes.Outcome | None:
    """Write that the pod's claims take nothing of a node any more; None: done, or the pod is gone.

    As a list that is empty, since one that is missing may be an old client's. A conflict need not mean that another pod
    has the name, so the pod is read, and the patch sent again a few times. Else the outcome of the failed write.
    """
    patch = {"metadata": {"uid": pod.uid}, "status": {claim_bodies.CLAIM_STATUSES: list[Json]()}}
    outcome: api_writes.Outcome = api_writes.Conflict("")
    for _ in range(claim_api_calls.ROUNDS):
        outcome = await writer.patch(f"{pod.path}/status", patch, claim_api_calls.DEADLINE_SECONDS, api_writes.MERGE)
        if not isinstance(outcome, api_writes.Conflict):
            break
        if isinstance(await writer.get_pod(pod, claim_api_calls.DEADLINE_SECONDS), api_writes.Gone):
            return None
    return None if isinstance(outcome, (api_writes.Written, api_writes.Gone)) else outcome


async def _remove_pod_from_users(
    writer: ApiWriter, one: reserve_state.ClaimToReserve, uid: str
) -> api_writes.Outcome | None:
    """Remove the pod from the claim's users, starting over a few times after a conflict.

    None: done, or not needed; else the outcome of the failed read or write.
    """
    path = claim_api_calls.claim_path(one.namespace, one.name)
    outcome: api_writes.Outcome = api_writes.Conflict("")
    for _ in range(claim_api_calls.ROUNDS):
        outcome = await writer.get(path, claim_api_calls.DEADLINE_SECONDS)
        if not isinstance(outcome, api_writes.Written):
            break
        claim = outcome.obj
        if not any(user.get("uid") == uid for user in (claim.get("status") or {}).get("reservedFor") or ()):
            return None
        patch = claim_bodies.remove_user_patch(claim["metadata"]["uid"], uid)
        outcome = await writer.patch(f"{path}/status", patch, claim_api_calls.DEADLINE_SECONDS)
        if not isinstance(outcome, api_writes.Conflict):
            break
    return None if isinstance(outcome, (api_writes.Written, api_writes.Gone)) else outcome


async def _delete_extended_claims(
    writer: ApiWriter, pod: api_writes.PodName, one: reserve_state.ClaimToReserve
) -> api_writes.Outcome | None:
    """Delete the claim made for the pod's extended resources, whether or not its name was noted; None: it is gone.

    If the pod is gone, the claim goes with it. Else the outcome of the read or write that failed.
    """
    found = await writer.get_pod(pod, claim_api_calls.DEADLINE_SECONDS)
    if isinstance(found, api_writes.Gone):
        # The claim goes with its owner.
        return None
    if not isinstance(found, api_writes.Written):
        return found
    noted = ((found.obj.get("status") or {}).get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    names = [noted] if noted else []
    if not noted and not one.name:
        identity = cycle_pb2.PodIdentity(namespace=pod.namespace, name=pod.name, uid=pod.uid)
        collection = claim_api_calls.claims_path(one.namespace)
        made = extended_claims.find_created_claim(writer, collection, identity, one, claim_api_calls.DEADLINE_SECONDS)
        names = [name async for name in made]
    for name in names or ([one.name] if one.name else []):
        failed = await claim_api_calls.delete_claim(writer, pod.namespace, name, "")
        if failed is not None:
            return failed
    return None
