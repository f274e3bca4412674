"""What a plugin is at PlacementScore: it ranks several placements of a group of pods."""

from collections.abc import Sequence
from typing import Protocol

from trireme.framework import status
from trireme.snapshot import snapshot
from trireme.v1 import score_pb2

MAX_SCORE = 100


class PlacementScorePlugin(Protocol):
    """Ranks placements by their nodes and by the pods that would be on them."""

    def score_placements(
        self, request: score_pb2.ScorePlacementsRequest, snap: snapshot.Snapshot
    ) -> Sequence[int] | status.Status:
        """A score from 0 to MAX_SCORE for each placement of the request; a status: the group fails by that error."""
        ...
