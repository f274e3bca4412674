"""Constraints over the devices of a claim: an attribute that all have alike, or each has otherwise.

They are monotonic: what does not hold for some devices does not hold for more, so the search may stop there.
"""

import abc
from collections.abc import Sequence

from trireme.plugins.dynamic_resources import devices
from trireme.v1 import resource_pb2


class Constraint(abc.ABC):
    """One constraint while devices are picked and put back in reverse order."""

    def __init__(self, requests: Sequence[str], attribute: str) -> None:
        self._requests = frozenset(requests)
        self._attribute = attribute
        self._values: list[resource_pb2.DeviceAttribute] = []

    def add(self, request: str, subrequest: str, device: devices.Device) -> bool:
        """Whether the device may be picked; if so it is."""
        if not self._concerns(request, subrequest):
            return True
        value = device.attribute(self._attribute)
        if value is None or not self._allows(value):
            return False
        self._values.append(value)
        return True

    def remove(self, request: str, subrequest: str) -> None:
        """The device picked last for this request is put back."""
        if self._concerns(request, subrequest):
            self._values.pop()

    def _concerns(self, request: str, subrequest: str) -> bool:
        if not self._requests or request in self._requests:
            return True
        return bool(subrequest) and f"{request}/{subrequest}" in self._requests

    @abc.abstractmethod
    def _allows(self, value: resource_pb2.DeviceAttribute) -> bool:
        """Whether a device with this value goes with those picked."""


class MatchAttribute(Constraint):
    """All devices have the same value. The first may have any, even of a kind that is not known."""

    def _allows(self, value: resource_pb2.DeviceAttribute) -> bool:
        found = devices.scalar(value)
        return not self._values or (found is not None and found == devices.scalar(self._values[0]))


class DistinctAttribute(Constraint):
    """No two devices have the same value."""

    def _allows(self, value: resource_pb2.DeviceAttribute) -> bool:
        if not self._values:
            return True
        found = devices.scalar(value)
        return found is not None and all(found != devices.scalar(other) for other in self._values)


def make(stated: resource_pb2.DeviceConstraint) -> Constraint | None:
    """The constraint; None where it is of a kind that is not known."""
    if stated.HasField("match_attribute"):
        return MatchAttribute(stated.requests, stated.match_attribute)
    if stated.HasField("distinct_attribute"):
        return DistinctAttribute(stated.requests, stated.distinct_attribute)
    return None
