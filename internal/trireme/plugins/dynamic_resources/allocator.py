"""Allocates devices to claims: a search, device by device for each request of each claim, for the first full solution.

It is exhaustive, with the order of pools, slices and devices as its only preference. Devices of one request are tried
in combinations, not in permutations. A selected device counts for what is tried after it, and is deselected if the rest
cannot be had.

A search is for all nodes that see the same pools: nothing in it depends on which of them it is.

Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from trireme.plugins.dynamic_resources import (
    allocated_devices,
    constraints,
    consumable_capacity,
    device_matching,
    device_taints,
    devices,
    expressions,
    features,
    pools,
    request_validation,
    shared_counters,
)
from trireme.plugins.dynamic_resources.allocation_errors import (
    AllocationError,
    TimedOutError,
    UnusablePoolsError,
    claim_name,
)
from trireme.plugins.dynamic_resources.device_request import DeviceRequest
from trireme.plugins.dynamic_resources.request_validation import MAX_DEVICES
from trireme.v1 import resource_pb2
from trireme_kube.apimachinery import quantity

# Calls for one device, or one request; and of those who ask for a search.
_CALLS_PER_DEVICE = 4
_CALLS_AROUND = 500

_BLOCKING = ("NoSchedule", "NoExecute")

Start = tuple[int, int, int]  # pool, slice, device
_BEGINNING: Start = (0, 0, 0)


class _TooManyDevicesError(Exception):
    """More devices than an allocation can hold: choose fewer before."""


@dataclass(frozen=True, slots=True)
class SelectedDevice:
    """A device for a request. `consumed` None: all of it; else a share."""

    request: DeviceRequest
    device: devices.Device
    consumed: Mapping[str, quantity.Quantity] | None


@dataclass(slots=True)
class ClaimSolution:
    """What one claim gets; `requests` are its requests, with the alternative that was chosen for each."""

    claim: resource_pb2.ResourceClaim
    selected: list[SelectedDevice] = field(default_factory=list)
    requests: list[DeviceRequest] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AllocatorInputs:
    """What an allocation is based on, beside pools and claims."""

    classes: Mapping[str, resource_pb2.DeviceClass]
    allocated: allocated_devices.AllocatedDevices
    selectors: expressions.CompiledExpressions
    on: features.Features


class Allocator:
    """One search for devices that satisfy some claims together, by backtracking; used once."""

    def __init__(
        self,
        inputs: AllocatorInputs,
        in_pools: Sequence[pools.Pool],
        claims: Sequence[resource_pb2.ResourceClaim],
        reachable: Callable[[devices.Device], bool],
        out_of_time: Callable[[], bool],
        skips_operations: bool = False,
    ) -> None:
        """`reachable` narrows devices of slices where each states for itself on which nodes it is.

        `skips_operations`: the nodes support slices that skip steps on the node.
        """
        on = inputs.on
        self._on = on
        self._allocated = inputs.allocated
        self._skips_operations = skips_operations
        self._pools = in_pools
        self._claims = claims
        self._out_of_time = out_of_time
        self._matcher = device_matching.DeviceMatcher(inputs.selectors, on, reachable, out_of_time)
        self._validator = request_validation.RequestValidator(inputs.classes, in_pools, self._matcher, on)
        self._counters = shared_counters.SharedCounters(in_pools, inputs.allocated, on)
        self._requests: list[list[list[DeviceRequest]]] = []  # by claim, request, alternative
        self._constraints: list[list[constraints.Constraint]] = []
        self._solutions = [ClaimSolution(claim) for claim in claims]
        self._alternative: dict[tuple[int, int], int] = {}  # the chosen one, by claim and request
        self._selected_for: dict[devices.DeviceId, set[int]] = {}  # the claims, by device
        self._shares: dict[devices.DeviceId, list[Mapping[str, quantity.Quantity]]] = {}

    def allocate(self) -> list[ClaimSolution] | None:
        """Find a solution for each claim, the first in order; None: they cannot all be had from these pools.

        Raises:
            AllocationError: a claim is malformed, asks for too much, or an expression fails.
            UnusablePoolsError: nothing was found, and some pool is invalid; or all devices of a broken pool are wanted.
            TimedOutError: the search took too long.
        """
        for claim in self._claims:
            self._requests.append(self._validator.read_requests(claim))
            self._constraints.append(self._constraints_of(claim))
        self._raise_recursion_limit()
        try:
            done = self._allocate_claims_from(0)
        except _TooManyDevicesError as error:
            raise AllocationError("allocation max size exceeded") from error
        if not done:
            if any(pool.invalid for pool in self._pools):
                raise UnusablePoolsError("invalid resource pools were encountered")
            return None
        for number, solution in enumerate(self._solutions):
            solution.requests = [
                alternatives[self._alternative.get((number, at), 0)]
                for at, alternatives in enumerate(self._requests[number])
            ]
        return self._solutions

    def _constraints_of(self, claim: resource_pb2.ResourceClaim) -> list[constraints.Constraint]:
        """Make the constraints of a claim. Raises: AllocationError for one of an unknown kind."""
        made = []
        for at, stated in enumerate(claim.spec.devices.constraints):
            constraint = constraints.make_constraint(stated, self._matcher.attribute, self._on)
            if constraint is None:
                raise AllocationError(
                    f"claim {claim_name(claim)}, constraint #{at}: empty constraint (unsupported constraint type?)"
                )
            made.append(constraint)
        return made

    def _raise_recursion_limit(self) -> None:
        """Raise Python's recursion limit to what the search needs: it goes some calls deeper with each device."""
        count = sum(
            max(request.count for request in alternatives) + 1
            for requests in self._requests
            for alternatives in requests
        )
        deepest = min(count, MAX_DEVICES * 2 * len(self._claims)) + len(self._claims)
        needed = _CALLS_AROUND + _CALLS_PER_DEVICE * deepest
        if needed > sys.getrecursionlimit():
            sys.setrecursionlimit(needed)

    # The search. Each method allocates the rest from its start on, and returns whether that succeeded.

    def _allocate_claims_from(self, number: int) -> bool:
        """Allocate the claim of this number and all after it; return whether that works."""
        if number >= len(self._claims):
            return True
        return self._allocate_requests_from(number, 0)

    def _allocate_requests_from(self, number: int, at: int) -> bool:
        """Allocate this request of the claim, alternatives in order, and all after it; return whether that works.

        The requests after it are those of this claim and of all later ones. Raises: _TooManyDevicesError if the
        request, or each of its alternatives, wants more devices than an allocation may have; AllocationError;
        TimedOutError.
        """
        if self._out_of_time():
            raise TimedOutError
        if at >= len(self._requests[number]):
            try:
                return self._allocate_claims_from(number + 1)
            except _TooManyDevicesError:
                # A later claim has too many; another choice here may leave it one with fewer.
                return False
        alternatives = self._requests[number][at]
        if not alternatives[0].parent:
            return self._allocate_devices_of_request(number, at, alternatives[0], 0, _BEGINNING)
        too_many = True
        for choice, request in enumerate(alternatives):
            try:
                found = self._allocate_devices_of_request(number, at, request, 0, _BEGINNING)
            except _TooManyDevicesError:
                continue
            too_many = False
            if found:
                self._alternative[number, at] = choice
                return True
        if too_many:
            raise _TooManyDevicesError
        return False

    def _allocate_devices_of_request(
        self, number: int, at: int, request: DeviceRequest, have: int, start: Start
    ) -> bool:
        """Allocate the rest of the devices of one request, which `have` some, and all that follows, if possible.

        On failure what was selected here is deselected. Raises: _TooManyDevicesError, TimedOutError, AllocationError.
        """
        if self._out_of_time():
            raise TimedOutError
        if request.is_for_all and not request.all_devices:
            return False
        if have >= request.count:
            return self._allocate_requests_from(number, at + 1)
        if len(self._solutions[number].selected) + request.count - have > MAX_DEVICES:
            raise _TooManyDevicesError
        if request.is_for_all:
            deselect = self._select_device(number, request, request.all_devices[have], must=True)
            return deselect is not None and self._allocate_all_after(number, at, request, have, _BEGINNING, deselect)
        for device, following in self._devices_from_position(start):
            if not self._is_candidate(number, request, device):
                continue
            deselect = self._select_device(number, request, device, must=False)
            if deselect is not None and self._allocate_all_after(number, at, request, have, following, deselect):
                return True
        return False

    def _devices_from_position(self, start: Start) -> Iterator[tuple[devices.Device, Start]]:
        """Yield the devices of all pools in order, each with the position to go on from after it."""
        for pool_at in range(start[0], len(self._pools)):
            offered = self._pools[pool_at].offered
            for slice_at in range(start[1] if pool_at == start[0] else 0, len(offered)):
                candidates = offered[slice_at].devices
                first = start[2] if (pool_at, slice_at) == start[:2] else 0
                for device_at in range(first, len(candidates)):
                    yield candidates[device_at], (pool_at, slice_at, device_at + 1)

    def _allocate_all_after(
        self, number: int, at: int, request: DeviceRequest, have: int, start: Start, deselect: Callable[[], None]
    ) -> bool:
        """Allocate all that comes after a selected device; return whether that works. If not, deselect the device.

        Raises: _TooManyDevicesError, AllocationError, TimedOutError, after deselecting it.
        """
        try:
            done = self._allocate_devices_of_request(number, at, request, have + 1, start)
        except (_TooManyDevicesError, AllocationError, TimedOutError):
            deselect()
            raise
        if not done:
            deselect()
        return done

    def _is_candidate(self, number: int, request: DeviceRequest, device: devices.Device) -> bool:
        """Whether the device is free for the request, matches its selectors and has the requested capacity left.

        Whether counters, taints and constraints allow it, `_select_device` finds out. Raises: AllocationError.
        """
        if self._is_in_use(number, request, device):
            return False
        claim = self._claims[number]
        if not self._matcher.matches(claim, request, device):
            return False
        return not self._on.consumable or self._has_capacity(claim, request, device, "checking")

    def _is_in_use(self, number: int, request: DeviceRequest, device: devices.Device) -> bool:
        """Whether the device is taken as a whole; a request with admin access cares only for its own claim."""
        selected_for = self._selected_for.get(device.id)
        if request.admin_access:
            return selected_for is not None and number in selected_for
        return device.id in self._allocated.dedicated or bool(selected_for)

    def _has_capacity(
        self, claim: resource_pb2.ResourceClaim, request: DeviceRequest, device: devices.Device, doing: str
    ) -> bool:
        """Whether the device has the requested capacity left, beside allocated shares and those selected so far.

        Raises: AllocationError if that cannot be computed; `doing` is the verb of its message.
        """
        consumed = self._allocated.consumed_amounts(device.id)
        selected: dict[str, int] = {}
        for share in self._shares.get(device.id, ()):
            for name, amount in share.items():
                selected[name] = selected.get(name, 0) + amount.nanos
        try:
            return consumable_capacity.fits(consumed, selected, request.capacity, device, self._on.fractional)
        except consumable_capacity.CapacityError as error:
            where = f"claim {claim_name(claim)}, request {request.name}"
            raise AllocationError(f"{where}: {doing} capacity for device {device.name}: {error}") from error

    # Selecting one device

    def _select_device(
        self, number: int, request: DeviceRequest, device: devices.Device, must: bool
    ) -> Callable[[], None] | None:
        """Select the device; returns how to deselect it, or None if it cannot be had.

        `must`: there is no other choice, so that a constraint against it is an error.
        """
        claim = self._claims[number]
        shareable = self._on.consumable and device.allow_multiple
        if not self._is_available(number, request, device, shareable):
            return None
        consumes = bool(device.consumes) and not (shareable and self._has_allocated_shares(device))
        if consumes and not self._counters.can_take(device):
            return None
        if self._on.taints and _has_untolerated_taint(device, request):
            return None
        if not self._satisfies_constraints(number, request, device, must):
            return None
        if self._on.consumable and not self._has_capacity(claim, request, device, "rechecking"):
            self._undo_constraints(number, request, len(self._constraints[number]))
            return None
        consumed = self._share_that_request_takes(claim, request, device) if shareable else None
        return self._count_as_selected(number, SelectedDevice(request, device, consumed), consumes)

    def _is_available(self, number: int, request: DeviceRequest, device: devices.Device, shareable: bool) -> bool:
        """Whether no other claim has the device, and all that it needs is supported."""
        if not (request.admin_access and shareable) and self._is_in_use(number, request, device):
            return False
        if not (request.admin_access or shareable) and self._has_allocated_shares(device):
            return False  # It was shareable when claims got shares of it.
        if device.consumes and not self._on.partitionable:
            return False
        skips = self._on.experimental and bool(device.slice.message.spec.skip_node_operations)
        return not skips or (self._on.optional_node_operations and self._skips_operations)

    def _share_that_request_takes(
        self, claim: resource_pb2.ResourceClaim, request: DeviceRequest, device: devices.Device
    ) -> Mapping[str, quantity.Quantity]:
        """Return what the request takes of a shared device, by capacity name. Raises: AllocationError."""
        try:
            return consumable_capacity.consumption(request.capacity, device, self._on.fractional)
        except consumable_capacity.CapacityError as error:
            where = f"claim {claim_name(claim)}, request {request.name}"
            raise AllocationError(f"{where}: computing consumed capacity for device {device.name}: {error}") from error

    def _count_as_selected(self, number: int, selected: SelectedDevice, consumes: bool) -> Callable[[], None]:
        """Count the device as selected for the claim; returns how to undo that."""
        device = selected.device
        give_back = self._counters.take(device) if consumes else None
        if selected.consumed is None:
            self._selected_for.setdefault(device.id, set()).add(number)
        else:
            self._shares.setdefault(device.id, []).append(selected.consumed)
        self._solutions[number].selected.append(selected)

        def deselect() -> None:
            self._solutions[number].selected.pop()
            if selected.consumed is None:
                self._selected_for[device.id].discard(number)
            else:
                self._shares[device.id].pop()
                if not self._shares[device.id]:
                    del self._shares[device.id]
            self._undo_constraints(number, selected.request, len(self._constraints[number]))
            if give_back is not None:
                give_back()

        return deselect

    def _satisfies_constraints(self, number: int, request: DeviceRequest, device: devices.Device, must: bool) -> bool:
        """Return whether all constraints of the claim allow the device; if so they count it, else none does.

        `must`: one that does not allow it raises AllocationError.
        """
        for count, constraint in enumerate(self._constraints[number]):
            where = f"claim {claim_name(self._claims[number])}, request {request.name}"
            try:
                allowed = constraint.add(request, device)
            except AllocationError as error:
                self._undo_constraints(number, request, count)
                # The experimental allocator does not say where.
                raise error if self._on.experimental else AllocationError(f"{where}: {error}") from error
            except TimedOutError:
                self._undo_constraints(number, request, count)
                raise
            if allowed:
                continue
            self._undo_constraints(number, request, count)
            if must:
                why = "because a claim constraint would not be satisfied"
                raise AllocationError(f"{where}: cannot add device {device.name} {why}")
            return False
        return True

    def _undo_constraints(self, number: int, request: DeviceRequest, count: int) -> None:
        """Have the claim's first `count` constraints forget the device that was selected last for the request."""
        for constraint in reversed(self._constraints[number][:count]):
            constraint.remove(request)

    def _has_allocated_shares(self, device: devices.Device) -> bool:
        """Whether anyone has a share of the device: then its counters are consumed already."""
        allocated = self._allocated
        return device.id in allocated.shared or bool(allocated.consumed_amounts(device.id)) or device.id in self._shares


def _has_untolerated_taint(device: devices.Device, request: DeviceRequest) -> bool:
    """Whether the device has a taint that the request does not tolerate."""
    return any(
        taint.effect in _BLOCKING and not device_taints.is_tolerated(taint, request.spec.tolerations)
        for taint in device.taints
    )
