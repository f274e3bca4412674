"""Binding conditions: whether the devices of an allocated claim are prepared, have failed, or were waited for too long.

Source: pkg/scheduler/framework/plugins/dynamicresources (isClaimReadyForBinding, isClaimTimeout).

Tests: tests/unit/plugins/dynamic_resources/test_pre_bind.py.
"""

from trireme.v1 import meta_pb2, resource_pb2


class BindingFailedError(Exception):
    """A device could not be prepared; the text is kube-scheduler's."""


def are_devices_ready(claim: resource_pb2.ResourceClaim) -> bool:
    """Return whether all devices of the claim are prepared; not if it lost its allocation.

    Devices without binding conditions are always ready. Raises: BindingFailedError if a driver reports a failure.
    """
    if not claim.status.HasField("allocation"):
        return False
    for result in claim.status.allocation.devices.results:
        if not result.binding_conditions:
            continue
        conditions = _conditions_of_device(claim, result)
        if conditions is None:
            return False
        for name in result.binding_failure_conditions:
            failed = conditions.get(name)
            if failed is not None and failed.status == "True":
                why = f"reason={failed.reason}, message={_go_quoted(failed.message)}"
                raise BindingFailedError(f"device binding failed: claim={claim.metadata.name}, {why}")
        for name in result.binding_conditions:
            condition = conditions.get(name)
            if condition is None or condition.status != "True":
                return False
    return True


def timed_out(claim: resource_pb2.ResourceClaim, timeout_seconds: float, now: float) -> bool:
    """Whether the claim's devices have been waited for longer than allowed; never without binding conditions.

    The time counts from the allocation. `now` in seconds since 1970.
    """
    allocation = claim.status.allocation
    if not allocation.HasField("allocation_timestamp"):
        return False
    since = allocation.allocation_timestamp.seconds + allocation.allocation_timestamp.nanos / 1e9
    return has_conditions(claim) and since + timeout_seconds < now


def has_conditions(claim: resource_pb2.ResourceClaim) -> bool:
    """Whether any of the claim's devices has binding conditions: it must be prepared before the pod is bound."""
    return any(result.binding_conditions for result in claim.status.allocation.devices.results)


def _conditions_of_device(
    claim: resource_pb2.ResourceClaim, result: resource_pb2.DeviceRequestAllocationResult
) -> dict[str, meta_pb2.Condition] | None:
    """Return the conditions that the claim's status has for a device, by type; None if the driver reported none yet.

    Of several conditions of one type the first counts.
    """
    device_id = (result.driver, result.pool, result.device)
    for device in claim.status.devices:
        if (device.driver, device.pool, device.device) == device_id:
            return {condition.type: condition for condition in reversed(device.conditions)}
    return None


def _go_quoted(text: str) -> str:
    """Quote a text as Go's `%q` does."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
