"""NodeResourcesFit's Score: how full a node gets, by one of three strategies.

Also change: examples/score-phase-go/scoring.go, internal/trireme/plugins/node_resources_balanced_allocation/score.py,
internal/trireme/plugins/taint_toleration/score.py (the same scores).
"""

from collections.abc import Sequence

import numpy as np

from trireme.plugin_kit import device_resources, plugin_context, resource_scorer, resource_usage
from trireme.plugins.node_resources_fit import args as fit_args
from trireme.plugins.node_resources_fit.spec import SPEC
from trireme.snapshot import arrays, classes, node_usage, snapshot


def interpolated(shape: Sequence[tuple[int, int]]) -> arrays.Int64Array:
    """Scores by utilization 0 to 100, linear between the points and flat outside, as Go's integers divide."""
    out = np.empty(101, dtype=np.int64)
    points = [(utilization, score * 10) for utilization, score in shape]
    for p in range(101):
        right = next((i for i, (utilization, _) in enumerate(points) if p <= utilization), None)
        if right is None:
            out[p] = points[-1][1]
        elif right == 0:
            out[p] = points[0][1]
        else:
            (u0, s0), (u1, s1) = points[right - 1], points[right]
            out[p] = s0 + int((s1 - s0) * (p - u0) / (u1 - u0))
    return out


class StrategyScores:
    """Scores of nodes by the plugin's strategy: least or most allocated, or a shape of the ratio.

    A resource that the node lacks does not count. By a shape, neither does one that scores 0, and the mean is rounded.
    """

    def __init__(self, args: fit_args.Args, devices: device_resources.DeviceCounts | None = None) -> None:
        """`devices`: scores count devices where a node has none of an extended resource."""
        self._args = args
        self._devices = devices
        self._shape = interpolated(args.shape) if args.strategy == fit_args.REQUESTED_TO_CAPACITY_RATIO else None

    def resources_of(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot
    ) -> Sequence[resource_usage.ScoredResource]:
        """Return the resources that are scored, by the arguments."""
        return resource_usage.scored_resources(pod_class, snap, self._args.resources)

    def score_columns(self, usage: node_usage.NodeUsage, added: resource_usage.AddedPods) -> arrays.Int64Array:
        """Return how empty, how full, or how fitting by the shape, the nodes are; 0 to 100. Shape: (node, column)."""
        total = np.zeros((usage.count, added.columns), dtype=np.int64, order="F")
        # One number as long as all nodes have the resources.
        weights: arrays.Int64Array | int = 0
        for entry in added.amounts:
            use = resource_usage.use_of(usage, entry, self._devices)
            score = self._score_by_strategy(use)
            counts = use.capacity.is_there
            if self._shape is not None:
                counts = score > 0 if counts is None else counts & (score > 0)
            if counts is not None:
                score = np.where(counts, score, 0)
            total += score if entry.weight == 1 else score * entry.weight
            weights = weights + (entry.weight if counts is None else np.where(counts, entry.weight, 0))
        divisor = np.maximum(weights, 1)
        if self._shape is not None:
            return np.floor(total / divisor + 0.5).astype(np.int64)
        return total // divisor

    def _score_by_strategy(self, use: resource_usage.ResourceUse) -> arrays.Int64Array:
        """Return the score of one resource, 0 to 100. Shape: (node, column)."""
        if self._args.strategy == fit_args.LEAST_ALLOCATED:
            return use.percentages_free()
        utilization = use.percentages_used()
        return utilization if self._shape is None else self._shape[utilization]


def make_scorer(
    args: fit_args.Args, devices: device_resources.DeviceCounts | None = None
) -> resource_scorer.ResourceScorer:
    """Make the scorer; `devices` count where a node has none of an extended resource."""
    return resource_scorer.ResourceScorer(
        SPEC.name,
        StrategyScores(args, devices),
        nonzero=True,
        counts_devices=devices is not None,
        reads=("device_class",),
    )


def make(context: plugin_context.PluginContext) -> resource_scorer.ResourceScorer:
    """Make the scorer, by its arguments and the feature gates."""
    args = fit_args.read(context.args, context.features)
    return make_scorer(args, resource_usage.device_counts(args.resources, context))
