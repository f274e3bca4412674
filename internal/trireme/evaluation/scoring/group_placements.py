"""How good each of several placements of a group of pods is, by the plugins at PlacementScore.

Tests: tests/unit/evaluation/test_pod_group_placements.py.
"""

from collections.abc import Mapping

import numpy as np

from trireme.evaluation.scoring import placement
from trireme.framework import status
from trireme.plugin_api.placements import PlacementScorePlugin
from trireme.snapshot import snapshot
from trireme.v1 import score_phase_pb2


def placement_totals(
    request: score_phase_pb2.ScorePodGroupPlacementsRequest,
    snap: snapshot.Snapshot,
    plugins: Mapping[str, PlacementScorePlugin],
) -> list[int] | status.Status:
    """Return the weighted total of each placement, or the status of the plugin that failed.

    `plugins` are those in this process, by name; others in the request do not count.
    """
    out = np.zeros(len(request.placements), dtype=np.int64)
    for entry in request.plugins:
        plugin = plugins.get(entry.plugin)
        if plugin is None:
            continue
        scores = plugin.score_placements(request, snap)
        if isinstance(scores, status.Status):
            return scores
        out += placement.apply_weight(np.array(scores, dtype=np.int64).reshape(out.shape), entry.weight)
    totals: list[int] = out.tolist()
    return totals
