"""Shares of a device: how much a request takes of each capacity, and whether so much is free.

A request is rounded up to what the device's policy offers. What cannot be computed exactly in 64 bits is an error that
ends the search, and not a reason to try another device.

Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/consumable_capacity.go.

Tests: tests/conformance/test_decisions.py.
"""

from collections.abc import Mapping

from trireme.plugins.dynamic_resources import devices
from trireme_kube.apimachinery import quantity

_INT64_MAX = quantity.INT64_MAX
_NANOS = quantity.NANOS_PER_UNIT
_MILLI = quantity.NANOS_PER_MILLI

_NOT_REPRESENTABLE = "capacity request cannot be represented in the device's range arithmetic"
_NEGATIVE = "capacity value is negative"

Requests = Mapping[str, quantity.Quantity]


class CapacityError(Exception):
    """The requested amount cannot be computed."""


def fits(
    used: devices.Amounts, taking: devices.Amounts, stated: Requests, device: devices.Device, fractional: bool
) -> bool:
    """Return whether a share of the device fits beside what is used and being taken; by policy too.

    A request for a capacity that the device lacks does not fit. Raises: CapacityError if an amount cannot be computed.
    """
    capacities = device.capacity
    requests = _requests_by_qualified_name(stated, device)
    if requests is None:
        return False
    consumed = {}
    for name, capacity in capacities.items():
        try:
            consumed[name] = _consumed_amount(requests.get(name), capacity, fractional)
        except CapacityError as error:
            raise CapacityError(f'capacity "{name}": {error}') from error
        if consumed[name].nanos < 0:
            raise CapacityError(f'capacity "{name}": {_NEGATIVE}')
    for name, capacity in capacities.items():
        if _violates_policy(consumed[name], capacity.policy, fractional):
            return False
        if used.get(name, 0) + consumed[name].nanos + taking.get(name, 0) > capacity.value.nanos:
            return False
    return True


def _requests_by_qualified_name(stated: Requests, device: devices.Device) -> Requests | None:
    """Return the requests by the names that the device's capacities have; None if it lacks one.

    Raises: CapacityError if one is requested with and without its domain.
    """
    requests: dict[str, quantity.Quantity] = {}
    for name, amount in sorted(stated.items()):
        full = devices.qualified_name(name, device.id[0])
        if full not in device.capacity:
            return None
        if full in requests:
            bare = full.partition("/")[2]
            other = bare if name == full else full
            raise CapacityError(f'capacity "{bare}" requested both as "{name}" and as "{other}"')
        requests[full] = amount
    return requests


def consumption(stated: Requests, device: devices.Device, fractional: bool) -> dict[str, quantity.Quantity]:
    """The amounts that the request takes, by the qualified name of the capacity. Raises: CapacityError."""
    requests = _requests_by_qualified_name(stated, device) or {}
    out = {}
    for name, capacity in device.capacity.items():
        try:
            out[name] = _consumed_amount(requests.get(name), capacity, fractional)
        except CapacityError as error:
            raise CapacityError(f'capacity "{name}": {error}') from error
    return out


def _consumed_amount(
    requested: quantity.Quantity | None, capacity: devices.DeviceCapacity, fractional: bool
) -> quantity.Quantity:
    """Return what a request takes of one capacity by its policy; `requested` None: the default, or all of it.

    The amount is rounded up to the policy's next allowed value; an amount beyond them stays as it is. Raises:
    CapacityError.
    """
    policy = capacity.policy
    if requested is not None and requested.nanos < 0:
        raise CapacityError(f"{_NEGATIVE}: request {requested}")
    if requested is None:
        return policy.default if policy is not None and policy.default is not None else capacity.value
    if policy is None:
        return requested
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _rounded_up_by_policy(requested, policy.valid_range, policy.valid_range.min, fractional)
    return next((value for value in policy.valid_values if requested.nanos <= value.nanos), requested)


def _rounded_up_by_policy(
    requested: quantity.Quantity, limits: devices.CapacityRange, least: quantity.Quantity, fractional: bool
) -> quantity.Quantity:
    """The requested amount, at least `least` and on a step of the range. Raises: CapacityError: it passes 64 bits."""
    if requested.nanos < least.nanos:
        return least
    step = limits.step
    if step is None:
        return requested
    if _is_computed_in_milli(limits, fractional):
        if requested.nanos % _MILLI or abs(requested.nanos) > _INT64_MAX * _MILLI:
            raise CapacityError(f"{_NOT_REPRESENTABLE}: request {requested} is not a representable milli value")
        milli = _round_up_to_step(requested.milli_value(), least.milli_value(), step.milli_value())
        if milli > _INT64_MAX:
            raise CapacityError(
                f"{_NOT_REPRESENTABLE}: rounding request {requested} up to the next step passes the milli-value range"
            )
        return quantity.Quantity(milli * _MILLI, step.format)
    if requested.nanos > _INT64_MAX * _NANOS:
        raise CapacityError(f"{_NOT_REPRESENTABLE}: request {requested} exceeds MaxInt64")
    whole = _round_up_to_step(requested.value(), least.value(), step.value())
    if least.value() >= 0 and whole > _INT64_MAX:
        raise CapacityError(f"{_NOT_REPRESENTABLE}: rounding request {requested} up to the next step passes MaxInt64")
    return quantity.Quantity(whole * _NANOS, step.format)


def _round_up_to_step(requested: int, least: int, step: int) -> int:
    """Round up to `least` plus a multiple of `step`. Raises: CapacityError if the step is 0, as in Go."""
    if step == 0:
        raise CapacityError("integer divide by zero")
    return least - (least - requested) // step * step


def _violates_policy(taken: quantity.Quantity, policy: devices.CapacityPolicy | None, fractional: bool) -> bool:
    """Whether the capacity's policy forbids an amount: above its range, off its steps, or none of its values."""
    if policy is None or (policy.default is not None and taken == policy.default):
        return False
    if policy.valid_range is not None:
        return _is_above_range_or_off_step(taken, policy.valid_range, fractional)
    return bool(policy.valid_values) and all(value.nanos != taken.nanos for value in policy.valid_values)


def _is_above_range_or_off_step(taken: quantity.Quantity, limits: devices.CapacityRange, fractional: bool) -> bool:
    """Whether the amount is above the range's maximum, or on none of its steps.

    As in Kubernetes the minimum is not checked: a smaller request was raised to it (`_rounded_up_by_policy`).
    """
    if limits.max is not None and taken.nanos > limits.max.nanos:
        return True
    if limits.step is None or limits.min is None:
        return False
    if _is_computed_in_milli(limits, fractional):
        if taken.nanos % _MILLI or abs(taken.nanos) > _INT64_MAX * _MILLI:
            return True
        return (taken.milli_value() - limits.min.milli_value()) % limits.step.milli_value() != 0
    step = limits.step.value()
    return step != 0 and (taken.value() - limits.min.value()) % step != 0


def _is_computed_in_milli(limits: devices.CapacityRange, fractional: bool) -> bool:
    """Whether the range is computed in thousandths: all of it can be."""
    if not fractional:
        return False
    for bound in (limits.min, limits.max, limits.step):
        if bound is not None and (bound.nanos % _MILLI or abs(bound.nanos) > _INT64_MAX * _MILLI):
            return False
    return limits.step is None or limits.step.nanos >= _MILLI
