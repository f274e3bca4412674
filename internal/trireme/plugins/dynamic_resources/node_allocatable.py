"""Devices that stand for resources of a node (cpu, memory, huge pages), or cost some of them in addition.

What a pod's claims come to on one node is written to the pod's status, and counts like its requests: for the pod itself
here, beside what the node has left, and for others by the amounts of the pods on a node.

Source: pkg/scheduler/framework/plugins/dynamicresources/nodeallocatabledynamicresources.go.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trireme.framework import amounts, status
from trireme.plugins.dynamic_resources import allocator, devices, inventory
from trireme.plugins.dynamic_resources.spec import SPEC
from trireme.snapshot import node_selection, nodes, snapshot_view
from trireme.v1 import core_pb2, meta_pb2, resource_pb2
from trireme_kube.apimachinery import quantity

Status = core_pb2.NodeAllocatableResourceClaimStatus

# Resources that only need to cover the request; the amount of huge pages must not be negative.
_PLAIN = (amounts.CPU, amounts.MEMORY, amounts.EPHEMERAL_STORAGE)

_ONE = quantity.Quantity(quantity.NANOS_PER_UNIT)


class NodeAllocatableError(Exception):
    """What a claim holds cannot be counted; the text is kube-scheduler's."""


@dataclass(frozen=True, slots=True)
class HeldDevice:
    """A device of a claim. `consumed`: its share, by the qualified name of the capacity; None: nothing is consumed."""

    id: devices.DeviceId
    consumed: Mapping[str, quantity.Quantity] | None


@dataclass(frozen=True, slots=True)
class ClaimDevices:
    """A claim and the devices that it has, or would have."""

    claim: resource_pb2.ResourceClaim
    devices: tuple[HeldDevice, ...]


def devices_of_allocation(claim: resource_pb2.ResourceClaim) -> ClaimDevices:
    """The devices that the claim has."""
    held = tuple(
        HeldDevice((result.driver, result.pool, result.device), _consumed_by(result) or None)
        for result in claim.status.allocation.devices.results
    )
    return ClaimDevices(claim, held)


def _consumed_by(result: resource_pb2.DeviceRequestAllocationResult) -> dict[str, quantity.Quantity]:
    """The result's share of its device, by qualified name. Of two spellings of a name, the one with a domain counts."""
    stated = sorted(result.consumed_capacity.items(), key=lambda entry: "/" in entry[0])
    return {
        devices.qualified_name(name, result.driver): quantity.parse_quantity(value.string) for name, value in stated
    }


def devices_of_solution(claim: resource_pb2.ResourceClaim, solution: allocator.ClaimSolution) -> ClaimDevices:
    """The devices that a search found for the claim, or for another one that asks for the same."""
    held = (HeldDevice(selected.device.id, selected.consumed or None) for selected in solution.selected)
    return ClaimDevices(claim, tuple(held))


class NodeDevices:
    """The devices that one node can use, by name."""

    def __init__(self, known: inventory.DeviceInventory, table: nodes.NodeTable, slot: int) -> None:
        self._known = known
        self._table = table
        self._slot = slot

    def find(self, device: devices.DeviceId) -> resource_pb2.Device:
        """The device. Raises: NodeAllocatableError where the node has none of this name."""
        for entry in sorted(self._known.by_pool.get(device[:2], ()), key=lambda entry: entry.name):
            if not (self._is_usable_from_node(entry.placement) or entry.per_device):
                continue
            for each in entry.devices:
                if each.id == device:
                    if entry.per_device and not self._is_usable_from_node(each.placement):
                        raise NodeAllocatableError(f"device {device[2]} does not match node")
                    return each.message
        driver, pool, name = device
        raise NodeAllocatableError(f"device {name} not found in pool {pool} for driver {driver}")

    def _is_usable_from_node(self, placement: devices.DevicePlacement) -> bool:
        """Whether devices of this placement can be used from the node."""
        if placement.node_name == self._table.names[self._slot] or placement.all_nodes:
            return True
        slots = np.array([self._slot])
        return bool(placement.terms) and bool(node_selection.matches_any(self._table, placement.terms, slots)[0])


def is_mapped(claim: resource_pb2.ResourceClaim, known: inventory.DeviceInventory) -> bool:
    """Whether a device of the claim stands for a resource of its node: pods cannot share such a claim."""
    for result in claim.status.allocation.devices.results:
        slices = sorted(known.by_pool.get((result.driver, result.pool), ()), key=lambda entry: entry.name)
        there = (each.message for entry in slices for each in entry.devices if each.message.name == result.device)
        device = next(there, None)
        if device is not None and any(
            resource.HasField("mapping") for resource in device.node_allocatable_resources.values()
        ):
            return True
    return False


def claim_statuses(
    pod: core_pb2.Pod, claims: Iterable[ClaimDevices], uids: Mapping[str, str], there: NodeDevices
) -> tuple[Status, ...] | None:
    """Return what the claims' devices take of the node's own resources, for the pod's status; None: nothing.

    `uids` are the UIDs of the pod's claims by the names that containers use. Raises: NodeAllocatableError.
    """
    concerned = [each for each in claims if _uses_node_resources(each, there)]
    if not concerned:
        return None
    by_name: dict[str, Status] = {}
    for each in concerned:
        made = _claim_status(each, there)
        if made is not None:
            made.containers.extend(_containers_using_claim(pod, each.claim.metadata.uid, uids))
            by_name[each.claim.metadata.name] = made
    return tuple(by_name[name] for name in sorted(by_name))


def resource_refusal(
    pod: core_pb2.Pod,
    stated: Sequence[Status],
    snap: snapshot_view.SnapshotView,
    slot: int,
    rules: amounts.Rules,
) -> status.Status | None:
    """Return why the node has no room for the pod with these statuses; None: it has.

    Pod-level requests that do not cover the claims refuse every node.
    """
    with_status = core_pb2.Pod()
    with_status.CopyFrom(pod)
    del with_status.status.node_allocatable_resource_claim_statuses[:]
    with_status.status.node_allocatable_resource_claim_statuses.extend(stated)
    problem = _pod_level_shortfall(with_status) if rules.pod_level and stated else ""
    if problem:
        return status.unresolvable(SPEC.name, problem, reasons=(status.Reason("podResources"),))
    return _refusal_if_lacking(amounts.amounts_with_claims(with_status, rules), snap, slot)


def _uses_node_resources(claim: ClaimDevices, there: NodeDevices) -> bool:
    """Whether a device of the claim stands for a resource of the node; devices that the node lacks are passed over."""
    for held in claim.devices:
        try:
            if there.find(held.id).node_allocatable_resources:
                return True
        except NodeAllocatableError:
            # Another device of the claim may be there; who is concerned needs all of them.
            continue
    return False


# The status of the pod


def _claim_status(each: ClaimDevices, there: NodeDevices) -> Status | None:
    """What a claim's devices stand for, and cost in addition, in the node's resources; None: nothing.

    Raises: NodeAllocatableError.
    """
    metadata = each.claim.metadata
    full = f"claim {metadata.namespace}/{metadata.name}, device"
    mapping: dict[str, quantity.Quantity] = {}
    overhead: dict[str, core_pb2.NodeAllocatableOverheadResources] = {}
    for held in each.devices:
        driver, _, name = held.id
        try:
            device = there.find(held.id)
        except NodeAllocatableError as error:
            raise NodeAllocatableError(f"{full} {name}, driver {driver}: {error}") from error
        for resource, stated in sorted(device.node_allocatable_resources.items()):
            if stated.HasField("mapping"):
                amount = _mapped_amount(stated.mapping, held, f"{full} {name}", resource)
                if amount is not None:
                    mapping[resource] = _add_quantities(mapping.get(resource), amount)
            if stated.HasField("overhead"):
                _add_overhead(overhead, resource, stated.overhead)
    if not mapping and not overhead:
        return None
    out = Status(resource_claim_name=metadata.name)
    for resource, amount in sorted(mapping.items()):
        out.mapping.add(name=resource, quantity=meta_pb2.Quantity(string=str(amount)))
    out.overhead.extend(overhead[resource] for resource in sorted(overhead))
    return out


def _mapped_amount(
    stated: resource_pb2.NodeAllocatableMapping, held: HeldDevice, full: str, resource: str
) -> quantity.Quantity | None:
    """How much of the resource the device stands for; None: the mapping says nothing of it."""
    if stated.capacity_key:
        if held.consumed is None:
            why = f"but Capacity key '{stated.capacity_key}' is set in NodeAllocatableResources for resource {resource}"
            raise NodeAllocatableError(f"{full}: ConsumedCapacity is nil, {why}")
        consumed = held.consumed.get(devices.qualified_name(stated.capacity_key, held.id[0]))
        if consumed is None:
            return None
        if consumed.nanos < 0:
            wrong = f"ConsumedCapacity for capacity key '{stated.capacity_key}'"
            raise NodeAllocatableError(f"{full}: {wrong} must not be negative, got {consumed}")
        if stated.HasField("capacity_multiplier"):
            consumed = _multiply_quantities(consumed, devices.parse_quantity_or_zero(stated.capacity_multiplier))
        if consumed.nanos < 0:
            wrong = f"computed node-allocatable footprint for resource {resource}"
            raise NodeAllocatableError(f"{full}: {wrong} must not be negative, got {consumed}")
        return consumed
    return devices.parse_quantity_or_zero(stated.device_multiplier) if stated.HasField("device_multiplier") else None


def _multiply_quantities(amount: quantity.Quantity, factor: quantity.Quantity) -> quantity.Quantity:
    if factor.nanos == _ONE.nanos:
        return amount
    return quantity.Quantity(-(-amount.nanos * factor.nanos // quantity.NANOS_PER_UNIT), amount.format)


def _add_quantities(before: quantity.Quantity | None, amount: quantity.Quantity) -> quantity.Quantity:
    """Add two amounts in the format of the first one that is not 0; `before` None counts as 0."""
    if before is None or not before.nanos:
        return amount
    return quantity.Quantity(before.nanos + amount.nanos, before.format)


def _add_overhead(
    totals: dict[str, core_pb2.NodeAllocatableOverheadResources],
    resource: str,
    stated: resource_pb2.NodeAllocatableOverhead,
) -> None:
    """Add what a device costs per pod and per container to the totals of the resource."""
    if not (stated.HasField("per_pod") or stated.HasField("per_container")):
        return
    total = totals.setdefault(resource, core_pb2.NodeAllocatableOverheadResources(name=resource))
    if stated.HasField("per_pod"):
        before = devices.parse_quantity_or_zero(total.per_pod) if total.HasField("per_pod") else None
        total.per_pod.string = str(_add_quantities(before, devices.parse_quantity_or_zero(stated.per_pod)))
    if stated.HasField("per_container"):
        before = devices.parse_quantity_or_zero(total.per_container) if total.HasField("per_container") else None
        total.per_container.string = str(_add_quantities(before, devices.parse_quantity_or_zero(stated.per_container)))


def _containers_using_claim(pod: core_pb2.Pod, uid: str, uids: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of the containers that use the claim, once for each time that they name it."""
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        for named in container.resources.claims:
            if uids.get(named.name) == uid:
                yield container.name


# Whether there is room


def _pod_level_shortfall(pod: core_pb2.Pod) -> str:
    """Return why the pod-level requests or limits do not cover its claims; empty: they do, or there are none."""
    if not pod.spec.HasField("resources"):
        return ""
    requests, total = amounts.nanos_of(pod.spec.resources.requests), amounts.aggregate_requests(pod)
    for name in sorted(requests):
        if amounts.is_pod_level(name) and total.get(name, requests[name]) > requests[name]:
            why = "is insufficient to cover the aggregated container and node-allocatable DRA requests"
            return f"pod level request for {name} {why}"
    limits, total = amounts.nanos_of(pod.spec.resources.limits), amounts.aggregate_limits(pod)
    for name in sorted(limits):
        if name.startswith(amounts.HUGE_PAGES) and total.get(name, 0) > limits[name]:
            why = "is insufficient to cover the aggregated container and node-allocatable DRA limits"
            return f"pod level limit for {name} {why}"
    for container in pod.spec.containers:
        claims = amounts.container_claim_amounts(pod.status, container.name)
        for name, own in sorted(amounts.nanos_of(container.resources.limits).items()):
            if name.startswith(amounts.HUGE_PAGES) or name not in limits:
                continue
            if own + claims.get(name, 0) > limits[name]:
                why = f"is insufficient to cover the limit and DRA overhead for container {container.name}"
                return f"pod level limit for {name} {why}"
    return ""


def _refusal_if_lacking(needed: Mapping[str, int], snap: snapshot_view.SnapshotView, slot: int) -> status.Status | None:
    """Return why the node has too little left for these amounts; None: it has enough.

    Unresolvable if the node would be too small even if it were empty.
    """
    lacking, unresolvable = [], False
    table, at = snap.nodes, np.array([slot])
    plain = [name for name in _PLAIN if needed.get(name, 0) > 0]
    for name in (*plain, *sorted(name for name in needed if name.startswith(amounts.HUGE_PAGES))):
        number = table.resource_names.find(name)
        table.ensure_resource_rows()
        allocatable = 0 if number is None else int(table.allocatable[number, slot])
        requested = 0 if number is None else int(snap.requested(number, at)[0])
        if needed[name] > allocatable - requested:
            lacking.append(name)
            unresolvable |= needed[name] > allocatable
    if not lacking:
        return None
    code = status.Code.UNSCHEDULABLE_AND_UNRESOLVABLE if unresolvable else status.Code.UNSCHEDULABLE
    reasons = tuple(status.Reason.of("insufficientResource", {"resource": name}) for name in lacking)
    return status.Status(code, SPEC.name, tuple(f"Insufficient {name}" for name in lacking), reasons)
