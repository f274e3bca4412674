"""Constraints over the devices of a claim: an attribute that all have alike, or each has otherwise.

They are monotonic: what does not hold for some devices does not hold for more, so the search may stop there. With list
attributes an attribute is a set of values: all devices must share one, or no two devices any.

Tests: tests/unit/plugins/dynamic_resources/test_allocator.py, tests/unit/plugins/dynamic_resources/test_gated.py.
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
    """One constraint while devices are selected and deselected in reverse order.

    Implementers: trireme.plugins.dynamic_resources.constraints.MatchAttribute,
    trireme.plugins.dynamic_resources.constraints.DistinctAttribute,
    trireme.plugins.dynamic_resources.constraints.MatchListAttribute,
    trireme.plugins.dynamic_resources.constraints.DistinctListAttribute,
    trireme.plugins.dynamic_resources.constraints._ScalarConstraint.
    """

    def __init__(self, requests: Sequence[str], attribute: str, lookup: Lookup) -> None:
        self._requests = frozenset(requests)
        self._attribute = attribute
        self._lookup = lookup

    def add(self, request: DeviceRequest, device: devices.Device) -> bool:
        """Return whether the device is allowed; if so, count it. All are if the constraint is not about the request."""
        if not self._applies_to(request):
            return True
        value = self._lookup(request, device, self._attribute)
        return value is not None and self._count_if_allowed(value)

    def remove(self, request: DeviceRequest) -> None:
        """Forget the device that was added last for this request."""
        if self._applies_to(request):
            self._uncount_last()

    def _applies_to(self, request: DeviceRequest) -> bool:
        """Whether the constraint names the request or its alternative; one that names no requests is about all."""
        name, alternative = request.name_and_alternative
        if not self._requests or name in self._requests:
            return True
        return bool(alternative) and f"{name}/{alternative}" in self._requests

    @abc.abstractmethod
    def _count_if_allowed(self, value: resource_pb2.DeviceAttribute) -> bool:
        """Return whether a device with this value of the attribute is allowed beside those counted; if so, count it."""

    @abc.abstractmethod
    def _uncount_last(self) -> None:
        """Forget the device that was counted last."""


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
        """Whether a device with this value is allowed beside those counted; called only if there are any."""


class MatchAttribute(_ScalarConstraint):
    """matchAttribute: all devices have the same value."""

    def _allows(self, value: resource_pb2.DeviceAttribute) -> bool:
        found = devices.scalar_value(value)
        return found is not None and found == devices.scalar_value(self._values[0])


class DistinctAttribute(_ScalarConstraint):
    """distinctAttribute: no two devices have the same value."""

    def _allows(self, value: resource_pb2.DeviceAttribute) -> bool:
        found = devices.scalar_value(value)
        return found is not None and all(found != devices.scalar_value(other) for other in self._values)


class MatchListAttribute(Constraint):
    """matchAttribute where an attribute may be a list: there is a value that all devices have."""

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
    """distinctAttribute where an attribute may be a list: no two devices have a value in common."""

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
    """Return kind and values of an attribute, a single value or a list; None where it is of no known kind."""
    for kind, name in _LISTS:
        values = getattr(attribute, name)
        if values:
            return kind, frozenset(values)
    one = devices.scalar_value(attribute)
    return None if one is None else (one[0], frozenset([one[1]]))


def make_constraint(stated: resource_pb2.DeviceConstraint, lookup: Lookup, on: features.Features) -> Constraint | None:
    """Make the constraint that the claim states; None where it is of a kind that is not known."""
    if stated.HasField("match_attribute"):
        match = MatchListAttribute if on.list_attributes else MatchAttribute
        return match(stated.requests, stated.match_attribute, lookup)
    if stated.HasField("distinct_attribute"):
        distinct = DistinctListAttribute if on.list_attributes else DistinctAttribute
        return distinct(stated.requests, stated.distinct_attribute, lookup)
    return None
