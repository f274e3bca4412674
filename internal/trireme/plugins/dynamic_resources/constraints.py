"""Constraints over the devices of a claim: an attribute that all have alike, or each has otherwise.

They are monotonic: what does not hold for some devices does not hold for more, so the search may stop there. With list
attributes an attribute is a set of values, of which all devices must share one, or no two devices any.
"""

import abc
from collections.abc import Callable, Sequence
from typing import Final

from trireme.plugins.dynamic_resources import devices, features
from trireme.plugins.dynamic_resources.device_request import DeviceRequest
from trireme.v1 import resource_pb2

# The attribute of a device by its full name, for a request, which may compute attributes of its own.
Lookup = Callable[[DeviceRequest, devices.Device, str], resource_pb2.DeviceAttribute | None]

# Kind and values of an attribute.
Values = tuple[str, frozenset[int | bool | str]]

# In the order in which Kubernetes looks for a value.
_LISTS: Final = (("int", "ints"), ("bool", "bools"), ("string", "strings"), ("version", "versions"))


class Constraint(abc.ABC):
    """One constraint while devices are selected and deselected in reverse order."""

    def __init__(self, requests: Sequence[str], attribute: str, lookup: Lookup) -> None:
        self._requests = frozenset(requests)
        self._attribute = attribute
        self._lookup = lookup

    def add(self, request: DeviceRequest, device: devices.Device) -> bool:
        """Whether the device may be selected; if so it is counted."""
        if not self._applies_to(request):
            return True
        value = self._lookup(request, device, self._attribute)
        return value is not None and self._count_if_allowed(value)

    def remove(self, request: DeviceRequest) -> None:
        """The device selected last for this request is no longer counted."""
        if self._applies_to(request):
            self._uncount_last()

    def _applies_to(self, request: DeviceRequest) -> bool:
        name, alternative = request.name_and_alternative
        if not self._requests or name in self._requests:
            return True
        return bool(alternative) and f"{name}/{alternative}" in self._requests

    @abc.abstractmethod
    def _count_if_allowed(self, value: resource_pb2.DeviceAttribute) -> bool:
        """Whether a device with this value goes with those selected; if so it is one of them."""

    @abc.abstractmethod
    def _uncount_last(self) -> None:
        """The device selected last is none of them any more."""


class _ScalarConstraint(Constraint):
    """A constraint on an attribute of one value: it remembers the values of the devices selected so far."""

    def __init__(self, requests: Sequence[str], attribute: str, lookup: Lookup) -> None:
        super().__init__(requests, attribute, lookup)
        self._values: list[resource_pb2.DeviceAttribute] = []

    def _count_if_allowed(self, value: resource_pb2.DeviceAttribute) -> bool:
        # The first may have any value, even of a kind that is not known.
        if self._values and not self._allows(value):
            return False
        self._values.append(value)
        return True

    def _uncount_last(self) -> None:
        self._values.pop()

    @abc.abstractmethod
    def _allows(self, value: resource_pb2.DeviceAttribute) -> bool:
        """Whether a device with this value goes with those selected, of which there are some."""


class MatchAttribute(_ScalarConstraint):
    """All devices have the same value."""

    def _allows(self, value: resource_pb2.DeviceAttribute) -> bool:
        found = devices.scalar_value(value)
        return found is not None and found == devices.scalar_value(self._values[0])


class DistinctAttribute(_ScalarConstraint):
    """No two devices have the same value."""

    def _allows(self, value: resource_pb2.DeviceAttribute) -> bool:
        found = devices.scalar_value(value)
        return found is not None and all(found != devices.scalar_value(other) for other in self._values)


class MatchListAttribute(Constraint):
    """There is a value that all devices have."""

    def __init__(self, requests: Sequence[str], attribute: str, lookup: Lookup) -> None:
        super().__init__(requests, attribute, lookup)
        # What all devices up to each one have.
        self._common: list[Values] = []

    def _count_if_allowed(self, value: resource_pb2.DeviceAttribute) -> bool:
        found = values_of(value)
        if found is None:
            return False
        if self._common:
            kind, common = self._common[-1]
            shared = common & found[1]
            if kind != found[0] or not shared:
                return False
            found = kind, shared
        self._common.append(found)
        return True

    def _uncount_last(self) -> None:
        self._common.pop()


class DistinctListAttribute(Constraint):
    """No two devices have a value in common."""

    def __init__(self, requests: Sequence[str], attribute: str, lookup: Lookup) -> None:
        super().__init__(requests, attribute, lookup)
        self._values: list[Values] = []

    def _count_if_allowed(self, value: resource_pb2.DeviceAttribute) -> bool:
        found = values_of(value)
        if found is None or any(kind == found[0] and values & found[1] for kind, values in self._values):
            return False
        self._values.append(found)
        return True

    def _uncount_last(self) -> None:
        self._values.pop()


def values_of(attribute: resource_pb2.DeviceAttribute) -> Values | None:
    """The values of an attribute, one or a list; None where there is none of a known kind."""
    for kind, name in _LISTS:
        values = getattr(attribute, name)
        if values:
            return kind, frozenset(values)
    one = devices.scalar_value(attribute)
    return None if one is None else (one[0], frozenset([one[1]]))


def make_constraint(stated: resource_pb2.DeviceConstraint, lookup: Lookup, on: features.Features) -> Constraint | None:
    """The constraint; None where it is of a kind that is not known."""
    if stated.HasField("match_attribute"):
        match = MatchListAttribute if on.list_attributes else MatchAttribute
        return match(stated.requests, stated.match_attribute, lookup)
    if stated.HasField("distinct_attribute") and not on.stable:
        distinct = DistinctListAttribute if on.list_attributes else DistinctAttribute
        return distinct(stated.requests, stated.distinct_attribute, lookup)
    return None
