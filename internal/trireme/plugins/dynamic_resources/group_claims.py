"""Tells whether a claim belongs to a PodGroup by the group's name alone, as a pod names it.

Apart from the rest, and light: the frontend's hints need no more than this.

Source: k8s.io/dynamic-resource-allocation/resourceclaim (isForPodGroupByPod, IsReservedForPod).
"""

from trireme.v1 import resource_pb2

_API = "scheduling.k8s.io"
_RESOURCE = "podgroups"


def made_for_group(claim: resource_pb2.ResourceClaim, group: str) -> bool:
    """Whether the claim was made for the PodGroup of this name, whatever the version of its API."""
    owner = next((owner for owner in claim.metadata.owner_references if owner.controller), None)
    return (
        owner is not None
        and (owner.name, owner.kind) == (group, "PodGroup")
        and owner.api_version.startswith(f"{_API}/")
    )


def used_by_group(claim: resource_pb2.ResourceClaim, group: str) -> bool:
    """Whether the claim lists the PodGroup of this name as one that uses it."""
    wanted = (_API, _RESOURCE, group)
    return any((user.api_group, user.resource, user.name) == wanted for user in claim.status.reserved_for)
