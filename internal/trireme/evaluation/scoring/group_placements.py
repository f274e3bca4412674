"""How good each of several placements of a group of pods is, by the plugins at PlacementScore."""

from collections.abc import Mapping

from trireme.framework import status
from trireme.plugin_api.placements import PlacementScorePlugin
from trireme.snapshot import snapshot
from trireme.v1 import score_phase_pb2


def placement_totals(
    request: score_phase_pb2.ScorePodGroupPlacementsRequest,
    snap: snapshot.Snapshot,
    plugins: Mapping[str, PlacementScorePlugin],
) -> list[int] | status.Status:
    """The weighted total of each placement, or what failed. `plugins` are those in this process, by name."""
    out = [0] * len(request.placements)
    for entry in request.plugins:
        plugin = plugins.get(entry.plugin)
        if plugin is None:
            continue
        scores = plugin.score_placements(request, snap)
        if isinstance(scores, status.Status):
            return scores
        out = [total + entry.weight * score for total, score in zip(out, scores, strict=True)]
    return out
