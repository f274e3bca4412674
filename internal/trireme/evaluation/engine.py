"""Engine: filter and score on one snapshot, in one process.

A snapshot that deltas bring up to date shows both sides the same cluster, so there is nothing to wait for between
them.
"""

from trireme.evaluation import filter_engine, score_engine
from trireme.snapshot import snapshot


class Engine:
    """The filter and score engines on one snapshot, for callers that need both (insight, in-process runs)."""

    def __init__(
        self,
        snap: snapshot.Snapshot,
        filters: filter_engine.FilterProfiles,
        scores: score_engine.ScoreProfiles,
    ) -> None:
        self.snap = snap
        self.filter = filter_engine.FilterEngine(snap, filters)
        self.score = score_engine.ScoreEngine(snap, scores)
