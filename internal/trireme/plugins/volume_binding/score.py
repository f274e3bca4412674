"""VolumeBinding's Score: prefers nodes whose storage is used least, or most, as the shape says.

Tests: tests/conformance/test_decisions.py, tests/unit/plugin_kit/test_volumes_matching.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from trireme.framework import resizes, status
from trireme.plugin_api import interfaces, scorers
from trireme.plugin_kit import plugin_context, volumes_claims, volumes_matching, volumes_objects
from trireme.plugins.volume_binding import args as binding_args
from trireme.plugins.volume_binding import objects_read
from trireme.plugins.volume_binding.spec import SPEC
from trireme.snapshot import arrays, classes, snapshot
from trireme.v1 import core_pb2

_FULL = 100


class VolumeBindingScore:
    """The score of VolumeBinding: by how much of the storage would be used, along the configured shape."""

    name = SPEC.name
    depends_on = interfaces.Dependency.NODE
    normalization = scorers.Normalization.NONE
    ignores_requests: Literal[True] = True
    reads: tuple[str, ...] = objects_read.READS

    def __init__(self, args: binding_args.Args) -> None:
        self._shape = args.shape
        self._resizing = args.resizing

    def pre_score(self, pod_class: classes.PodClass, snap: snapshot.Snapshot) -> Any:
        """Return the claims as state; a pod without any gets 0 on every node."""
        if self._shape is None:
            return None
        if self._resizing and pod_class.resize_deferred:
            # Its PreFilter skipped the pod and left nothing; a pod that fits on one node alone is never scored.
            return status.error(self.name, f'running PreScore plugin "{self.name}": not found')
        if not volumes_claims.claims_of(pod_class):
            return volumes_matching.PodClaims()
        try:
            return volumes_matching.pod_claims(pod_class, snap)
        except volumes_matching.ClaimError as error:
            return status.error(self.name, f'running PreScore plugin "{self.name}": {error}')

    def score(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray
    ) -> arrays.Int64Array:
        """Score slots by the mean over storage classes of the shape's score of their utilization.

        0 without a shape, and for pods whose claims are all bound.
        """
        claims: volumes_matching.PodClaims = state
        if not claims.delayed or self._shape is None:
            return np.zeros(slots.shape[0], dtype=np.int64)
        matches = volumes_matching.match_volumes(claims, snap)
        existing = np.zeros(slots.shape[0], dtype=np.bool_)
        for entry in matches.static:
            existing |= entry.chosen[slots] != volumes_matching.NONE
        total = np.zeros(slots.shape[0], dtype=np.int64)
        count = np.zeros(slots.shape[0], dtype=np.int64)
        for usage in (
            *_usage_of_existing_volumes(matches, slots),
            *_usage_of_volumes_to_provision(matches, slots, existing),
        ):
            total += np.where(usage.counted, _interpolate_shape(self._shape, usage.utilization()), 0)
            count += usage.counted
        mean = (2 * total + count) // np.maximum(2 * count, 1)
        return np.where(count > 0, mean, 0)


@dataclass(slots=True)
class _StorageClassUsage:
    """Bytes that claims of one storage class request, and bytes that are available to them. Shapes: (given slot,)."""

    requested: arrays.Int64Array
    capacity: arrays.Int64Array
    counted: arrays.BoolArray  # the class plays a part on the slot

    def utilization(self) -> arrays.Int64Array:
        """Return what would be used, in percent; 100 where the request does not fit."""
        full = (self.capacity == 0) | (self.requested > self.capacity)
        percent = self.requested * _FULL // np.maximum(self.capacity, 1)
        return np.where(full, _FULL, percent)


def _usage_of_existing_volumes(
    matches: volumes_matching.VolumeMatches, slots: arrays.SlotArray
) -> Sequence[_StorageClassUsage]:
    """Return the usage where the pod takes existing volumes: what its claims request of the volumes' sizes."""
    out: dict[str, _StorageClassUsage] = {}
    for entry in matches.static:
        chosen = entry.chosen[slots]
        taken = chosen != volumes_matching.NONE
        if not taken.any():
            continue
        usage = _usage_of_class(out, volumes_objects.storage_class_of_claim(entry.claim), slots)
        sizes = np.array([volume.capacity_value for volume in entry.volumes], dtype=np.int64)
        usage.requested[taken] += _requested_bytes(entry.claim)
        usage.capacity[taken] += sizes[chosen[taken]]
        usage.counted |= taken
    return list(out.values())


def _usage_of_volumes_to_provision(
    matches: volumes_matching.VolumeMatches, slots: arrays.SlotArray, existing: arrays.BoolArray
) -> Sequence[_StorageClassUsage]:
    """Return the usage where all of the pod's volumes are to be made: what claims ask for, of the driver's capacity.

    Where a class has several claims, the capacity is that of the last one. Slots with an existing volume do not count.
    """
    out: dict[str, _StorageClassUsage] = {}
    for entry in matches.dynamic:
        reported = entry.reported[slots]
        counted = ~existing & entry.needed[slots] & (reported != volumes_matching.NONE)
        if not counted.any():
            continue
        usage = _usage_of_class(out, volumes_objects.storage_class_of_claim(entry.claim), slots)
        capacities = np.array([capacity.capacity for capacity in entry.capacities], dtype=np.int64)
        usage.requested[counted] += _requested_bytes(entry.claim)
        usage.capacity[counted] = capacities[reported[counted]]
        usage.counted |= counted
    return list(out.values())


def _usage_of_class(
    known: dict[str, _StorageClassUsage], storage_class: str, slots: arrays.SlotArray
) -> _StorageClassUsage:
    """Return the usage of a storage class; one that is all zero is added to `known` at the first call."""
    if storage_class not in known:
        count = slots.shape[0]
        nothing = np.zeros(count, dtype=np.int64)
        known[storage_class] = _StorageClassUsage(nothing, nothing.copy(), np.zeros(count, dtype=np.bool_))
    return known[storage_class]


def _requested_bytes(claim: core_pb2.PersistentVolumeClaim) -> int:
    """Return the storage that the claim requests, in bytes; 0 if it states none."""
    size = volumes_objects.storage_size(claim.spec.resources.requests)
    return 0 if size is None else size.value()


def _interpolate_shape(shape: Sequence[tuple[int, int]], at: arrays.Int64Array) -> arrays.Int64Array:
    """The broken line through the points, in integers that round towards zero. Shape: as `at`."""
    out = np.full(at.shape[0], shape[-1][1], dtype=np.int64)
    for (left, low), (right, high) in zip(reversed(shape[:-1]), reversed(shape[1:]), strict=True):
        rise = (high - low) * (at - left)
        step = np.sign(rise) * (np.abs(rise) // (right - left))
        out = np.where(at <= right, low + step, out)
    return np.where(at <= shape[0][0], shape[0][1], out)


def make(context: plugin_context.PluginContext) -> VolumeBindingScore:
    """Make the scorer, by its arguments and the feature gates."""
    scoring = context.features.get("StorageCapacityScoring", True)
    return VolumeBindingScore(binding_args.args_of(context.args, scoring, context.features.get(resizes.GATE, False)))
