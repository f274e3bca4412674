"""From the requests of a claim to those that the allocator works with; what it cannot allocate is an error.

Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go
(validateDeviceRequest).

Tests: tests/unit/plugins/dynamic_resources/test_allocator.py.
"""

from collections.abc import Mapping, Sequence

from trireme.plugins.dynamic_resources import consumable_capacity, device_matching, devices, features, pools
from trireme.plugins.dynamic_resources.allocation_errors import AllocationError, UnusablePoolsError, claim_name
from trireme.plugins.dynamic_resources.device_request import (
    ALL,
    EXACT_COUNT,
    DeviceRequest,
    RequestSpec,
    capacity_requests,
)
from trireme.v1 import resource_pb2

# An allocation has so many devices at most.
MAX_DEVICES = 32


class RequestValidator:
    """Validates requests for devices of these classes, in these pools.

    Its methods raise AllocationError, and UnusablePoolsError.
    """

    def __init__(
        self,
        classes: Mapping[str, resource_pb2.DeviceClass],
        in_pools: Sequence[pools.Pool],
        matcher: device_matching.DeviceMatcher,
        on: features.Features,
    ) -> None:
        self._classes = classes
        self._pools = in_pools
        self._matcher = matcher
        self._on = on

    def read_requests(self, claim: resource_pb2.ResourceClaim) -> list[list[DeviceRequest]]:
        """Read the claim's requests, each as its alternatives in order; of an exact request, itself alone.

        Raises: AllocationError, also if even the smallest alternatives are too many devices.
        """
        requests = []
        least = 0
        for request in claim.spec.devices.requests:
            self._check_features(claim, request)
            if request.first_available:
                alternatives = [
                    self._make_request(claim, each, each.name, request.name) for each in request.first_available
                ]
            else:
                alternatives = [self._make_request(claim, request.exactly, request.name, "")]
            requests.append(alternatives)
            more = min(each.count for each in alternatives)
            if more > MAX_DEVICES - least:
                where = f"claim {claim_name(claim)}, request {request.name}"
                too_many = f"adding {more} devices exceeds the claim limit of {MAX_DEVICES}"
                raise AllocationError(f"{where}: {too_many}, with {least} already accounted for")
            least += more
        return requests

    def _check_features(self, claim: resource_pb2.ResourceClaim, request: resource_pb2.DeviceRequest) -> None:
        """Check that the gates allow alternatives and capacity requests. Raises: AllocationError."""
        where = f"claim {claim_name(claim)}, request {request.name}"
        if request.first_available and not self._on.prioritized_list:
            raise AllocationError(f"{where}: has subrequests, but the DRAPrioritizedList feature is disabled")
        if self._on.consumable:
            return
        disabled = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
        if request.exactly.HasField("capacity"):
            raise AllocationError(f"{where}: {disabled}")
        for each in request.first_available:
            if each.HasField("capacity"):
                raise AllocationError(f"claim {claim_name(claim)}, subrequest {each.name}: {disabled}")

    def _make_request(
        self,
        claim: resource_pb2.ResourceClaim,
        spec: RequestSpec,
        name: str,
        parent: str,
    ) -> DeviceRequest:
        """Read one request for the allocator; of mode All with the devices that match now.

        Raises: AllocationError if it asks for something that is off or malformed, UnusablePoolsError if it asks for all
        devices and a pool is broken.
        """
        where = f"claim {claim_name(claim)}, request {name}"
        self._check_support(where, spec)
        device_class = self._device_class_of(where, spec)
        try:
            request = DeviceRequest(name, parent, spec, device_class, capacity_requests(spec))
        except ValueError as error:
            raise AllocationError(f"{where}: {error}") from error
        request.derived_attributes = {entry.name: entry.expression for entry in spec.derived_attributes}
        if spec.allocation_mode == EXACT_COUNT:
            request.count = spec.count
        elif spec.allocation_mode == ALL:
            self._find_all_devices(claim, request, where)
        else:
            raise AllocationError(f"{where}: unsupported count mode {spec.allocation_mode}")
        return request

    def _check_support(self, where: str, spec: RequestSpec) -> None:
        """Check that the gates and this version know all that a request states. Raises: AllocationError."""
        if spec.derived_attributes and not self._on.derived_attributes:
            raise AllocationError(f"{where}: cannot handle request with derived attributes, the feature is disabled")
        for at, selector in enumerate(spec.selectors):
            if not selector.HasField("cel"):
                raise AllocationError(f"{where}, selector #{at}: CEL expression empty (unsupported selector type?)")
        admin = isinstance(spec, resource_pb2.ExactDeviceRequest) and spec.HasField("admin_access")
        if admin and not self._on.admin_access:
            raise AllocationError(f"{where}: admin access is requested, but the feature is disabled")

    def _device_class_of(self, where: str, spec: RequestSpec) -> resource_pb2.DeviceClass:
        """Return the request's device class. Raises: AllocationError if it is missing."""
        if not spec.device_class_name:
            raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
        device_class = self._classes.get(spec.device_class_name)
        if device_class is None:
            missing = f'deviceclass.resource.k8s.io "{spec.device_class_name}" not found'
            raise AllocationError(f"{where}: could not retrieve device class {spec.device_class_name}: {missing}")
        return device_class

    def _find_all_devices(self, claim: resource_pb2.ResourceClaim, request: DeviceRequest, where: str) -> None:
        """Find all devices for a request of mode All, allocated ones included.

        Raises: UnusablePoolsError if a pool is incomplete or invalid, AllocationError.
        """
        for pool in self._pools:
            state = "being updated" if pool.incomplete else "invalid" if pool.invalid else ""
            if state:
                raise UnusablePoolsError(
                    f"{where}: asks for all devices, but resource pool {pool.name} is currently {state}"
                )
            for entry in pool.offered:
                request.all_devices += [
                    device
                    for device in entry.devices
                    if self._matcher.matches(claim, request, device)
                    and self._has_capacity_if_unused(where, request, device)
                ]
        request.count = len(request.all_devices)

    def _has_capacity_if_unused(self, where: str, request: DeviceRequest, device: devices.Device) -> bool:
        """Whether the device, if it were unused, has the requested capacity; always without DRAConsumableCapacity.

        Raises: AllocationError if that cannot be computed.
        """
        if not self._on.consumable:
            return True
        try:
            return consumable_capacity.fits({}, {}, request.capacity, device, self._on.fractional)
        except consumable_capacity.CapacityError as error:
            raise AllocationError(f"{where}: checking capacity for device {device.id[2]}: {error}") from error
