"""What Reserve leaves for PreBind of each claim, as entries of `reserve_state`.

Tests: tests/conformance/test_decisions.py.
"""

from collections.abc import Sequence

from trireme.plugins.dynamic_resources import extended_resources, pod_claims, reserve_state
from trireme.v1 import core_pb2, cycle_pb2, resource_pb2
from trireme_kube.apimachinery import encode


def reservation_of_existing_claim(
    pod: core_pb2.Pod,
    identity: cycle_pb2.PodIdentity,
    pod_claim: pod_claims.PodClaim,
    allocation: resource_pb2.AllocationResult | None,
    *,
    of_groups: bool,
) -> reserve_state.ClaimToReserve:
    """Describe for PreBind a claim that exists; `allocation`: the devices that are to be written (None: it has them).

    `of_groups`: groups may have claims, so the claim may be reserved for the pod's group.
    """
    claim, of = pod_claim.claim, pod_claim.group
    group = pod.spec.scheduling_group.pod_group_name if of_groups else ""
    return reserve_state.ClaimToReserve(
        claim.metadata.namespace,
        claim.metadata.name,
        claim.metadata.uid,
        None if allocation is None else encode.encode(allocation),
        allocation is None and pod_claims.is_reserved_for(claim, identity.uid, group),
        group=group,
        group_uid="" if of is None else of.metadata.uid,
    )


def reservation_of_new_claim(
    claim: resource_pb2.ResourceClaim,
    mappings: Sequence[extended_resources.ContainerRequest],
    stale: resource_pb2.ResourceClaim | None,
) -> reserve_state.ClaimToReserve:
    """Describe for PreBind a claim for extended resources that is still to be made, in place of `stale`.

    None: no claim was made for the pod before.
    """
    return reserve_state.ClaimToReserve(
        claim.metadata.namespace,
        "",
        "",
        encode.encode(claim.status.allocation),
        make=True,
        requests=tuple(encode.encode(request) for request in claim.spec.devices.requests),
        mappings=tuple(
            {"containerName": each.container, "resourceName": each.resource, "requestName": each.request}
            for each in mappings
        ),
        stale="" if stale is None else stale.metadata.name,
    )
