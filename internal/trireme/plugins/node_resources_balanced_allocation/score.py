"""NodeResourcesBalancedAllocation: prefer nodes whose resources the pod makes more evenly used.

Also change: examples/score-phase-go/scoring.go, internal/trireme/plugins/node_resources_fit/score.py,
internal/trireme/plugins/taint_toleration/score.py (the same scores).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from trireme.plugin_api import interfaces, scorers
from trireme.plugin_kit import args_schema, device_resources, plugin_context, resource_usage
from trireme.plugins.node_resources_balanced_allocation import args as balanced_args
from trireme.plugins.node_resources_balanced_allocation.spec import SPEC
from trireme.snapshot import arrays, classes, node_usage, snapshot


class NodeResourcesBalancedAllocation:
    """The score of NodeResourcesBalancedAllocation: prefers nodes whose resources are used evenly with the pod."""

    name = SPEC.name
    normalization = scorers.Normalization.NONE
    reads: tuple[str, ...] = ()

    def __init__(self, args: balanced_args.Args, devices: device_resources.DeviceCounts | None = None) -> None:
        """`devices`: scores count devices where a node has none of an extended resource."""
        self._args = args
        self._devices = devices
        cluster = devices is not None
        self.depends_on = interfaces.Dependency.CLUSTER if cluster else interfaces.Dependency.NODE_PODS

    def pre_score(self, pod_class: classes.PodClass, snap: snapshot.Snapshot) -> Any:
        """Return the resources that count; None, so that all nodes score 0, for a pod that asks for none of them."""
        scored = resource_usage.scored_resources(pod_class, snap, self._args.resources)
        return scored if any(entry.own for entry in scored) else None

    def score(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray
    ) -> arrays.Int64Array:
        """75 where the pod changes nothing, up to 100 where it evens the node out, down to 50 where it does not."""
        return self.score_copies(pod_class, snap, state, slots, 1)[:, 0]

    def score_copies(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray, copies: int
    ) -> arrays.Int64Array:
        """As score, for one copy, two, … on the node. Shape: (slot, copy)."""
        return self.score_usage(pod_class, node_usage.NodeUsage(snap, slots), state, copies)

    def score_usage(
        self, pod_class: classes.PodClass, usage: node_usage.NodeUsage, state: Any, copies: int
    ) -> arrays.Int64Array:
        """As score_copies, of nodes with this usage."""
        scored: Sequence[resource_usage.ScoredResource] = state
        known = self._scores_without_pod(usage, scored) if copies == 1 else None
        after: list[arrays.Float64Array] = []
        before: list[arrays.Float64Array] = []
        counted: list[arrays.BoolArray | None] = []
        for entry in scored:
            capacity, used = resource_usage.capacity_and_usage(
                usage, entry, copies, nonzero=False, devices=self._devices
            )
            after.append(_fraction(used, capacity))
            if known is None:
                before.append(_fraction(used - entry.own, capacity))
            counted.append(capacity.is_there)
        gain = _balance_score(after, counted)
        gain -= _balance_score(before, counted) if known is None else known
        gain += 50
        gain >>= 1
        gain += 50
        return gain

    def _scores_without_pod(
        self, usage: node_usage.NodeUsage, scored: Sequence[resource_usage.ScoredResource]
    ) -> arrays.Int64Array | None:
        """The balance of each node as it is, which is the same for all classes; None: few nodes are to be scored.

        Shape: (node, 1).
        """
        snap = usage.snap
        if self._devices is not None or usage.count * 2 < snap.nodes.size:
            return None
        numbers = tuple(entry.number for entry in scored)
        key = ("balance_without_pod", numbers)
        known = usage.memo.get(key)
        if known is None:
            without = snap.derived(key, lambda _: _BalanceWithoutPod(numbers)).scores
            known = usage.memo[key] = _BalanceWithAddedPods(without.copy())
        known.follow(usage, numbers)
        return arrays.entries_at(known.scores, usage.slots)[:, None]


class _BalanceWithAddedPods:
    """The balance of each node's resources with pods that the snapshot does not have. Shape: scores (slot,)."""

    __slots__ = ("_seen", "scores")

    def __init__(self, scores: arrays.Int64Array) -> None:
        """`scores` are those without the pods."""
        self.scores, self._seen = scores, 0

    def follow(self, usage: node_usage.NodeUsage, numbers: Sequence[int]) -> None:
        """Follow the pods that came since."""
        if len(usage.added) > self._seen:
            slots = np.unique(np.array(usage.added[self._seen :], dtype=np.intp))
            self.scores[slots] = _balance_of(usage.at(slots), numbers)
            self._seen = len(usage.added)


class _BalanceWithoutPod:
    """The balance of each node's resources as they are used now. Shape: scores (slot,)."""

    __slots__ = ("_generation", "_numbers", "scores")

    def __init__(self, numbers: tuple[int, ...]) -> None:
        self._numbers = numbers
        self._generation = -1
        self.scores = arrays.EMPTY_INT64

    @property
    def nbytes(self) -> int:
        """Memory of the scores, in bytes."""
        return self.scores.nbytes

    def refresh(self, snap: snapshot.Snapshot) -> None:
        """Follow the snapshot's nodes and their pods."""
        table = snap.nodes
        if self._generation == snap.generation:
            return
        slots = table.live_slots() if self._generation < 0 else table.changed_since(self._generation, pods=True)
        if self.scores.shape[0] < table.size:
            self.scores = arrays.grow_last_axis(self.scores, table.capacity)
        where = arrays.slot_index(slots)
        self.scores[where] = _balance_of(node_usage.NodeUsage(snap, slots), self._numbers)
        self._generation = snap.generation


def _balance_of(usage: node_usage.NodeUsage, numbers: Sequence[int]) -> arrays.Int64Array:
    """The balance of these resources as nodes use them. Shape: (node,)."""
    capacities = [usage.capacity(number) for number in numbers]
    fractions = [
        _fraction(arrays.saturated(usage.requested(number))[:, None], capacity)
        for number, capacity in zip(numbers, capacities, strict=True)
    ]
    return _balance_score(fractions, [capacity.is_there for capacity in capacities])[:, 0]


def _fraction(used: arrays.Int64Array, capacity: node_usage.Capacity) -> arrays.Float64Array:
    """The part that is in use, at most 1. Shape: as `used`."""
    fraction: arrays.Float64Array = used / capacity.floats
    return np.minimum(fraction, 1.0, out=fraction)


def _balance_score(
    fractions: Sequence[arrays.Float64Array], counted: Sequence[arrays.BoolArray | None]
) -> arrays.Int64Array:
    """Return 100 where all fractions are equal, less the further they are apart; only `counted` resources count.

    With fewer than two it is 100. `counted` None: the resource counts everywhere. Shapes: fractions (slot, copy) and
    counted (slot, 1) of each resource, result (slot, copy).
    """
    if len(fractions) == 2:
        # The usual case, CPU and memory, in a quarter of the time and with the same result.
        score = fractions[0] - fractions[1]
        np.abs(score, out=score)
        score *= 0.5
        for some in counted:
            if some is not None:
                score = np.where(some, score, 0.0)
        np.subtract(1, score, out=score)
        score *= 100
        return score.astype(np.int64)
    everywhere = np.ones((fractions[0].shape[0], 1), dtype=np.bool_)
    return _balance_score_of_many(np.array(fractions), np.array([everywhere if c is None else c for c in counted]))


def _balance_score_of_many(fractions: arrays.Float64Array, counted: arrays.BoolArray) -> arrays.Int64Array:
    """As `_balance_score`, of any number of resources. Shapes: (resource, slot, copy) and (resource, slot, 1)."""
    counted = np.broadcast_to(counted, fractions.shape)
    number = counted.sum(axis=0)
    divisor = np.maximum(number, 1)
    chosen = np.where(counted, fractions, 0.0)
    mean = chosen.sum(axis=0) / divisor
    spread = np.where(counted, (fractions - mean) ** 2, 0.0).sum(axis=0)
    deviation = np.sqrt(spread / divisor)
    high = np.where(counted, fractions, -np.inf).max(axis=0)
    low = np.where(counted, fractions, np.inf).min(axis=0)
    deviation = np.where(number == 2, np.abs(np.where(number == 2, high - low, 0.0)) / 2, deviation)
    deviation = np.where(number < 2, 0.0, deviation)
    return ((1 - deviation) * 100).astype(np.int64)


def make(context: plugin_context.PluginContext) -> NodeResourcesBalancedAllocation:
    """Make the plugin, by its arguments and the feature gates."""
    resources = args_schema.scored_resources(context.args)
    return NodeResourcesBalancedAllocation(
        balanced_args.Args(resources), resource_usage.device_counts(resources, context)
    )
