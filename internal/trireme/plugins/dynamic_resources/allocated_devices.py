"""Which devices are allocated to claims, and how much of those that several claims share.

A claim counts from when it is assumed to have its devices. What a claim with admin access looks at stays free.

Source: pkg/scheduler/framework/plugins/dynamicresources (allocateddevices.go, dra_manager.go).
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
        """A claim holds this."""
        self._change_count(claimed, 1)

    def remove(self, claimed: ClaimedDevice) -> None:
        """A claim holds this no longer."""
        self._change_count(claimed, -1)

    def consumed_amounts(self, device: devices.DeviceId) -> devices.Amounts:
        """How much of the device is allocated, by capacity name; in nanos."""
        return self._consumed.get(device, {})

    def contains(self, device: devices.DeviceId) -> bool:
        """Whether any claim holds any of it."""
        return device in self.dedicated or device in self.shared

    def _change_count(self, claimed: ClaimedDevice, sign: int) -> None:
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


def claimed_devices(allocation: resource_pb2.AllocationResult, consumable: bool) -> Iterator[ClaimedDevice]:
    """What a claim with this allocation holds."""
    for result in allocation.devices.results:
        if result.admin_access:
            continue
        device = (result.driver, result.pool, result.device)
        if not consumable or not result.HasField("share_id"):
            yield ClaimedDevice(device, False, None)
        elif result.consumed_capacity:
            yield ClaimedDevice(
                device, True, {name: _nanos_or_zero(value.string) for name, value in result.consumed_capacity.items()}
            )
        else:
            yield ClaimedDevice(device, True, None)


def _nanos_or_zero(text: str) -> int:
    try:
        return quantity.parse_quantity(text).nanos
    except ValueError:
        return 0
