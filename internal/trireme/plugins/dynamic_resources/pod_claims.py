"""The claims of a pod: those that it names, and those that were made for it from templates.

Source: k8s.io/dynamic-resource-allocation/resourceclaim.
"""

from trireme.plugins.dynamic_resources import inventory
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, resource_pb2


class ClaimError(Exception):
    """The pod has to wait for a claim; the text is kube-scheduler's."""


def of(pod: core_pb2.Pod, snap: snapshot.Snapshot) -> list[resource_pb2.ResourceClaim]:
    """All of the pod's claims, in its order. Raises: ClaimError where one is not as it must be."""
    out = []
    namespace = pod.metadata.namespace
    for stated in pod.spec.resource_claims:
        name, made = _name(pod, stated)
        if name is None:
            continue
        claim: resource_pb2.ResourceClaim | None = snap.objects.get(inventory.CLAIM, namespace, name)
        if claim is None:
            raise ClaimError(f'could not find ResourceClaim "{namespace}/{name}"')
        if claim.metadata.HasField("deletion_timestamp"):
            raise ClaimError(f'resourceclaim "{name}" is being deleted')
        if made and not _controlled_by(claim, pod):
            wanted = f"Pod {namespace}/{pod.metadata.name} (Pod is not owner)"
            raise ClaimError(f"ResourceClaim {namespace}/{name} was not created for {wanted}")
        out.append(claim)
    return out


def reserved_for(claim: resource_pb2.ResourceClaim, uid: str) -> bool:
    """Whether the claim lists the pod as one that uses it."""
    return any(user.uid == uid for user in claim.status.reserved_for)


def _name(pod: core_pb2.Pod, stated: core_pb2.PodResourceClaim) -> tuple[str | None, bool]:
    """The claim's name, None where the pod does without it; and whether it was made for the pod."""
    full = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if stated.HasField("resource_claim_name"):
        return stated.resource_claim_name, False
    if stated.HasField("resource_claim_template_name"):
        for made in pod.status.resource_claim_statuses:
            if made.name == stated.name:
                return (made.resource_claim_name if made.HasField("resource_claim_name") else None), True
        raise ClaimError(f'pod "{full}": ResourceClaim not created yet')
    raise ClaimError(f'pod "{full}", spec.resourceClaim "{stated.name}": none of the supported fields are set')


def _controlled_by(claim: resource_pb2.ResourceClaim, pod: core_pb2.Pod) -> bool:
    controller = next((owner.uid for owner in claim.metadata.owner_references if owner.controller), None)
    return controller == pod.metadata.uid
