"""NodeResourcesFit's PlacementScore: prefers nodes that are used up, whatever strategy it scores nodes by.

Source: pkg/scheduler/framework/plugins/noderesources (scorePlacement).

Tests: tests/unit/evaluation/test_pod_group_placements.py.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from trireme.framework import amounts, status
from trireme.framework.plugin_spec import MAX_SCORE
from trireme.plugin_kit import plugin_context
from trireme.snapshot import resources, snapshot
from trireme.v1 import score_phase_pb2

_DEFAULT_RESOURCES = (("cpu", 1), ("memory", 1))


class NodeResourcesFitPlacementScore:
    """NodeResourcesFit at PlacementScore: prefers placements whose nodes will be used most."""

    def __init__(self, weights: Sequence[tuple[str, int]]) -> None:
        """`weights` of the resources that count, by name."""
        self._weights = weights

    def score_placements(
        self, request: score_phase_pb2.ScorePodGroupPlacementsRequest, snap: snapshot.Snapshot
    ) -> Sequence[int] | status.Status:
        """Score each placement by how much of its nodes is in use once the group's pods are there, in percent."""
        return [self._most_allocated(candidate, snap) for candidate in request.placements]

    def _most_allocated(self, candidate: score_phase_pb2.CandidatePlacement, snap: snapshot.Snapshot) -> int:
        """Return what of the placement's nodes is in use with the pods there, in percent; 0 where they have nothing.

        The mean over the resources by weight; scalars that no pod asks for do not count.
        """
        table = snap.nodes
        slots = np.array(candidate.slots, dtype=np.intp)
        pods = Counter(number for number in candidate.pod_classes if number in snap.classes)
        score = weights = 0
        for name, weight in self._weights:
            number = table.resource_names.intern(name)
            table.ensure_resource_rows()
            counted = number in (resources.CPU, resources.MEMORY)
            requested = 0
            for pod_class, count in pods.items():
                have = snap.classes[pod_class].amounts
                requested += count * (have.scoring_nonzero[number] if counted else have.scoring.get(name, 0))
            if not requested and amounts.is_scalar(name):
                continue
            allocatable = int(table.allocatable[number, slots].sum())
            if not allocatable:
                continue
            used = int((table.nonzero if counted else table.requested)[number, slots].sum())
            score += weight * (min(used + requested, allocatable) * MAX_SCORE // allocatable)
            weights += weight
        return score // weights if weights else 0


def make(context: plugin_context.PluginContext) -> NodeResourcesFitPlacementScore:
    """Make the plugin, by the resources of its scoring strategy."""
    strategy = context.args.get("scoringStrategy") or {}
    found = [(entry["name"], entry.get("weight") or 1) for entry in strategy.get("resources") or ()]
    return NodeResourcesFitPlacementScore(found or _DEFAULT_RESOURCES)
