"""Which devices are taken, and how much of those that several claims share.

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
class Taken:
    """What one claim holds of one device. `shared`: others may hold shares of it, too."""

    device: devices.DeviceId
    shared: bool
    consumed: devices.Amounts | None


class Ledger:
    """Devices in use, over all claims."""

    def __init__(self) -> None:
        # How many claims hold each.
        self.dedicated: Counter[devices.DeviceId] = Counter()
        self.shared: Counter[devices.DeviceId] = Counter()
        self._consumed: dict[devices.DeviceId, Counter[str]] = {}
        self._consumers: Counter[devices.DeviceId] = Counter()

    def add(self, held: Taken) -> None:
        """A claim holds this."""
        self._count(held, 1)

    def remove(self, held: Taken) -> None:
        """A claim holds this no longer."""
        self._count(held, -1)

    def consumed(self, device: devices.DeviceId) -> devices.Amounts:
        """How much of the device is taken, by capacity name; in nanos."""
        return self._consumed.get(device, {})

    def allocated(self, device: devices.DeviceId) -> bool:
        """Whether any claim holds any of it."""
        return device in self.dedicated or device in self.shared

    def _count(self, held: Taken, sign: int) -> None:
        counts = self.shared if held.shared else self.dedicated
        counts[held.device] += sign
        if not counts[held.device]:
            del counts[held.device]
        if held.consumed is None:
            return
        self._consumers[held.device] += sign
        amounts = self._consumed.setdefault(held.device, Counter())
        for name, nanos in held.consumed.items():
            amounts[name] += sign * nanos
        if not self._consumers[held.device]:
            del self._consumers[held.device], self._consumed[held.device]


def held_by(allocation: resource_pb2.AllocationResult, consumable: bool) -> Iterator[Taken]:
    """What a claim with this allocation holds."""
    for result in allocation.devices.results:
        if result.admin_access:
            continue
        device = (result.driver, result.pool, result.device)
        if not consumable or not result.HasField("share_id"):
            yield Taken(device, False, None)
        elif result.consumed_capacity:
            yield Taken(device, True, {name: _nanos(value.string) for name, value in result.consumed_capacity.items()})
        else:
            yield Taken(device, True, None)


def _nanos(text: str) -> int:
    try:
        return quantity.parse_quantity(text).nanos
    except ValueError:
        return 0
