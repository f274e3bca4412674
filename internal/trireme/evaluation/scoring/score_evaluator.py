"""Raw scores of classes, brought to the snapshot's generation by scoring again only what changed.

Weights are applied by `placers` and cached in `class_scores` (`refresh_ranking`). A reload makes a new engine, with
empty caches (`score/service.py`).

Also change: internal/trireme/evaluation/filtering/filter_evaluator.py (caching of answers is alike).

Tests: tests/unit/evaluation/test_scoring.py, tests/contract/test_plugin_canary.py,
tests/unit/evaluation/test_batches_with_remote_scores.py.
"""

import weakref
from collections.abc import Container, Mapping
from dataclasses import dataclass

import numpy as np

from trireme.evaluation import column_cache, plugin_timer
from trireme.evaluation.scoring import class_scores, score_chain, score_column
from trireme.framework import status
from trireme.plugin_api import interfaces, scorers
from trireme.snapshot import arrays, classes, slot_changes, snapshot

# Calls of one service for one evaluation: the first, and those about nodes that changed under the one before.
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class ScoreEvaluatorStatistics:
    """Counters of the evaluator."""

    classes: int  # whose columns are cached
    column_bytes: int
    slots_evaluated: int  # slots that in-tree plugins scored


class ScoreEvaluator:
    """Brings the score columns of classes up to date on one snapshot, calling plugins where something changed."""

    def __init__(self, snap: snapshot.Snapshot, chains: Mapping[str, score_chain.ScoreChain]) -> None:
        self._snap = snap
        self._chains = chains
        self._cache = column_cache.ColumnCache(snap, class_scores.ClassScores)
        self._slots_evaluated = 0
        # Of plugins that read node terms only, by profile, plugin, incarnation of the snapshot, and node terms.
        self._shared: weakref.WeakValueDictionary[tuple[str, str, int, bytes], score_column.ScoreColumn] = (
            weakref.WeakValueDictionary()
        )

    def statistics(self) -> ScoreEvaluatorStatistics:
        """Counters of evaluations and cached scores so far."""
        return ScoreEvaluatorStatistics(len(self._cache), self._cache.nbytes, self._slots_evaluated)

    def columns_of(self, profile: str, pod_class: classes.PodClass) -> class_scores.ClassScores:
        """The class's cached scores, empty if there are none yet."""
        return self._cache.columns_of(profile, pod_class)

    def _begin(self, profile: str, pod_class: classes.PodClass, cached: class_scores.ClassScores) -> None:
        """Begin the scores of a class that is evaluated for the first time with what its family knows."""
        chain, sibling = self._chains[profile], self._cache.sibling_of(profile, pod_class)
        if sibling is not None:
            cached.begin_with(sibling[1], chain.ignoring_requests, chain.by_node_terms)
        self._cache.join_family(profile, pod_class)

    def drop(self, profile: str, class_id: int) -> None:
        """Drop a class's cached scores: its plugins changed for a reason that the snapshot does not show."""
        self._cache.drop(profile, class_id)

    def drop_all(self) -> None:
        """Drop the cached scores of all classes."""
        self._cache.clear()

    async def evaluate(
        self,
        profile: str,
        pod_class: classes.PodClass,
        timer: plugin_timer.PluginTimer | None = None,
        *,
        outdated: Container[str] = (),
    ) -> class_scores.ClassScores | status.Status:
        """The class's raw scores, no older than the snapshot was when this was called; a status where one failed.

        `timer` gets the durations. Scores of the synchronous plugins named `outdated` may be older.

        Raises: OutOfStepError where the snapshot was replaced while plugins prepared their scores.
        """
        cached = self.columns_of(profile, pod_class)
        if not cached.plugins:
            self._begin(profile, pod_class, cached)
        timer = timer or plugin_timer.NO_TIMER
        incarnation = self._snap.incarnation
        if self._chains[profile].asynchronous:
            failed = await self._prepare_asynchronous_plugins(profile, pod_class, cached, timer)
            if failed is not None:
                return failed
            self._snap.check_incarnation(incarnation)
        for plugin in self._chains[profile].preparing:
            column = cached.plugins.get(plugin.name)
            if column is None or column.is_stale(plugin, self._snap):
                await plugin.prepare(pod_class, self._snap, self._snap.nodes.live_slots())
            elif not column.silent:
                slots = column.due_slots(plugin.depends_on, self._snap)
                await plugin.prepare(pod_class, self._snap, slots)
            self._snap.check_incarnation(incarnation)
        failed = self._refresh_synchronous_plugins(profile, pod_class, cached, timer, outdated)
        return cached if failed is None else failed

    def knows(self, profile: str, pod_class: classes.PodClass) -> bool:
        """Whether the class's scores were asked for lately."""
        return (profile, pod_class.id) in self._cache

    def sibling_of(
        self, profile: str, pod_class: classes.PodClass
    ) -> tuple[classes.PodClass, class_scores.ClassScores] | None:
        """A class that differs from this one in requests alone, and the scores that it had when it was evaluated."""
        return self._cache.sibling_of(profile, pod_class)

    def scores_alike(self, profile: str, pod_class: classes.PodClass, scores: class_scores.ClassScores) -> bool:
        """Whether all plugins but those by usage score the class as they score another one of its family."""
        return all(
            _scores_nothing_as(scores.plugins[each.name], each.pre_score(pod_class, self._snap))
            for each in self._chains[profile].reading_requests
        )

    async def find_copies(
        self,
        profile: str,
        pod_class: classes.PodClass,
        cached: class_scores.ClassScores,
        slots: arrays.SlotArray,
        copies: int,
    ) -> None:
        """Have the plugins that are called for that find the scores of these slots with up to so many copies there.

        `cached` is what `evaluate` returned last, which gets them. What the plugins cannot say stays unknown.
        Raises: OutOfStepError where the snapshot was replaced meanwhile.
        """
        incarnation = self._snap.incarnation
        # What changes from here on is scored again before the next placement, and dropped then.
        async with cached.preparing:
            self._snap.check_incarnation(incarnation)
            for plugin in self._chains[profile].copying.values():
                column = cached.plugins[plugin.name]
                if column.silent:
                    continue
                lacking = np.array([s for s in slots.tolist() if column.copies.known_copies(s) < copies], dtype=np.intp)
                if lacking.size:
                    scores = await plugin.prepare_copies(pod_class, self._snap, column.state, lacking, copies)
                    self._snap.check_incarnation(incarnation)
                    if scores is not None:
                        column.copies.write(lacking, scores)

    def knows_copies(self, profile: str, cached: class_scores.ClassScores, slot: int, copies: int) -> bool:
        """Whether all plugins that are called for that have said what the slot's score is with so many copies there."""
        columns = [cached.plugins[name] for name in self._chains[profile].copying]
        return all(column.silent or column.copies.known_copies(slot) >= copies for column in columns)

    def _refresh_synchronous_plugins(
        self,
        profile: str,
        pod_class: classes.PodClass,
        cached: class_scores.ClassScores,
        timer: plugin_timer.PluginTimer,
        outdated: Container[str],
    ) -> status.Status | None:
        """Bring the columns of synchronous plugins to the snapshot's generation; a status: PreScore of one failed.

        Those of the plugins `outdated` are made if they are missing, and else left as they are. Joint plugins get only
        PreScore here, as their scores depend on which nodes passed.
        """
        chain = self._chains[profile]
        for name in chain.asynchronous:
            cached.plugins[name].ensure_capacity(self._snap.nodes.capacity)
        for plugin in chain.synchronous:
            column = cached.plugins.get(plugin.name)
            if column is not None and (column.generation == self._snap.generation or plugin.name in outdated):
                continue
            started = timer.now()
            column = cached.plugins[plugin.name] = self._prescored_column(profile, plugin, pod_class, column, timer)
            if isinstance(column.state, status.Status):
                timer.record_point("PreScore", started, column.state.code)
                return column.state
            timer.record_point("PreScore", started)
            started = timer.now()
            scorer = chain.plain.get(plugin.name)
            if column.state is scorers.ALL_ZERO:
                column.uniform = 0
                column.ensure_capacity(self._snap.nodes.capacity)
            elif scorer is not None and not column.silent:
                # Also where no node is due: those that came may be gone by now, and count as slots.
                column.ensure_capacity(self._snap.nodes.capacity)
                slots = self._score_due_slots(pod_class, scorer, column)
                if slots.size:
                    cached.mark_unranked(slots)
                    timer.record_plugin(plugin.name, "Score", started)
            column.generation = self._snap.generation
            timer.record_point("Score", started)
        return None

    def _prescored_column(
        self,
        profile: str,
        plugin: scorers.ScorePlugin | scorers.JointScorePlugin,
        pod_class: classes.PodClass,
        column: score_column.ScoreColumn | None,
        timer: plugin_timer.PluginTimer,
    ) -> score_column.ScoreColumn:
        """The plugin's column about the class: the present one, one that classes share, or a new one after PreScore."""
        key = None
        if plugin.name in self._chains[profile].by_node_terms:
            key = profile, plugin.name, self._snap.incarnation, pod_class.node_terms
            column = self._shared.get(key) if column is None else column
        if column is None or column.is_stale(plugin, self._snap):
            started = timer.now()
            state = plugin.pre_score(pod_class, self._snap)
            column = score_column.ScoreColumn(state, self._snap.generation, silent=state is None)
            if key is not None:
                self._shared[key] = column
            timer.record_plugin(plugin.name, "PreScore", started, _pre_score_code_for_metrics(state))
        return column

    def _score_due_slots(
        self,
        pod_class: classes.PodClass,
        plugin: scorers.ScorePlugin,
        column: score_column.ScoreColumn,
    ) -> arrays.SlotArray:
        """Bring the plugin's column to the snapshot's generation; returns the slots that were scored, ascending."""
        slots = column.due_slots(plugin.depends_on, self._snap)
        if not slots.size:
            return slots
        raw = plugin.score(pod_class, self._snap, column.state, slots)
        column.write_scores(slots, raw, self._snap.nodes.capacity)
        self._slots_evaluated += slots.size
        return slots

    async def _prepare_asynchronous_plugins(
        self,
        profile: str,
        pod_class: classes.PodClass,
        cached: class_scores.ClassScores,
        timer: plugin_timer.PluginTimer,
    ) -> status.Status | None:
        """Let asynchronous plugins score changed nodes, also those that change meanwhile; a status where one failed.

        A node that has changed again after the last round counts with the score that it had, or with 0.
        """
        incarnation = self._snap.incarnation
        plugins = self._chains[profile].asynchronous.values()
        # Concurrent evaluations of one class share the calls: the second finds the scores of the first.
        async with cached.preparing:
            called: dict[str, int] = {}
            for _ in range(ROUNDS):
                for plugin in plugins:
                    self._snap.check_incarnation(incarnation)
                    generation, started = self._snap.generation, timer.now()
                    slots = self._slots_due_for_async_plugin(plugin, cached, called.get(plugin.name))
                    failed = await self._prepare_by_plugin(plugin, pod_class, cached, slots)
                    called[plugin.name] = generation
                    code = status.Code.SUCCESS if failed is None else failed.code
                    timer.record_plugin(plugin.name, "Score", started, code)
                    timer.record_point("Score", started, code)
                    if failed is not None:
                        return failed
                if not any(
                    self._slots_due_for_async_plugin(plugin, cached, called[plugin.name]).size for plugin in plugins
                ):
                    break
        return None

    def _slots_due_for_async_plugin(
        self, plugin: scorers.AsyncScore, cached: class_scores.ClassScores, called: int | None
    ) -> arrays.SlotArray:
        """The slots to prepare; `called`: the plugin's last preparation for this evaluation was at that generation."""
        live = self._snap.nodes.alive[: self._snap.nodes.size]
        column = cached.plugins.get(plugin.name)
        if column is None:
            return self._snap.nodes.live_slots()
        if called is None:
            return column.due_slots(plugin.depends_on, self._snap)
        if column.silent:
            return slot_changes.NO_SLOTS
        changed = self._snap.nodes.changed_since(called, plugin.depends_on != interfaces.Dependency.NODE)
        return changed[live[changed]]

    async def _prepare_by_plugin(
        self,
        plugin: scorers.AsyncScore,
        pod_class: classes.PodClass,
        cached: class_scores.ClassScores,
        slots: arrays.SlotArray,
    ) -> status.Status | None:
        """Let one asynchronous plugin score the slots, and write that to its column; a status where it failed.

        A plugin that has nothing to say about the class is `silent` from now on. Raises: OutOfStepError where the
        snapshot was replaced meanwhile.
        """
        generation, incarnation = self._snap.generation, self._snap.incarnation
        column = cached.plugins.get(plugin.name)
        if column is None:
            column = cached.plugins[plugin.name] = score_column.ScoreColumn(None, generation)
        if slots.size:
            prepared = await plugin.prepare(pod_class, self._snap, column.state, slots)
            self._snap.check_incarnation(incarnation)
            column.state = prepared.state
            if prepared.failure is not None:
                return prepared.failure
            column.silent = prepared.silent
            if column.silent:
                return None
            raw = plugin.score(pod_class, self._snap, column.state, slots)
            column.write_scores(slots, raw, self._snap.nodes.capacity)
            cached.mark_unranked(slots)
        column.generation = generation
        return None


def _scores_nothing_as(column: score_column.ScoreColumn, state: object) -> bool:
    """Whether a plugin whose PreScore answers this gives all nodes the same as in the column: nothing, or 0."""
    return state is column.state and (state is None or state is scorers.ALL_ZERO)


def _pre_score_code_for_metrics(state: object) -> status.Code:
    """How a PreScore ended, as metrics label it."""
    if isinstance(state, status.Status):
        return state.code
    return status.Code.SKIP if state is None else status.Code.SUCCESS
