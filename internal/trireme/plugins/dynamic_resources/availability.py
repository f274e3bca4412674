"""Where the devices of claims that are allocated can be used, and which claims a pod must not use at all.

Tests: tests/conformance/test_decisions.py.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from trireme.framework import selectors, status
from trireme.plugins.dynamic_resources import device_demand, features, node_allocatable, node_operations, pod_claims
from trireme.snapshot import arrays, classes, node_selection, snapshot_view
from trireme.v1 import resource_pb2

_NOT_SHARED: Final = "has a mapped device and cannot be shared across pods"
_SKIPS_OPERATIONS: Final = f"allocation requires {node_operations.FEATURE} feature on the node"


def unavailable_slots(
    allocation: resource_pb2.AllocationResult, snap: snapshot_view.SnapshotView, slots: arrays.SlotArray, *, skips: bool
) -> arrays.BoolArray:
    """Mark the slots from which the allocation's devices cannot be used. Shape: (slot,).

    `skips`: also those whose node does not support devices that skip steps on the node.
    """
    out = np.zeros(slots.shape[0], dtype=np.bool_)
    if allocation.HasField("node_selector"):
        terms = selectors.parse_terms(allocation.node_selector.node_selector_terms)
        out = ~node_selection.matches_any(snap.nodes, terms, slots)
    if skips and node_operations.skips_operations(allocation):
        out = out | ~node_operations.declares_skipping(snap.nodes, slots)
    return out


def claim_refusals(
    pod_class: classes.PodClass,
    demand: device_demand.DeviceDemand,
    snap: snapshot_view.SnapshotView,
    slots: arrays.SlotArray,
    on: features.Features,
) -> Iterator[tuple[arrays.BoolArray, status.Status]]:
    """Yield a mask of slots and a refusal for each allocated claim that the pod must not use there.

    The last that is true of a slot counts: claims come in reverse, so that the first one's refusal is given. Shapes:
    (slot,).
    """
    for claim in reversed(demand.claims):
        # Devices that a pod before it in its group is to get.
        if claim.metadata.uid in demand.shared and node_operations.skips_operations(claim.status.allocation):
            name = claim.metadata.name
            text = f"resource claim {claim.metadata.namespace}/{name} {_SKIPS_OPERATIONS}"
            yield ~node_operations.declares_skipping(snap.nodes, slots), device_demand.unusable_claim(text, name)
    if not on.node_allocatable:
        return
    uid = pod_class.pod.metadata.uid
    group = pod_class.pod_group_name if on.group_claims else ""
    for claim in reversed(demand.claims):
        if not claim.status.HasField("allocation") or not node_allocatable.is_mapped(claim, demand.inventory):
            continue
        shared = claim.metadata.uid in demand.shared
        if shared or (claim.status.reserved_for and not pod_claims.is_reserved_for(claim, uid, group)):
            there = ~unavailable_slots(claim.status.allocation, snap, slots, skips=not shared)
            text = f"node allocatable resource claim {claim.metadata.name} {_NOT_SHARED}"
            yield there, device_demand.unusable_claim(text, claim.metadata.name)
