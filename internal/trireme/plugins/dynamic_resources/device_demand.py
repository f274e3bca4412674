"""What the pods of a class ask of devices, and whether that can be worked with at all.

PreFilter's part: claims that are not there, or not as they must be, refuse the pods before any node is looked at, with
kube-scheduler's words.

Tests: tests/unit/plugins/dynamic_resources/test_preparing.py, tests/conformance/test_decisions.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from trireme.framework import status
from trireme.plugins.dynamic_resources import extended_resources, features, inventory, node_selectors, pod_claims
from trireme.plugins.dynamic_resources.spec import SPEC
from trireme.snapshot import classes, snapshot_view
from trireme.v1 import resource_pb2


@dataclass(frozen=True, slots=True)
class DeviceDemand:
    """What the pods of a class ask for at one generation."""

    pod_claims: tuple[pod_claims.PodClaim, ...]
    claims: tuple[resource_pb2.ResourceClaim, ...]
    inventory: inventory.DeviceInventory
    # Extended resources that are not all given by device plugins.
    extended_resources: Mapping[str, int]
    stale_claim: resource_pb2.ResourceClaim | None
    # UIDs of claims that a pod before it, of the group that is being tried, is to get devices for.
    shared: frozenset[str] = frozenset()

    @property
    def claims_to_allocate(self) -> list[resource_pb2.ResourceClaim]:
        """The pod's own claims that have no devices yet."""
        return [claim for claim in self.claims if not claim.status.HasField("allocation")]

    @property
    def needs_allocation(self) -> bool:
        """Whether devices have to be found: for a claim without any, or for extended resources."""
        return bool(self.extended_resources) or bool(self.claims_to_allocate)

    def takes(self) -> frozenset[tuple[str, str, str]] | None:
        """The claims, if devices for them are taken on the pod's node alone, and it is the same which; None: it is not.

        Which alternative of a request is chosen counts for the score of the node.
        """
        if self.extended_resources or self.shared or not self.inventory.is_node_local:
            return None
        if len(self.claims_to_allocate) < len(self.claims):
            return None
        if any(request.first_available for claim in self.claims for request in claim.spec.devices.requests):
            return None
        return frozenset((inventory.CLAIM, claim.metadata.namespace, claim.metadata.name) for claim in self.claims)

    @property
    def claim_specs(self) -> bytes:
        """The specs of the claims to allocate, serialized: equal for claims that ask for the same."""
        return b"\0".join(claim.spec.SerializeToString(deterministic=True) for claim in self.claims_to_allocate)


@dataclass(frozen=True, slots=True)
class RefusedError(Exception):
    """PreFilter refuses the pods, or fails, with the status that this carries."""

    status: status.Status


def unresolvable(text: str, reason: status.Reason) -> status.Status:
    """Make the refusal of all nodes that holds as long as claims and devices are what they are."""
    return status.unresolvable(SPEC.name, text, reasons=(reason,))


def unusable_claim(text: str, claim: str) -> status.Status:
    """Make the refusal because of one claim of the pod, or of its group; `claim` is its name."""
    return unresolvable(text, status.Reason.of("claim", {"claim": claim}))


def demand_of(
    pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, on: features.Features
) -> DeviceDemand | None:
    """Find out what pods of the class ask of this plugin; None: nothing, it has no part in them.

    Raises: RefusedError: a claim is missing, being allocated, or cannot be worked with: no node will do.
    """
    pod = pod_class.pod
    device_backed = extended_resources.device_backed_requests(pod_class)
    if not pod.spec.resource_claims and not device_backed:
        return None
    known = inventory.inventory_of(snap, on)
    try:
        stated = tuple(pod_claims.claims_of_pod(pod, snap, of_groups=on.group_claims))
    except pod_claims.ClaimError as error:
        raise RefusedError(unusable_claim(str(error), error.claim)) from error
    given = on.extended_resources and any(name in known.class_of_resource for name in device_backed)
    resources = device_backed if given else {}
    if not stated and not resources:
        return None
    claims = tuple(each.claim for each in stated)
    group = pod.spec.scheduling_group.pod_group_name
    shared = frozenset(claim.metadata.uid for claim in claims if _check_claim_usable(claim, group, known, snap, on))
    to_allocate = resources or not all(claim.status.HasField("allocation") for claim in claims)
    if to_allocate and known.allocation_problem:
        text = f'running PreFilter plugin "{SPEC.name}": gather allocation state: {known.allocation_problem}'
        raise RefusedError(status.error(SPEC.name, text))
    uid = pod.metadata.uid
    return DeviceDemand(
        stated, claims, known, resources, known.claim_made_for(uid) if uid and resources else None, shared
    )


def _check_claim_usable(
    claim: resource_pb2.ResourceClaim,
    group: str,
    known: inventory.DeviceInventory,
    snap: snapshot_view.SnapshotView,
    on: features.Features,
) -> bool:
    """Check that a claim can be worked with; return whether pods of the group tried before it share its devices.

    Of a claim that has its devices, only where these are is checked. Raises: RefusedError.
    """
    name = claim.metadata.name
    full = f"{claim.metadata.namespace}/{name}"
    if snap.objects.is_assumed(inventory.CLAIM, claim.metadata.namespace, claim.metadata.name):
        if (
            group
            and snap.objects.sharing_group(inventory.CLAIM, claim.metadata.namespace, claim.metadata.name) == group
        ):
            return True
        raise RefusedError(unusable_claim(f"resource claim {full} is in the process of being allocated", name))
    if claim.status.HasField("allocation"):
        problem = node_selectors.terms_problem(claim.status.allocation.node_selector)
        if problem:
            raise RefusedError(status.error(SPEC.name, f'running PreFilter plugin "{SPEC.name}": {problem}'))
        return False
    for request in claim.spec.devices.requests:
        if request.HasField("exactly"):
            _check_device_class_exists(request.exactly.device_class_name, request.name, known)
        elif not request.first_available:
            text = f"resource claim {full}, request {request.name}: unknown request type"
            raise RefusedError(unusable_claim(text, name))
        elif not on.prioritized_list:
            disabled = "has subrequests, but the DRAPrioritizedList feature is disabled"
            raise RefusedError(unusable_claim(f"resource claim {full}, request {request.name}: {disabled}", name))
        for each in request.first_available if not request.HasField("exactly") else ():
            _check_device_class_exists(each.device_class_name, f"{request.name}/{each.name}", known)
    return False


def _check_device_class_exists(name: str, request: str, known: inventory.DeviceInventory) -> None:
    """Check that the request's device class is stated and exists. Raises: RefusedError."""
    if not name:
        text = f'running PreFilter plugin "{SPEC.name}": request {request}: unsupported request type'
        raise RefusedError(status.error(SPEC.name, text))
    if name not in known.classes:
        missing = status.Reason.of("deviceClassNotFound", {"deviceClass": name})
        raise RefusedError(unresolvable(f"request {request}: device class {name} does not exist", missing))
