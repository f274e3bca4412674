"""The requests of a claim as the allocator works with them: exact ones, and the alternatives of a prioritized list.

Nothing is filled in here: what the API server has defaulted is there, and a request that it has not is refused as
kube-scheduler refuses it.

Tests: tests/unit/plugins/dynamic_resources/test_gated.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from trireme.plugins.dynamic_resources import devices
from trireme.v1 import resource_pb2
from trireme_kube.apimachinery import quantity

EXACT_COUNT = "ExactCount"
ALL = "All"

#: What the API states of a request, or of an alternative of one.
RequestSpec: TypeAlias = "resource_pb2.ExactDeviceRequest | resource_pb2.DeviceSubRequest"


@dataclass(slots=True)
class DeviceRequest:
    """One request, or one alternative of one. `all_devices` are those of mode All, found before the search."""

    name: str
    parent: str  # the request that it is an alternative of; empty: none
    spec: RequestSpec
    device_class: resource_pb2.DeviceClass
    capacity: Mapping[str, quantity.Quantity]
    count: int = 0
    all_devices: list[devices.Device] = field(default_factory=list)
    # Expressions of the attributes that the request computes, by attribute.
    derived_attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """The name that an allocation has for it: `request/alternative` if it is an alternative."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @property
    def is_for_all(self) -> bool:
        """Whether its allocation mode is All: every matching device."""
        return self.spec.allocation_mode == ALL

    @property
    def admin_access(self) -> bool:
        """Whether it is for administrative access, also to devices that other claims hold."""
        return isinstance(self.spec, resource_pb2.ExactDeviceRequest) and self.spec.admin_access

    @property
    def name_and_alternative(self) -> tuple[str, str]:
        """The names of the request and of its alternative; the latter is empty if it is none."""
        return (self.parent, self.name) if self.parent else (self.name, "")


def capacity_requests(
    spec: RequestSpec,
) -> dict[str, quantity.Quantity]:
    """Return how much of each capacity is requested, by name. Raises: ValueError where an amount is invalid."""
    return {name: quantity.parse_quantity(value.string) for name, value in spec.capacity.requests.items()}
