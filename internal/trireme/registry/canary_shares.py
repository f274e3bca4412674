"""Plugins with a canary: one version answers for some classes, the canary for the others.

Tests: tests/contract/test_plugin_canary.py.
"""

from collections.abc import Collection, Sequence
from typing import Any

from trireme.framework import canaries, status
from trireme.plugin_api import interfaces, scorers
from trireme.snapshot import arrays, classes, snapshot, snapshot_view


def limit_filter(plugin: interfaces.AsyncFilter, configured: Collection[str]) -> interfaces.AsyncFilter:
    """Limit the plugin to its share of the classes if it is a canary, or has one among the configured plugins."""
    return _LimitedFilter(plugin) if _is_shared(plugin.name, configured) else plugin


def limit_score(plugin: scorers.AsyncScore, configured: Collection[str]) -> scorers.AsyncScore:
    """As `limit_filter`, for Score."""
    return _LimitedScore(plugin) if _is_shared(plugin.name, configured) else plugin


def _is_shared(name: str, configured: Collection[str]) -> bool:
    """Whether both the plugin and its canary are among those configured; a canary alone answers for its share still."""
    return canaries.is_canary(name) or canaries.canary_name(name) in configured


class _LimitedFilter:
    """A filter plugin that skips the classes of the other version."""

    def __init__(self, plugin: interfaces.AsyncFilter) -> None:
        self.name = plugin.name
        self.depends_on = plugin.depends_on
        self._plugin = plugin

    async def pre_filter(self, pod_class: classes.PodClass, snap: snapshot.Snapshot) -> interfaces.PreFilterResult:
        """Skip the other version's classes: then nothing else is called about them."""
        if not canaries.answers_for(self.name, pod_class.pod.metadata.annotations):
            return interfaces.SKIPPED
        return await self._plugin.pre_filter(pod_class, snap)

    async def prepare(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: Any,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> status.Status | None:
        """As the plugin."""
        return await self._plugin.prepare(pod_class, snap, state, slots, table)

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        state: Any,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """As the plugin."""
        return self._plugin.filter(pod_class, snap, state, slots, table)

    async def dry_runs(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: Any,
        runs: Sequence[interfaces.DryRun],
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """As the plugin."""
        return await self._plugin.dry_runs(pod_class, snap, state, runs, table)


class _LimitedScore:
    """A score plugin that is silent about the classes of the other version."""

    def __init__(self, plugin: scorers.AsyncScore) -> None:
        self.name = plugin.name
        self.depends_on = plugin.depends_on
        self.normalization = plugin.normalization
        self.scores_copies = isinstance(plugin, scorers.AsyncCopyScore) and plugin.scores_copies
        self._plugin = plugin

    async def prepare(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray
    ) -> scorers.PreparedScores:
        """Be silent about the other version's classes: then nothing else is called about them."""
        if not canaries.answers_for(self.name, pod_class.pod.metadata.annotations):
            return scorers.PreparedScores(state, silent=True)
        return await self._plugin.prepare(pod_class, snap, state, slots)

    def score(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray
    ) -> arrays.Int64Array:
        """As the plugin."""
        return self._plugin.score(pod_class, snap, state, slots)

    async def prepare_copies(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray, copies: int
    ) -> arrays.Int64Array | None:
        """As the plugin; nothing where it does not score copies."""
        if not isinstance(self._plugin, scorers.AsyncCopyScore):
            return None
        return await self._plugin.prepare_copies(pod_class, snap, state, slots, copies)

    async def normalize(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: Any,
        slots: arrays.SlotArray,
        raw: arrays.Int64Array,
    ) -> arrays.Int64Array | status.Status:
        """As the plugin."""
        return await self._plugin.normalize(pod_class, snap, state, slots, raw)
