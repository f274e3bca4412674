"""Makes the filter and score plugins that answer what is recorded, in place of the services.

Also change: internal/trireme/remote/remote_plugins.py (in-tree answers, recorded ones and remote ones).

Tests: tests/unit/remote/test_recorded_makers.py, tests/contract/test_recorded_dry_runs.py.
"""

import contextlib
from collections.abc import Iterator

from trireme.plugin_api import interfaces, scorers
from trireme.remote import recorded_filter, recorded_plugins
from trireme.v1 import snapshot_pb2


class RecordedMakers:
    """Makes plugins that look for their answers in `answer` (of Filter) and `answers` (of other points)."""

    def __init__(self) -> None:
        self.answer = recorded_filter.RecordedAnswer()
        self.answers = recorded_plugins.RemoteAnswers()

    @contextlib.contextmanager
    def filtering(self) -> Iterator[None]:
        """Within it, an evaluation is Filter's own; else it is about what builds on Filter's answer."""
        before, self.answer.filtering = self.answer.filtering, True
        try:
            yield
        finally:
            self.answer.filtering = before

    def make_filter(self, plugin: snapshot_pb2.RemotePlugin, profile: str) -> interfaces.AsyncFilter:
        """The plugin at Filter, with PreFilter."""
        return recorded_filter.RecordedFilterPlugin(plugin.name, _depends_on(plugin), self.answer, self.answers)

    def make_score(self, plugin: snapshot_pb2.RemotePlugin, profile: str) -> scorers.AsyncScore:
        """The plugin at Score, with PreScore and NormalizeScore."""
        normalization = scorers.Normalization(plugin.info.normalization or scorers.Normalization.NONE)
        return recorded_plugins.RecordedScorePlugin(
            plugin.name, _depends_on(plugin), normalization, self.answers, scores_copies=plugin.info.score_copies
        )

    def make_reserver(self, plugin: snapshot_pb2.RemotePlugin) -> recorded_plugins.RecordedReservePlugin:
        """The plugin at Reserve."""
        return recorded_plugins.RecordedReservePlugin(plugin.name, self.answers)

    def make_post_filter(self, plugin: snapshot_pb2.RemotePlugin) -> recorded_plugins.RecordedPostFilterPlugin:
        """The plugin at PostFilter."""
        return recorded_plugins.RecordedPostFilterPlugin(plugin.name, self.answers)


def _depends_on(plugin: snapshot_pb2.RemotePlugin) -> interfaces.Dependency:
    return interfaces.Dependency(plugin.info.depends_on or interfaces.Dependency.CLUSTER)
