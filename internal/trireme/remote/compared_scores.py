"""Score plugins in mode Shadow: whether another node would be the best if their scores counted.

Also change: internal/trireme/remote/compared_filters.py (filter and score are alike here).

Tests: tests/unit/remote/test_compared_plugins.py, tests/unit/remote/test_plugin_failures.py,
tests/contract/test_plugin_shadow.py.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import numpy as np

from trireme.evaluation.scoring import placement
from trireme.framework import status
from trireme.plugin_api import scorers
from trireme.remote import comparison_queue, remote_score
from trireme.snapshot import arrays, classes, snapshot

#: Slots that take pods of a class, and the totals of the profile's plugins there. Shapes: (node,), (node,).
Totals = tuple[arrays.SlotArray, arrays.Int64Array]
FindTotals = Callable[[str, int], Awaitable[Totals | None]]


class ComparedScores:
    """The score plugins in mode Shadow of one configuration, by profile, with their weights."""

    def __init__(
        self,
        snap: snapshot.Snapshot,
        plugins: Mapping[str, Sequence[tuple[remote_score.RemoteScorePlugin, int]]],
        find_totals: FindTotals,
    ) -> None:
        """`find_totals` returns the totals of a class (profile, number); None: there is no choice."""
        self._snap = snap
        self._plugins = plugins
        self._find_totals = find_totals
        self.queue = comparison_queue.ComparisonQueue(self.compare, self._count_skipped)

    def observe(self, profile: str, class_id: int) -> None:
        """Pods of the class were placed: have it compared in the background, if there is a plugin to compare."""
        if self._plugins.get(profile):
            self.queue.request(profile, class_id)

    async def compare(self, profile: str, class_id: int) -> None:
        """Ask each plugin for its scores, and count whether one of the best nodes stays one with them."""
        pod_class = self._snap.classes.get(class_id)
        totals = None if pod_class is None else await self._find_totals(profile, class_id)
        if pod_class is None or totals is None:
            return
        slots, before = totals
        for plugin, weight in self._plugins[profile]:
            scores = await self._scores(plugin, pod_class, slots)
            counts = plugin.comparisons
            counts.compared += 1
            if scores is None:
                counts.failed += 1
                continue
            after = before + weight * scores
            best = before == before.max()
            counts.differed += not (after[best] == after.max()).any()

    async def _scores(
        self, plugin: remote_score.RemoteScorePlugin, pod_class: classes.PodClass, slots: arrays.SlotArray
    ) -> arrays.Int64Array | None:
        """The plugin's normalised scores of the slots, 0 where it has nothing to say; None: it failed."""
        prepared = await plugin.prepare(pod_class, self._snap, None, slots)
        if prepared.failure is not None:
            return None
        if prepared.silent:
            return np.zeros(slots.shape[0], dtype=np.int64)
        raw = plugin.score(pod_class, self._snap, prepared.state, slots)
        if plugin.normalization is not scorers.Normalization.CUSTOM:
            return placement.normalize_scores(raw, plugin.normalization)
        scores = await plugin.normalize(pod_class, self._snap, prepared.state, slots, raw)
        return None if isinstance(scores, status.Status) else scores

    def _count_skipped(self, profile: str) -> None:
        for plugin, _ in self._plugins[profile]:
            plugin.comparisons.skipped += 1
