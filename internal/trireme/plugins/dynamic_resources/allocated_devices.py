"""Which devices are allocated to claims, and how much of those that several claims share.

A claim counts from when it is assumed to have its devices. What a claim with admin access looks at stays free.

Source: pkg/scheduler/framework/plugins/dynamicresources (allocateddevices.go, dra_manager.go).

Tests: tests/conformance/test_decisions.py, tests/unit/plugins/dynamic_resources/test_allocator.py.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from trireme.plugins.dynamic_resources import devices
from trireme.v1 import resource_pb2
from trireme_kube.apimachinery import quantity


@dataclass(frozen=True, slots=True)
class ClaimedDevice:
    """What one claim holds of one device. `shared`: others may hold shares of it, too."""

    device: devices.DeviceId
    shared: bool
    consumed: devices.Amounts | None


class AllocatedDevices:
    """Devices in use, over all claims."""

    def __init__(self) -> None:
        # How many claims hold each.
        self.dedicated: Counter[devices.DeviceId] = Counter()
        self.shared: Counter[devices.DeviceId] = Counter()
        self._consumed: dict[devices.DeviceId, Counter[str]] = {}
        self._consumers: Counter[devices.DeviceId] = Counter()

    def add(self, claimed: ClaimedDevice) -> None:
        """Count what a claim holds."""
        self._change_count(claimed, 1)

    def remove(self, claimed: ClaimedDevice) -> None:
        """Count what a claim held no longer; it must have been added before."""
        self._change_count(claimed, -1)

    def consumed_amounts(self, device: devices.DeviceId) -> devices.Amounts:
        """Return how much of the device's capacities claims consume, by capacity name, in nanos; empty if none does."""
        return self._consumed.get(device, {})

    def contains(self, device: devices.DeviceId) -> bool:
        """Whether any claim holds the device or a share of it."""
        return device in self.dedicated or device in self.shared

    def _change_count(self, claimed: ClaimedDevice, sign: int) -> None:
        """Count the claim's use of the device and its amounts again (`sign` 1), or once less (−1)."""
        counts = self.shared if claimed.shared else self.dedicated
        counts[claimed.device] += sign
        if not counts[claimed.device]:
            del counts[claimed.device]
        if claimed.consumed is None:
            return
        self._consumers[claimed.device] += sign
        amounts = self._consumed.setdefault(claimed.device, Counter())
        for name, nanos in claimed.consumed.items():
            amounts[name] += sign * nanos
        if not self._consumers[claimed.device]:
            del self._consumers[claimed.device], self._consumed[claimed.device]


def claimed_devices(
    allocation: resource_pb2.AllocationResult, consumable: bool, corrected: bool = False
) -> Iterator[ClaimedDevice]:
    """Yield what a claim with this allocation holds of each device.

    `consumable`: the gate DRAConsumableCapacity is on; without it, no device is shared. `corrected`: a claim
    that consumes less than nothing of a device holds all of it, since nobody knows what is left.
    """
    for result in allocation.devices.results:
        if result.admin_access:
            continue
        device = (result.driver, result.pool, result.device)
        if not consumable or not result.HasField("share_id") or (corrected and _negative_amounts(result)):
            yield ClaimedDevice(device, False, None)
        elif result.consumed_capacity:
            consumed = {
                devices.qualified_name(name, result.driver): _nanos_or_zero(value.string)
                for name, value in result.consumed_capacity.items()
            }
            yield ClaimedDevice(device, True, consumed)
        else:
            yield ClaimedDevice(device, True, None)


def negative_consumption(allocation: resource_pb2.AllocationResult) -> str:
    """Return what is wrong with the first amount below zero that a claim with this allocation consumes; empty: none."""
    for result in allocation.devices.results:
        for name in _negative_amounts(result):
            device = f"{result.driver}/{result.pool}/{result.device}"
            amount = quantity.parse_quantity(result.consumed_capacity[name].string)
            return f'device {device}: consumed capacity "{name}" must not be negative, got {amount}'
    return ""


def _negative_amounts(result: resource_pb2.DeviceRequestAllocationResult) -> list[str]:
    """The names of the capacities whose consumption is below zero."""
    return sorted(name for name, value in result.consumed_capacity.items() if _nanos_or_zero(value.string) < 0)


def _nanos_or_zero(text: str) -> int:
    """Parse a quantity to nanos; 0 if it is invalid."""
    try:
        return quantity.parse_quantity(text).nanos
    except ValueError:
        return 0
