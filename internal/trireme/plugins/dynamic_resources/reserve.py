"""DynamicResources' Reserve: writes down the devices that were found for the claims on the one node that was picked.

Tests: tests/conformance/test_decisions.py.
"""

import uuid
from collections.abc import Sequence

import numpy as np

from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.plugins.dynamic_resources import (
    allocation_results,
    allocator,
    claims_to_reserve,
    device_demand,
    device_search,
    extended_resources,
    node_allocatable,
    reserve_state,
)
from trireme.plugins.dynamic_resources.spec import SPEC
from trireme.snapshot import classes, snapshot, snapshot_view
from trireme.v1 import cycle_pb2, resource_pb2, snapshot_pb2
from trireme_kube.apimachinery import encode


class DeviceReserve:
    """DynamicResources at Reserve: searches again on the chosen node, and has the claims assumed with their devices."""

    def __init__(self, search: device_search.DeviceSearch) -> None:
        self._search = search

    def reserve(
        self, pod_class: classes.PodClass, pod: cycle_pb2.PodIdentity, snap: snapshot.Snapshot, slot: int
    ) -> interfaces.ReserveResult:
        """Find devices for the pod on the node, and return its claims with them to be assumed.

        An empty result: the pod has no claims. A status if the search fails now, though Filter passed the node.
        """
        try:
            demand = device_demand.demand_of(pod_class, snap, self._search.on)
        except device_demand.RefusedError as refused:
            return interfaces.ReserveResult(refused.status)
        if demand is None:
            return interfaces.ReserveResult()
        outcome = self._search.outcomes(pod_class, demand, snap, np.array([slot]), remembering=False).outcome_at(0)
        if outcome is not None and outcome.refusal is not None:
            return interfaces.ReserveResult(_reserve_error("claim allocation not found for node"))
        solutions = [] if outcome is None else outcome.solutions or []
        try:
            return self._claims_to_assume(pod_class, pod, demand, snap, slot, solutions)
        except node_allocatable.NodeAllocatableError as error:
            return interfaces.ReserveResult(_reserve_error(str(error)))

    def _claims_to_assume(
        self,
        pod_class: classes.PodClass,
        pod: cycle_pb2.PodIdentity,
        demand: device_demand.DeviceDemand,
        snap: snapshot_view.SnapshotView,
        slot: int,
        solutions: Sequence[allocator.ClaimSolution],
    ) -> interfaces.ReserveResult:
        """Return the claims to assume and PreBind's work: the pod's claims, then one for extended resources."""
        assumed = []
        entries = []
        # A pod may name a claim twice: the first of what was found for it counts.
        found = {_namespace_and_name(solution.claim): solution for solution in reversed(solutions)}
        groups = self._search.on.group_claims
        for stated in {_namespace_and_name(each.claim): each for each in demand.pod_claims}.values():
            claim = stated.claim
            solution = found.pop(_namespace_and_name(claim), None)
            if solution is None and claim.metadata.uid not in demand.shared:
                # It has its devices already: nothing is assumed, and PreBind adds the pod to its users.
                entries.append(
                    claims_to_reserve.reservation_of_existing_claim(pod_class.pod, pod, stated, None, of_groups=groups)
                )
                continue
            allocated = (
                claim if solution is None else self._claim_with_allocation(solution, claim.metadata.uid, snap, slot)
            )
            assumed.append(snapshot_pb2.ClusterObject(resource_claim=allocated, assumed=True))
            given = allocated.status.allocation
            entries.append(
                claims_to_reserve.reservation_of_existing_claim(pod_class.pod, pod, stated, given, of_groups=groups)
            )
        # What is left was found for extended resources: a claim that is yet to be made.
        for solution in found.values():
            if not solution.claim.spec.devices.requests:
                # Device plugins give all of it on this node.
                continue
            allocated = self._claim_with_allocation(solution, pod.uid, snap, slot)
            allocated.metadata.name = reserve_state.IN_MEMORY + pod.uid
            assumed.append(snapshot_pb2.ClusterObject(resource_claim=allocated, assumed=True))
            lacking = self._search.resources_lacking_on(demand, snap, slot)
            _, mappings = extended_resources.device_requests(pod_class.pod, lacking, demand.inventory.class_of_resource)
            entries.append(
                claims_to_reserve.reservation_of_new_claim(
                    allocated, mappings, demand.inventory.claim_made_for(pod.uid)
                )
            )
        if not entries:
            return interfaces.ReserveResult()
        counted = (
            self._search.claim_statuses(pod_class, demand, snap, slot, solutions)
            if self._search.on.node_allocatable
            else None
        )
        left = reserve_state.DeviceClaims(tuple(entries), node_allocatable=tuple(map(encode.encode, counted or ())))
        return interfaces.ReserveResult(None, tuple(assumed), left.to_bytes(), counted or ())

    def _claim_with_allocation(
        self, solution: allocator.ClaimSolution, owner: str, snap: snapshot_view.SnapshotView, slot: int
    ) -> resource_pb2.ResourceClaim:
        """Return the claim as it will be once PreBind has written the solution's devices into it."""
        # The same question has the same answer, so shares are named after it.
        names = (str(uuid.uuid5(uuid.NAMESPACE_OID, f"{owner} {snap.generation} {number}")) for number in range(1000))
        out = resource_pb2.ResourceClaim()
        out.CopyFrom(solution.claim)
        out.status.allocation.CopyFrom(
            allocation_results.allocation_result(solution, snap.nodes.names[slot], self._search.on, lambda: next(names))
        )
        return out


def _namespace_and_name(claim: resource_pb2.ResourceClaim) -> tuple[str, str]:
    return claim.metadata.namespace, claim.metadata.name


def _reserve_error(text: str) -> status.Status:
    """Make the error status of Reserve, in kube-scheduler's words."""
    return status.error(SPEC.name, f'running Reserve plugin "{SPEC.name}": {text}')
