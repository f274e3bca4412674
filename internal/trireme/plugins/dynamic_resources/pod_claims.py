"""The claims of a pod: those that it names, and those that were made for it, or for its group, from templates.

A claim of a PodGroup is one that a pod of it names by the same name and from the same source as the group does. It is
the group, not the pod, that uses such a claim; who looks at a pod alone knows its group by name.

Source: k8s.io/dynamic-resource-allocation/resourceclaim.

Tests: tests/unit/plugins/dynamic_resources/test_pod_claims.py, tests/unit/plugins/dynamic_resources/test_preparing.py,
tests/conformance/test_group_claims.py.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from trireme.plugins.dynamic_resources import group_claims, inventory
from trireme.snapshot import snapshot_view
from trireme.v1 import core_pb2, resource_pb2, scheduling_pb2

POD_GROUP = "pod_group"

_UNSUPPORTED = "none of the supported fields are set"

# The entry of a pod, or a group, for one of its claims.
Stated = core_pb2.PodResourceClaim | scheduling_pb2.PodGroupResourceClaim


class ClaimError(Exception):
    """The pod has to wait for a claim; the text is kube-scheduler's.

    `claim` is the claim's name, or the name of the pod's or group's entry that has no claim yet; empty: it is about the
    group.
    """

    def __init__(self, text: str, claim: str = "") -> None:
        super().__init__(text)
        self.claim = claim


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A claim of a pod.

    `group` uses it in the place of the pod, if it is one of the group's. `name` is what the pod's containers call it.
    """

    claim: resource_pb2.ResourceClaim
    group: scheduling_pb2.PodGroup | None = None
    name: str = ""


def claims_of_pod(pod: core_pb2.Pod, snap: snapshot_view.SnapshotView, *, of_groups: bool) -> list[PodClaim]:
    """Return all of the pod's claims, in its order, with the group whose claim each is, if any.

    An entry whose status says that no claim is needed is left out. Raises: ClaimError if one is missing, being deleted,
    or made for another owner. `of_groups`: groups may have claims.
    """
    found = []
    namespace = pod.metadata.namespace
    for stated in pod.spec.resource_claims:
        name, made = _resolve_claim_name(pod, stated)
        if name is None:
            continue
        claim: resource_pb2.ResourceClaim | None = snap.objects.get(inventory.CLAIM, namespace, name)
        if claim is None:
            raise ClaimError(f'could not find ResourceClaim "{namespace}/{name}"', name)
        if claim.metadata.HasField("deletion_timestamp"):
            raise ClaimError(f'resourceclaim "{name}" is being deleted', name)
        if made:
            _check_owner(claim, pod, of_groups)
        found.append((stated, claim))
    group = _pod_group_of(pod, snap) if of_groups and found else None
    return [
        PodClaim(claim, group if group is not None and _is_claim_of_group(stated, group) else None, stated.name)
        for stated, claim in found
    ]


def claims_of_group(
    group: scheduling_pb2.PodGroup, snap: snapshot_view.SnapshotView
) -> Iterator[resource_pb2.ResourceClaim]:
    """The group's own claims, in its order.

    Left out: claims that were made for another owner, and those whose status names no claim, which the group does
    without. Raises: ClaimError where one is not there, once it is its turn.
    """
    namespace = group.metadata.namespace
    full = f"{namespace}/{group.metadata.name}"
    for stated in group.spec.resource_claims:
        if not _names_claim_or_template(stated):
            raise ClaimError(f"PodGroup {full}, spec.resourceClaim {stated.name}: {_UNSUPPORTED}", stated.name)
        made = not stated.HasField("resource_claim_name")
        name: str | None = stated.resource_claim_name
        if made:
            status = next((each for each in group.status.resource_claim_statuses if each.name == stated.name), None)
            if status is None:
                raise ClaimError(f"PodGroup {full}: ResourceClaim not created yet", stated.name)
            name = status.resource_claim_name if status.HasField("resource_claim_name") else None
        if name is None:
            continue
        claim: resource_pb2.ResourceClaim | None = snap.objects.get(inventory.CLAIM, namespace, name)
        if claim is None:
            raise ClaimError(f'could not find ResourceClaim "{namespace}/{name}"', name)
        if not made or _controller_uid(claim) == group.metadata.uid:
            yield claim


def is_reserved_for(claim: resource_pb2.ResourceClaim, uid: str, group: str = "") -> bool:
    """Return whether the claim's reservedFor lists the UID or the pod's group; `group`: its name, empty for none."""
    return any(user.uid == uid for user in claim.status.reserved_for) or (
        bool(group) and group_claims.used_by_group(claim, group)
    )


def _resolve_claim_name(pod: core_pb2.Pod, stated: core_pb2.PodResourceClaim) -> tuple[str | None, bool]:
    """Return the claim's name (None: the pod needs none) and whether it was generated for the pod or its group.

    Raises: ClaimError where a claim is not generated yet, or the entry is of an unknown kind.
    """
    full = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if stated.HasField("resource_claim_name"):
        return stated.resource_claim_name, False
    if stated.HasField("resource_claim_template_name"):
        for made in pod.status.resource_claim_statuses:
            if made.name == stated.name:
                return (made.resource_claim_name if made.HasField("resource_claim_name") else None), True
        raise ClaimError(f'pod "{full}": ResourceClaim not created yet', stated.name)
    raise ClaimError(f'pod "{full}", spec.resourceClaim "{stated.name}": {_UNSUPPORTED}', stated.name)


def _check_owner(claim: resource_pb2.ResourceClaim, pod: core_pb2.Pod, of_groups: bool) -> None:
    """Raises: ClaimError where the claim was made for another owner."""
    if _controller_uid(claim) == pod.metadata.uid:
        return
    group = pod.spec.scheduling_group.pod_group_name
    whose = "Pod is not owner"
    if of_groups and group:
        if group_claims.made_for_group(claim, group):
            return
        whose = f"neither Pod nor PodGroup {group} is the owner"
    wanted = f"Pod {pod.metadata.namespace}/{pod.metadata.name} ({whose})"
    name = claim.metadata.name
    raise ClaimError(f"ResourceClaim {claim.metadata.namespace}/{name} was not created for {wanted}", name)


def _controller_uid(claim: resource_pb2.ResourceClaim) -> str | None:
    """Return the UID of the claim's controlling owner; None if it has none."""
    return next((owner.uid for owner in claim.metadata.owner_references if owner.controller), None)


def _pod_group_of(pod: core_pb2.Pod, snap: snapshot_view.SnapshotView) -> scheduling_pb2.PodGroup | None:
    """The pod's group; None: it has none. Raises: ClaimError where it is not there, or has a claim of no kind."""
    name = pod.spec.scheduling_group.pod_group_name
    if not name:
        return None
    namespace = pod.metadata.namespace
    group: scheduling_pb2.PodGroup | None = snap.objects.get(POD_GROUP, namespace, name)
    if group is None:
        raise ClaimError(f"pod group object not found for pod group podgroup/{namespace}/{name}")
    return group


def _is_claim_of_group(stated: core_pb2.PodResourceClaim, group: scheduling_pb2.PodGroup) -> bool:
    """Return whether the pod's entry is the group's claim: it names the same claim or template.

    Raises: ClaimError where the group's entry names neither.
    """
    for own in group.spec.resource_claims:
        if not _names_claim_or_template(own):
            full = f"{group.metadata.namespace}/{group.metadata.name}"
            raise ClaimError(f"PodGroup {full} claim {own.name}: {_UNSUPPORTED}", own.name)
        if own.name == stated.name and _claim_and_template_names(own) == _claim_and_template_names(stated):
            return True
    return False


def _names_claim_or_template(stated: Stated) -> bool:
    """Whether the entry names a claim or a template; other sources of a claim are unknown."""
    return stated.HasField("resource_claim_name") or stated.HasField("resource_claim_template_name")


def _claim_and_template_names(stated: Stated) -> tuple[str | None, str | None]:
    """Return the names of claim and template that the entry states, None for each that it does not."""
    return (
        stated.resource_claim_name if stated.HasField("resource_claim_name") else None,
        stated.resource_claim_template_name if stated.HasField("resource_claim_template_name") else None,
    )
