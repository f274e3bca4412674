"""DynamicResources' Filter: a pod goes where devices can be found for its claims, and where those that it has are.

A pod with claims is a class of its own, because its claims are. Pods that ask for extended resources are one class,
but go one at a time where devices are to be found for them: the next must see what the one before has taken.

Tests: tests/unit/plugins/dynamic_resources/test_preparing.py, tests/conformance/test_device_sequences.py,
tests/conformance/test_decisions.py.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from trireme.framework import amounts, status
from trireme.plugin_api import interfaces
from trireme.plugin_kit import plugin_context
from trireme.plugins.dynamic_resources import (
    allocator,
    availability,
    binding_conditions,
    device_demand,
    device_search,
    node_allocatable,
    reserve,
)
from trireme.plugins.dynamic_resources import args as device_args
from trireme.plugins.dynamic_resources.spec import SPEC
from trireme.snapshot import arrays, classes, snapshot, snapshot_view
from trireme.v1 import cycle_pb2, resource_pb2
from trireme_kube.componentbase import clocks

NOT_AVAILABLE = device_demand.unresolvable(
    "resourceclaim not available on the node", status.Reason("claimNotAvailable")
)

_OF_EXTENDED = (device_search.STALE_CLAIM, device_search.CANNOT_FIT)


class DynamicResourcesFilter:
    """The filter of DynamicResources: refuses nodes whose devices cannot satisfy the pod's claims."""

    name = SPEC.name
    reads: tuple[str, ...] = device_search.READS

    def __init__(
        self,
        args: device_args.Args,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = clocks.wall,
    ) -> None:
        self._search = device_search.DeviceSearch(args, clock)
        self._reserve = reserve.DeviceReserve(self._search)
        self.depends_on = self._search.depends_on
        self._rules = amounts.Rules(pod_level=args.on.pod_level_resources, claims=True)
        self._wall = wall

    @property
    def groups_have_claims(self) -> bool:
        """Whether a PodGroup may have claims."""
        return self._search.on.group_claims

    async def prepare(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, slots: arrays.SlotArray, remembering: bool = True
    ) -> None:
        """Search for devices on these slots, and let others work meanwhile."""
        await self._search.prepare(pod_class, snap, slots, remembering)

    def pre_filter(
        self, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, table: interfaces.StatusTable
    ) -> interfaces.PreFilterResult:
        """Skip pods without claims; refuse those whose claims are missing, in the making, or of no class."""
        try:
            state = device_demand.demand_of(pod_class, snap, self._search.on)
        except device_demand.RefusedError as refused:
            return interfaces.PreFilterResult(status=refused.status)
        if state is None:
            return interfaces.SKIPPED
        return interfaces.PreFilterResult(
            state=state, max_batch=1, reserves=True, takes=None if self._search.on.node_allocatable else state.takes()
        )

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        state: Any,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """Refuse slots from which a claim's devices cannot be used, and where none can be found.

        Of several reasons one is given, in this order: extended resources, a claim that is unfit for the pod, no
        devices or no room for what they stand for, devices out of reach. They are found in another order, so the later
        blocks overwrite or pass over what is there.
        """
        index = np.full(slots.shape[0], interfaces.PASSES, dtype=np.int16)
        outcomes = self._search.outcomes(pod_class, state, snap, slots)
        for number, refusal in enumerate(outcomes.refusals, start=1):
            refused = outcomes.refused == number
            if refused.any():
                index[refused] = table.intern(refusal)
        if self._search.on.node_allocatable:
            for at in np.flatnonzero(outcomes.refused == 0).tolist():
                outcome = outcomes.outcome_at(at)
                solutions = [] if outcome is None else outcome.solutions or []
                lack = self._node_resources_refusal(pod_class, state, snap, int(slots[at]), solutions)
                if lack is not None:
                    index[at] = table.intern(lack)
        unavailable: arrays.BoolArray = np.logical_or.reduce(
            self._unavailable_claim_mask(state, snap, slots, {}), axis=0
        )
        unavailable &= index == interfaces.PASSES
        if unavailable.any():
            index[unavailable] = table.intern(NOT_AVAILABLE)
        # A claim that is unfit for the pod comes before devices for the others, but after extended resources.
        unfit = [number for refusal in _OF_EXTENDED for number in [table.find(refusal)] if number]
        searched = ~np.isin(index, unfit)
        for lacking, refusal in availability.claim_refusals(pod_class, state, snap, slots, self._search.on):
            index[lacking & searched] = table.intern(refusal)
        return interfaces.Verdicts(index)

    def _node_resources_refusal(
        self,
        pod_class: classes.PodClass,
        demand: device_demand.DeviceDemand,
        snap: snapshot_view.SnapshotView,
        slot: int,
        solutions: Sequence[allocator.ClaimSolution],
    ) -> status.Status | None:
        """Return why the node has too few resources for what the claims' devices take of them; None: it has enough."""
        try:
            stated = self._search.claim_statuses(pod_class, demand, snap, slot, solutions)
        except node_allocatable.NodeAllocatableError as error:
            return self._search.error_outcome(str(error)).refusal
        if stated is None:
            return None
        return node_allocatable.resource_refusal(pod_class.pod, stated, snap, slot, self._rules)

    def unavailable_claims(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        slots: arrays.SlotArray,
        pending_allocations: Mapping[str, resource_pb2.AllocationResult] | None = None,
    ) -> list[resource_pb2.ResourceClaim]:
        """Return the allocated claims of the class that cannot be used on at least one of these slots.

        `pending_allocations` (by UID) are those that pods before it in its group were to get.
        """
        demand = self._search.demand_or_none(pod_class, snap)
        if demand is None:
            return []
        lacking: arrays.BoolArray = np.logical_or.reduce(
            self._unavailable_claim_mask(demand, snap, slots, pending_allocations or {}), axis=1
        )
        return [claim for claim, lacks in zip(demand.claims, lacking.tolist(), strict=True) if lacks]

    def stale_claim(
        self, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, uid: str
    ) -> resource_pb2.ResourceClaim | None:
        """The claim that was made for the pod's extended resources in an attempt before this one.

        None where devices stand for none of them any more: the claim goes when its pod does.
        """
        demand = self._search.demand_or_none(pod_class, snap)
        return demand.inventory.claim_made_for(uid) if demand is not None and demand.extended_resources else None

    def reserve(
        self, pod_class: classes.PodClass, pod: cycle_pb2.PodIdentity, snap: snapshot.Snapshot, slot: int
    ) -> interfaces.ReserveResult:
        """Return the pod's claims, with the devices found on the node, to be assumed; see `DeviceReserve.reserve`."""
        return self._reserve.reserve(pod_class, pod, snap, slot)

    def _unavailable_claim_mask(
        self,
        demand: device_demand.DeviceDemand,
        snap: snapshot_view.SnapshotView,
        slots: arrays.SlotArray,
        pending_allocations: Mapping[str, resource_pb2.AllocationResult],
    ) -> arrays.BoolArray:
        """Return which allocated claims cannot be used where. Shape: (claim, given slot).

        A claim that failed to be prepared counts as unusable everywhere; one without devices yet as usable.
        """
        out = np.zeros((len(demand.claims), slots.shape[0]), dtype=np.bool_)
        for at, claim in enumerate(demand.claims):
            allocated = claim.status.HasField("allocation")
            allocation = claim.status.allocation if allocated else pending_allocations.get(claim.metadata.uid)
            if allocation is None:
                continue
            if allocated and self._search.on.binding_conditions and self._is_allocation_lost(claim):
                out[at] = True
                continue
            skips = allocated and claim.metadata.uid not in demand.shared
            out[at] = availability.unavailable_slots(allocation, snap, slots, skips=skips)
        return out

    def _is_allocation_lost(self, claim: resource_pb2.ResourceClaim) -> bool:
        """Whether waiting for the claim's devices is in vain: preparing one failed, or took too long."""
        try:
            ready = binding_conditions.are_devices_ready(claim)
        except binding_conditions.BindingFailedError:
            return True
        return not ready and binding_conditions.timed_out(claim, self._search.args.binding_timeout, self._wall())


def make(context: plugin_context.PluginContext) -> DynamicResourcesFilter:
    """Make the filter, by its arguments and the feature gates."""
    return DynamicResourcesFilter(device_args.read(context.args, context.features))
