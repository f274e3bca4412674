"""Engine: filter and score on one snapshot, in one process.

A snapshot that deltas bring up to date shows filter and score the same cluster, so there is nothing to wait for between
them.

Tests: tests/unit/evaluation/test_engine.py, tests/unit/simulation/test_questions.py.
"""

import weakref

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
        # Times are for the frontend's metrics, which it has from services.
        self.filter = filter_engine.FilterEngine(snap, filters, timed=False)
        self.score = score_engine.ScoreEngine(snap, scores, timed=False)

    def drop(self, profile: str, class_id: int) -> None:
        """Drop what was computed for a class, which is computed again when it is needed."""
        self.filter.evaluator.drop(profile, class_id)
        self.score.evaluator.drop(profile, class_id)

    def drop_all(self) -> None:
        """Drop what was computed for all classes, which is computed again when it is needed."""
        self.filter.evaluator.drop_all()
        self.score.evaluator.drop_all()


class LastEvaluating:
    """The one engine on forks of a cluster that evaluates: it alone keeps what it has computed.

    Forks share what has not changed of the cluster, but each would have columns of its own for each class, which take
    as much as a fork without them does three times. One that evaluates again after another one computes them again.
    """

    def __init__(self) -> None:
        self._engine: weakref.ref[Engine] | None = None

    def hold(self, engine: Engine) -> None:
        """The engine evaluates now; the one before drops what it has computed, but for what a running call uses."""
        before = None if self._engine is None else self._engine()
        self._engine = weakref.ref(engine)
        if before is not None and before is not engine:
            before.drop_all()
