"""PodGroupPodsCount's PlacementScore: prefers the placement that takes more pods of the group.

Source: pkg/scheduler/framework/plugins/podgrouppodscount.

Tests: tests/unit/evaluation/test_pod_group_placements.py.
"""

from collections.abc import Sequence

from trireme.framework import status
from trireme.framework.plugin_spec import MAX_SCORE
from trireme.plugin_kit import plugin_context
from trireme.plugins.pod_group_pods_count.spec import SPEC
from trireme.snapshot import snapshot
from trireme.v1 import score_phase_pb2


class PodGroupPodsCount:
    """PodGroupPodsCount at PlacementScore: prefers placements that hold more pods of the group."""

    def score_placements(
        self, request: score_phase_pb2.ScorePodGroupPlacementsRequest, snap: snapshot.Snapshot
    ) -> Sequence[int] | status.Status:
        """Score each placement by its share of the group's pods, relative to the best one.

        Pods that have a node already count in each. A status: no placement has any pod.
        """
        counts = [request.scheduled + len(candidate.pod_classes) for candidate in request.placements]
        if not max(counts):
            text = "no pods from pod group are assigned to any of the candidate placements"
            prefix = f'running NormalizePlacementScore on PlacementScore plugins: plugin "{SPEC.name}" failed with'
            return status.error(SPEC.name, f"{prefix}: {text}")
        return [count * MAX_SCORE // max(counts) for count in counts]


def make(context: plugin_context.PluginContext) -> PodGroupPodsCount:
    """Make the plugin."""
    return PodGroupPodsCount()
