"""Constraints over the devices of a claim: an attribute that all have alike, or each has otherwise.

They are monotonic: what does not hold for some devices does not hold for more, so the search may stop there. With list
attributes an attribute is a set of values: all devices must share one, or no two devices any.

Tests: tests/unit/plugins/dynamic_resources/test_allocator.py, tests/unit/plugins/dynamic_resources/test_gated.py.
"""

import abc
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from trireme.plugins.dynamic_resources import devices, features
from trireme.plugins.dynamic_resources.allocation_errors import AllocationError
from trireme.plugins.dynamic_resources.device_request import DeviceRequest
from trireme.v1 import resource_pb2
from trireme_kube.apimachinery import semver

# The attribute of a device by its full name, for a request, which may compute attributes of its own.
Lookup = Callable[[DeviceRequest, devices.Device, str], resource_pb2.DeviceAttribute | None]

# Kind and values of an attribute; of a version what counts, so without build metadata.
Values = tuple[str, frozenset[int | bool | str | semver.Version]]

# Fields of an attribute for a list.
_LISTS: Final = (("int", "ints"), ("bool", "bools"), ("string", "strings"), ("version", "versions"))
# What an expression that comes to an empty list is.
_EMPTY_LIST: Final[Values] = ("string", frozenset())


class Constraint(abc.ABC):
    """One constraint while devices are selected and deselected in reverse order.

    Implementers: trireme.plugins.dynamic_resources.constraints.MatchAttribute,
    trireme.plugins.dynamic_resources.constraints.DistinctAttribute.
    """

    def __init__(self, requests: Sequence[str], attribute: str, lookup: Lookup, *, lists: bool) -> None:
        """`lists`: an attribute may be a list."""
        self._requests = frozenset(requests)
        self._attribute = attribute
        self._lookup = lookup
        self._lists = lists

    def add(self, request: DeviceRequest, device: devices.Device) -> bool:
        """Return whether the device is allowed; if so, count it. All are if the constraint is not about the request.

        Raises: AllocationError where the attribute has no value that can be compared.
        """
        if not self._applies_to(request):
            return True
        attribute = self._lookup(request, device, self._attribute)
        if attribute is None:
            return False
        values = values_of(attribute) if self._lists else _value_of(attribute)
        if values is None:
            if not self._lists or self._attribute not in request.derived_attributes:
                raise AllocationError(f"device {device.name}: unsupported attribute value for {self._attribute}")
            values = _EMPTY_LIST
        return self._count_if_allowed(values)

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
    def _count_if_allowed(self, found: Values) -> bool:
        """Return whether a device with these values of the attribute is allowed beside those counted; if so, count."""

    @abc.abstractmethod
    def _uncount_last(self) -> None:
        """Forget the device that was counted last."""


class MatchAttribute(Constraint):
    """matchAttribute: there is a value that all devices have."""

    def __init__(self, requests: Sequence[str], attribute: str, lookup: Lookup, *, lists: bool) -> None:
        super().__init__(requests, attribute, lookup, lists=lists)
        # What all devices up to each one have.
        self._common: list[Values] = []

    def _count_if_allowed(self, found: Values) -> bool:
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


class DistinctAttribute(Constraint):
    """distinctAttribute: no two devices have a value in common."""

    def __init__(self, requests: Sequence[str], attribute: str, lookup: Lookup, *, lists: bool) -> None:
        super().__init__(requests, attribute, lookup, lists=lists)
        self._values: list[Values] = []

    def _count_if_allowed(self, found: Values) -> bool:
        if any(kind == found[0] and values & found[1] for kind, values in self._values):
            return False
        self._values.append(found)
        return True

    def _uncount_last(self) -> None:
        self._values.pop()


def values_of(attribute: resource_pb2.DeviceAttribute) -> Values | None:
    """Return kind and values of an attribute, a single value or a list; None where it has none that is known."""
    if devices.scalar_value(attribute) is not None:
        return _value_of(attribute)
    for kind, name in _LISTS:
        stated = getattr(attribute, name)
        if stated:
            return _valid_values(kind, stated)
    return None


def _value_of(attribute: resource_pb2.DeviceAttribute) -> Values | None:
    """Return kind and value of an attribute that is one value; None where it is none that is known."""
    stated = devices.scalar_value(attribute)
    return None if stated is None else _valid_values(stated[0], [stated[1]])


def _valid_values(kind: str, stated: Iterable[int | bool | str]) -> Values | None:
    """Return the values as they are compared; None where one is no version."""
    if kind != "version":
        return kind, frozenset(stated)
    try:
        return kind, frozenset(semver.parse(str(text)) for text in stated)
    except ValueError:
        return None


def make_constraint(stated: resource_pb2.DeviceConstraint, lookup: Lookup, on: features.Features) -> Constraint | None:
    """Make the constraint that the claim states; None where it is of a kind that is not known."""
    if stated.HasField("match_attribute"):
        return MatchAttribute(stated.requests, stated.match_attribute, lookup, lists=on.list_attributes)
    if stated.HasField("distinct_attribute"):
        return DistinctAttribute(stated.requests, stated.distinct_attribute, lookup, lists=on.list_attributes)
    return None
