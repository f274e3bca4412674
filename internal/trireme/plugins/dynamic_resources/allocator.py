"""The search for devices: one after the other for each request of each claim, the first full solution counts.

It is exhaustive, with the order of pools, slices and devices as its only preference. Devices of one request are tried
in combinations, not in permutations. Each pick marks what it takes, and is taken back where the rest cannot be had.

A search is for all nodes that see the same pools: nothing in it depends on which of them it is.

Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from trireme.plugins.dynamic_resources import (
    capacity,
    compatibility,
    constraints,
    devices,
    expressions,
    features,
    ledger,
    pools,
)
from trireme.plugins.dynamic_resources.requests import ALL, EXACT_COUNT, Wanted, amounts, tolerated
from trireme.v1 import resource_pb2
from trireme_kube.apimachinery import quantity
from trireme_kube.cel import program

# An allocation holds so many devices.
MAX_DEVICES = 32

# Calls for one pick, or one request; and of those who ask for a search.
_CALLS_PER_PICK = 4
_CALLS_AROUND = 500

_BLOCKING = ("NoSchedule", "NoExecute")

Start = tuple[int, int, int]  # pool, slice, device
_BEGINNING: Start = (0, 0, 0)


class AllocationError(Exception):
    """The claims, or what they refer to, are wrong: no node can do."""


class InvalidPoolsError(Exception):
    """Nothing was found, and there is an invalid pool that could have had something."""


class TimedOutError(Exception):
    """The search took too long."""


class _TooManyError(Exception):
    """More devices than an allocation can hold: choose fewer before."""


@dataclass(frozen=True, slots=True)
class Picked:
    """One device for one request. `consumed` None: all of it; else a share."""

    wanted: Wanted
    device: devices.Device
    consumed: Mapping[str, quantity.Quantity] | None

    @property
    def shared(self) -> bool:
        """Whether it is a share."""
        return self.consumed is not None


@dataclass(slots=True)
class Solution:
    """What one claim gets; `chosen` are its requests, with the alternative that was taken for each."""

    claim: resource_pb2.ResourceClaim
    picked: list[Picked] = field(default_factory=list)
    chosen: list[Wanted] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Given:
    """What a search is about beside pools and claims."""

    classes: Mapping[str, resource_pb2.DeviceClass]
    taken: ledger.Ledger
    selectors: expressions.Expressions
    on: features.Features


class Search:
    """One search; used once. `reachable` narrows devices of slices where each says for itself where it is;
    `skips_operations`: the nodes support slices that skip steps on the node.
    """

    def __init__(
        self,
        given: Given,
        seen: Sequence[pools.Pool],
        claims: Sequence[resource_pb2.ResourceClaim],
        reachable: Callable[[devices.Device], bool],
        out_of_time: Callable[[], bool],
        skips_operations: bool = False,
    ) -> None:
        self._given = given
        self._skips_operations = skips_operations
        self._on = given.on
        self._pools = seen
        self._claims = claims
        self._reachable = reachable
        self._out_of_time = out_of_time
        self._wanted: list[list[list[Wanted]]] = []  # by claim, request, alternative
        self._constraints: list[list[constraints.Constraint]] = []
        self._solutions = [Solution(claim) for claim in claims]
        self._alternative: dict[tuple[int, int], int] = {}
        self._taking: dict[devices.DeviceId, set[int]] = {}  # by device the claims it is taken for
        self._sharing: dict[devices.DeviceId, list[Mapping[str, quantity.Quantity]]] = {}
        self._available: dict[devices.PoolId, dict[tuple[str, str], int]] = {}
        self._compatible: dict[devices.PoolId, compatibility.CompatibilityGroups] = {}
        self._selectable: dict[tuple[int, devices.DeviceId], bool] = {}
        self._pool_of = {device.id: pool for pool in seen for entry in pool.offered for device in entry.devices}

    def run(self) -> list[Solution] | None:
        """A solution for each claim, or None where they cannot all be had.

        Raises: AllocationError, also for expressions that fail; InvalidPoolsError, TimedOutError.
        """
        for number, claim in enumerate(self._claims):
            self._prepare(number, claim)
        self._make_room()
        try:
            done = self._claim(0)
        except _TooManyError as error:
            raise AllocationError("allocation max size exceeded") from error
        if not done:
            if any(pool.invalid for pool in self._pools):
                raise InvalidPoolsError("invalid resource pools were encountered")
            return None
        for number, solution in enumerate(self._solutions):
            solution.chosen = [
                alternatives[self._alternative.get((number, at), 0)]
                for at, alternatives in enumerate(self._wanted[number])
            ]
        return self._solutions

    def _make_room(self) -> None:
        """Each pick is some calls deep in the one before: a pod with many claims goes deeper than Python's default."""
        picks = sum(
            max(wanted.count for wanted in alternatives) + 1 for requests in self._wanted for alternatives in requests
        )
        needed = _CALLS_AROUND + _CALLS_PER_PICK * (min(picks, MAX_DEVICES * 2 * len(self._claims)) + len(self._claims))
        if needed > sys.getrecursionlimit():
            sys.setrecursionlimit(needed)

    # Preparation

    def _prepare(self, number: int, claim: resource_pb2.ResourceClaim) -> None:
        least = 0
        self._wanted.append([])
        for request in claim.spec.devices.requests:
            self._refuse_unsupported(claim, request)
            if request.first_available:
                alternatives = [self._read(claim, each, each.name, request.name) for each in request.first_available]
            else:
                alternatives = [self._read(claim, request.exactly, request.name, "")]
            least += min(wanted.count for wanted in alternatives)
            self._wanted[number].append(alternatives)
        if least > MAX_DEVICES:
            raise AllocationError(
                f"claim {_name(claim)}: number of requested devices {least} exceeds the claim limit of {MAX_DEVICES}"
            )
        made = [constraints.make(stated, self._attribute, self._on) for stated in claim.spec.devices.constraints]
        for at, constraint in enumerate(made):
            if constraint is None:
                raise AllocationError(
                    f"claim {_name(claim)}, constraint #{at}: empty constraint (unsupported constraint type?)"
                )
        self._constraints.append([each for each in made if each is not None])

    def _refuse_unsupported(self, claim: resource_pb2.ResourceClaim, request: resource_pb2.DeviceRequest) -> None:
        where = f"claim {_name(claim)}, request {request.name}"
        if request.first_available and not self._on.prioritized_list:
            raise AllocationError(f"{where}: has subrequests, but the DRAPrioritizedList feature is disabled")
        if self._on.consumable or self._on.stable:
            return
        disabled = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
        if request.exactly.HasField("capacity"):
            raise AllocationError(f"{where}: {disabled}")
        for each in request.first_available:
            if each.HasField("capacity"):
                raise AllocationError(f"claim {_name(claim)}, subrequest {each.name}: {disabled}")

    def _read(
        self,
        claim: resource_pb2.ResourceClaim,
        stated: "resource_pb2.ExactDeviceRequest | resource_pb2.DeviceSubRequest",
        name: str,
        parent: str,
    ) -> Wanted:
        where = f"claim {_name(claim)}, request {name}"
        if stated.derived_attributes and not self._on.derived_attributes:
            raise AllocationError(f"{where}: cannot handle request with derived attributes, the feature is disabled")
        for at, selector in enumerate(stated.selectors):
            if not selector.HasField("cel"):
                raise AllocationError(f"{where}, selector #{at}: CEL expression empty (unsupported selector type?)")
        asks = isinstance(stated, resource_pb2.ExactDeviceRequest) and stated.HasField("admin_access")
        if asks and not self._on.admin_access:
            raise AllocationError(f"{where}: admin access is requested, but the feature is disabled")
        if not stated.device_class_name:
            raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
        device_class = self._given.classes.get(stated.device_class_name)
        if device_class is None:
            missing = f'deviceclass.resource.k8s.io "{stated.device_class_name}" not found'
            raise AllocationError(f"{where}: could not retrieve device class {stated.device_class_name}: {missing}")
        try:
            wanted = Wanted(name, parent, stated, device_class, amounts(stated))
        except ValueError as error:
            raise AllocationError(f"{where}: {error}") from error
        wanted.derived = {entry.name: entry.expression for entry in stated.derived_attributes}
        if stated.allocation_mode == EXACT_COUNT:
            wanted.count = stated.count
        elif stated.allocation_mode == ALL:
            self._find_all(claim, wanted, where)
        else:
            raise AllocationError(f"{where}: unsupported count mode {stated.allocation_mode}")
        return wanted

    def _find_all(self, claim: resource_pb2.ResourceClaim, wanted: Wanted, where: str) -> None:
        """All devices that match; who has them does not matter yet."""
        for pool in self._pools:
            state = "being updated" if pool.incomplete else "invalid" if pool.invalid else ""
            if state:
                raise AllocationError(
                    f"{where}: asks for all devices, but resource pool {pool.name} is currently {state}"
                )
            for entry in pool.offered:
                for device in entry.devices:
                    if self._meets(claim, wanted, device) and self._large_enough(where, wanted, device):
                        wanted.matching.append(device)
        wanted.count = len(wanted.matching)

    def _large_enough(self, where: str, wanted: Wanted, device: devices.Device) -> bool:
        if not self._on.consumable:
            return True
        try:
            return capacity.fits({}, {}, wanted.capacity, device.capacity, self._on.fractional)
        except capacity.CapacityError as error:
            raise AllocationError(f"{where}: checking capacity for device {device.id[2]}: {error}") from error

    # The search

    def _claim(self, number: int) -> bool:
        """All from this claim on."""
        if number >= len(self._claims):
            return True
        return self._request(number, 0)

    def _request(self, number: int, at: int) -> bool:
        """All from this request of the claim on. Raises: _TooManyError where no alternative is small enough."""
        if self._out_of_time():
            raise TimedOutError
        if at >= len(self._wanted[number]):
            try:
                return self._claim(number + 1)
            except _TooManyError:
                # A later claim has too many; another choice here may leave it one with fewer.
                return False
        alternatives = self._wanted[number][at]
        if not alternatives[0].parent:
            return self._devices(number, at, alternatives[0], 0, _BEGINNING)
        too_many = True
        for choice, wanted in enumerate(alternatives):
            try:
                found = self._devices(number, at, wanted, 0, _BEGINNING)
            except _TooManyError:
                continue
            too_many = False
            if found:
                self._alternative[number, at] = choice
                return True
        if too_many:
            raise _TooManyError
        return False

    def _devices(self, number: int, at: int, wanted: Wanted, have: int, start: Start) -> bool:
        """The rest of the devices of one request, and then all that follows."""
        if self._out_of_time():
            raise TimedOutError
        if wanted.all and not wanted.matching:
            return False
        if have >= wanted.count:
            return self._request(number, at + 1)
        if len(self._solutions[number].picked) + wanted.count - have > MAX_DEVICES:
            raise _TooManyError
        if wanted.all:
            undo = self._pick(number, wanted, wanted.matching[have], must=True)
            return undo is not None and self._go_on(number, at, wanted, have, _BEGINNING, undo)
        for pool_at in range(start[0], len(self._pools)):
            offered = self._pools[pool_at].offered
            for slice_at in range(start[1] if pool_at == start[0] else 0, len(offered)):
                candidates = offered[slice_at].devices
                first = start[2] if (pool_at, slice_at) == start[:2] else 0
                for device_at in range(first, len(candidates)):
                    device = candidates[device_at]
                    if not self._candidate(number, wanted, device):
                        continue
                    undo = self._pick(number, wanted, device, must=False)
                    if undo is None:
                        continue
                    if self._go_on(number, at, wanted, have, (pool_at, slice_at, device_at + 1), undo):
                        return True
        return False

    def _go_on(self, number: int, at: int, wanted: Wanted, have: int, start: Start, undo: Callable[[], None]) -> bool:
        """The next device; the one before is put back where that fails."""
        try:
            done = self._devices(number, at, wanted, have + 1, start)
        except (_TooManyError, AllocationError, TimedOutError):
            undo()
            raise
        if not done:
            undo()
        return done

    def _candidate(self, number: int, wanted: Wanted, device: devices.Device) -> bool:
        if self._in_use(number, wanted, device):
            return False
        claim = self._claims[number]
        if not self._meets(claim, wanted, device):
            return False
        return not self._on.consumable or self._has_left(claim, wanted, device, "checking")

    def _in_use(self, number: int, wanted: Wanted, device: devices.Device) -> bool:
        taken_for = self._taking.get(device.id)
        if wanted.admin_access:
            return taken_for is not None and number in taken_for
        return device.id in self._given.taken.dedicated or bool(taken_for)

    def _has_left(self, claim: resource_pb2.ResourceClaim, wanted: Wanted, device: devices.Device, doing: str) -> bool:
        used = self._given.taken.consumed(device.id)
        taking: dict[str, int] = {}
        for share in self._sharing.get(device.id, ()):
            for name, amount in share.items():
                taking[name] = taking.get(name, 0) + amount.nanos
        try:
            return capacity.fits(used, taking, wanted.capacity, device.capacity, self._on.fractional)
        except capacity.CapacityError as error:
            where = f"claim {_name(claim)}, request {wanted.name}"
            raise AllocationError(f"{where}: {doing} capacity for device {device.name}: {error}") from error

    # Picking one device

    def _pick(self, number: int, wanted: Wanted, device: devices.Device, must: bool) -> Callable[[], None] | None:
        """Mark the device as taken; answers how to put it back, or None where it cannot be had. `must`: there is no
        other choice, so that a constraint against it is an error.
        """
        claim = self._claims[number]
        shareable = self._on.consumable and device.allow_multiple
        if wanted.admin_access:
            if not shareable and self._in_use(number, wanted, device):
                return None
        elif self._in_use(number, wanted, device):
            return None
        if self._skips_in_vain(device) or (device.consumes and not self._on.partitionable):
            return None
        draws = bool(device.consumes) and not (shareable and self._share_taken(device))
        if draws and not (self._goes_with_others(device) and self._counters_left(device)):
            return None
        if self._on.taints and _kept_away(device, wanted):
            return None
        if not self._constrain(number, wanted, device, must):
            return None
        if self._on.consumable and not self._has_left(claim, wanted, device, "rechecking"):
            self._unconstrain(number, wanted, len(self._constraints[number]))
            return None
        consumed = None
        if shareable:
            try:
                consumed = capacity.consumption(wanted.capacity, device.capacity, self._on.fractional)
            except capacity.CapacityError as error:
                where = f"claim {_name(claim)}, request {wanted.name}"
                raise AllocationError(
                    f"{where}: computing consumed capacity for device {device.name}: {error}"
                ) from error
        return self._mark(number, Picked(wanted, device, consumed), draws)

    def _mark(self, number: int, picked: Picked, draws: bool) -> Callable[[], None]:
        device = picked.device
        groups = None
        if draws:
            self._draw(device, 1)
            groups = self._groups(device).take(device) if self._on.compatibility_groups else None
        if picked.consumed is None:
            self._taking.setdefault(device.id, set()).add(number)
        else:
            self._sharing.setdefault(device.id, []).append(picked.consumed)
        self._solutions[number].picked.append(picked)

        def undo() -> None:
            self._solutions[number].picked.pop()
            if picked.consumed is None:
                self._taking[device.id].discard(number)
            else:
                self._sharing[device.id].pop()
                if not self._sharing[device.id]:
                    del self._sharing[device.id]
            self._unconstrain(number, picked.wanted, len(self._constraints[number]))
            if groups is not None:
                self._groups(device).put_back(groups)
            if draws:
                self._draw(device, -1)

        return undo

    def _skips_in_vain(self, device: devices.Device) -> bool:
        """Whether the device skips steps on the node, which the node does not support."""
        if not device.slice.message.spec.skip_node_operations or not self._on.experimental:
            return False
        return not (self._on.optional_node_operations and self._skips_operations)

    def _constrain(self, number: int, wanted: Wanted, device: devices.Device, must: bool) -> bool:
        for count, constraint in enumerate(self._constraints[number]):
            if self._added(constraint, number, wanted, device, count):
                continue
            self._unconstrain(number, wanted, count)
            if must:
                where = f"claim {_name(self._claims[number])}, request {wanted.name}"
                why = "because a claim constraint would not be satisfied"
                raise AllocationError(f"{where}: cannot add device {device.name} {why}")
            return False
        return True

    def _added(
        self, constraint: constraints.Constraint, number: int, wanted: Wanted, device: devices.Device, before: int
    ) -> bool:
        """Whether the constraint allows the device, after those `before` it. Raises: AllocationError, TimedOutError."""
        try:
            return constraint.add(wanted, device)
        except (AllocationError, TimedOutError):
            self._unconstrain(number, wanted, before)
            raise

    def _unconstrain(self, number: int, wanted: Wanted, count: int) -> None:
        for constraint in reversed(self._constraints[number][:count]):
            constraint.remove(wanted)

    def _attribute(self, wanted: Wanted, device: devices.Device, name: str) -> resource_pb2.DeviceAttribute | None:
        """An attribute of the device: one that the request computes comes before the driver's."""
        expression = wanted.derived.get(name)
        if expression is None:
            return device.attribute(name)
        try:
            return device.derived_attribute(expression, self._given.selectors, self._out_of_time)
        except program.InterruptedEvaluationError as error:
            raise TimedOutError from error
        except expressions.CompileError as error:
            raise AllocationError(f"compile derived attribute {name} failed: {error}") from error
        except expressions.DeviceExpressionError as error:
            text = f"evaluate derived attribute {name} on device {device.name} failed: {error}"
            raise AllocationError(text) from error

    def _share_taken(self, device: devices.Device) -> bool:
        """Whether somebody has a share of the device: then its counters are drawn already."""
        taken = self._given.taken
        return device.id in taken.shared or bool(taken.consumed(device.id)) or device.id in self._sharing

    # Counters

    def _goes_with_others(self, device: devices.Device) -> bool:
        """Whether the device goes with those that draw on the same counters."""
        if not self._on.compatibility_groups:
            return True
        groups = self._groups(device)
        before = groups.take(device)
        if before is None:
            return False
        groups.put_back(before)
        return True

    def _groups(self, device: devices.Device) -> compatibility.CompatibilityGroups:
        pool = self._pool_of[device.id]
        known = self._compatible.get(pool.id)
        if known is None:
            there = (each for entry in (*pool.offered, *pool.elsewhere) for each in entry.devices)
            allocated = (each for each in there if self._given.taken.allocated(each.id))
            known = self._compatible[pool.id] = compatibility.CompatibilityGroups(allocated)
        return known

    def _counters_left(self, device: devices.Device) -> bool:
        left = self._left(self._pool_of[device.id])
        self._draw(device, 1)
        # All of the pool are looked at: one that was overdrawn before keeps every device from being taken.
        enough = all(amount >= 0 for amount in left.values())
        self._draw(device, -1)
        return enough

    def _draw(self, device: devices.Device, sign: int) -> None:
        left = self._left(self._pool_of[device.id])
        for counter_set, counters in device.consumes:
            for name, amount in counters.items():
                left[counter_set, name] -= sign * amount

    def _left(self, pool: pools.Pool) -> dict[tuple[str, str], int]:
        """What is left of the pool's counters, by set and name."""
        left = self._available.get(pool.id)
        if left is None:
            sets = pool.counter_sets or {}
            left = {(name, counter): amount for name, counters in sets.items() for counter, amount in counters.items()}
            for entry in (*pool.offered, *pool.elsewhere):
                for device in entry.devices:
                    if not self._given.taken.allocated(device.id):
                        continue
                    for name, counters in device.consumes:
                        for counter, amount in counters.items():
                            left[name, counter] -= amount
            self._available[pool.id] = left
        return left

    # Selectors

    def _meets(self, claim: resource_pb2.ResourceClaim, wanted: Wanted, device: devices.Device) -> bool:
        """Whether class and request accept the device, and it can be reached."""
        if device.message.binding_conditions and not self._on.binding_conditions:
            return False
        key = (id(wanted), device.id)
        known = self._selectable.get(key)
        if known is None:
            device_class = wanted.device_class
            known = self._selectable[key] = (
                self._selected(f"class {device_class.metadata.name}", device_class.spec.selectors, device)
                and self._selected(f"claim {_name(claim)}", wanted.stated.selectors, device)
                and (not device.slice.per_device or self._is_reached(device))
            )
        return known

    def _is_reached(self, device: devices.Device) -> bool:
        if device.placement.problem:
            raise AllocationError(device.placement.problem)
        return self._reachable(device)

    def _selected(self, where: str, selectors: Sequence[resource_pb2.DeviceSelector], device: devices.Device) -> bool:
        for at, selector in enumerate(selectors):
            try:
                if not device.matches(selector.cel.expression, self._given.selectors, self._out_of_time):
                    return False
            except program.InterruptedEvaluationError as error:
                raise TimedOutError from error
            except expressions.CompileError as error:
                raise AllocationError(f"{where}: selector #{at}: CEL compile error: {error}") from error
            except expressions.DeviceExpressionError as error:
                text = f"{where}: selector #{at} on device {device.name}: CEL runtime error: {error}"
                raise AllocationError(text) from error
        return True


def _kept_away(device: devices.Device, wanted: Wanted) -> bool:
    return any(taint.effect in _BLOCKING and not tolerated(taint, wanted.stated.tolerations) for taint in device.taints)


def _name(claim: resource_pb2.ResourceClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}" if claim.metadata.namespace else claim.metadata.name
