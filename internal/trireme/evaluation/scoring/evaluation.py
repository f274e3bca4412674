"""Raw scores of classes, brought to the snapshot's generation by scoring again only what changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from trireme.evaluation import kept_classes, stopwatch
from trireme.evaluation.scoring import columns
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, changes, classes, snapshot

# Calls of one service for one evaluation: the first, and those about nodes that changed under the one before.
ROUNDS = 3


class RemoteScore(Protocol):
    """A score plugin that is a service of its own."""

    name: str
    depends_on: interfaces.Dependency
    normalization: interfaces.Normalization

    async def score(
        self, profile: str, pod_class: classes.PodClass, snap: snapshot.Snapshot, slots: arrays.SlotArray
    ) -> arrays.Int64Array | status.Status | None:
        """Raw scores; a status where the plugin failed and the pod with it; None where it has nothing to say."""
        ...

    async def normalize(
        self,
        profile: str,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        slots: arrays.SlotArray,
        raw: arrays.Int64Array,
    ) -> arrays.Int64Array | status.Status | None:
        """Raw scores of all feasible slots brought into 0 to 100, by a plugin whose normalization is CUSTOM."""
        ...


@dataclass(frozen=True, slots=True)
class Chain:
    """The score plugins of one profile: name and weight in order, those that run here, those that are services.

    `percentage` of the nodes is scored; 0: all.
    """

    weights: Mapping[str, int]
    local: Sequence[interfaces.AnyScorePlugin]
    remote: Sequence[RemoteScore] = ()
    percentage: int = 0

    @property
    def custom_normalization(self) -> bool:
        """A service normalises its scores by itself, over all nodes that take the pod."""
        return any(remote.normalization == interfaces.Normalization.CUSTOM for remote in self.remote)

    @property
    def one_by_one(self) -> bool:
        """A placement may change what is so of any other node, so that pods are placed one at a time."""
        by_cluster = any(remote.depends_on == interfaces.Dependency.CLUSTER for remote in self.remote)
        return bool(self.percentage) or by_cluster or self.custom_normalization


@dataclass(frozen=True, slots=True)
class Roles:
    """The in-tree plugins of a profile by name, and by how a placement changes their scores."""

    plain: Mapping[str, interfaces.ScorePlugin]  # all but the joint ones
    own_node: Mapping[str, interfaces.OwnNodeScore]
    joint: Mapping[str, interfaces.JointScorePlugin]

    @staticmethod
    def of(plugins: Sequence[interfaces.AnyScorePlugin]) -> "Roles":
        """Found out once: to ask an object for its protocol costs more than to ask the plugin."""
        joint = {each.name: each for each in plugins if isinstance(each, interfaces.JointScorePlugin)}
        own_node = {each.name: each for each in plugins if isinstance(each, interfaces.OwnNodeScore)}
        plain = {each.name: each for each in plugins if not isinstance(each, interfaces.JointScorePlugin)}
        return Roles(plain, own_node, joint)


@dataclass(frozen=True, slots=True)
class EvaluatorStatistics:
    """What the evaluator has done."""

    classes: int  # whose columns are kept
    column_bytes: int
    slots_evaluated: int  # slots that in-tree plugins scored


class Evaluator:
    """Scores classes on one snapshot."""

    def __init__(self, snap: snapshot.Snapshot, chains: Mapping[str, Chain]) -> None:
        self._snap = snap
        self._chains = chains
        self._preparing = {
            profile: [plugin for plugin in chain.local if isinstance(plugin, interfaces.PreparingScore)]
            for profile, chain in chains.items()
        }
        self._roles = {profile: Roles.of(chain.local) for profile, chain in chains.items()}
        self._kept = kept_classes.KeptClasses(snap, columns.ClassColumns)
        self._slots_evaluated = 0

    def statistics(self) -> EvaluatorStatistics:
        """What it has done so far."""
        return EvaluatorStatistics(len(self._kept), self._kept.nbytes, self._slots_evaluated)

    def chain(self, profile: str) -> Chain | None:
        """The plugins of a profile, None for an unknown one."""
        return self._chains.get(profile)

    def roles(self, profile: str) -> Roles:
        """What the in-tree plugins of a profile are."""
        return self._roles[profile]

    def columns_of(self, profile: str, pod_class: classes.PodClass) -> columns.ClassColumns:
        """What is kept of the class, made if nothing is."""
        return self._kept.of(profile, pod_class)

    async def evaluate(
        self, profile: str, pod_class: classes.PodClass, watch: stopwatch.Stopwatch | None = None
    ) -> columns.ClassColumns | status.Status:
        """The class's raw scores, no older than the snapshot was when this was called; a status where one failed.
        `watch` gets what took how long.

        Raises: OutOfStepError where the snapshot was replaced while a remote plugin was asked.
        """
        kept = self.columns_of(profile, pod_class)
        watch = watch or stopwatch.Stopwatch()
        incarnation = self._snap.incarnation
        if self._chains[profile].remote:
            failed = await self._score_remotely(profile, pod_class, kept, watch)
            if failed is not None:
                return failed
            self._snap.must_still_be(incarnation)
        for plugin in self._preparing[profile]:
            column = kept.plugins.get(plugin.name)
            live = self._snap.nodes.alive[: self._snap.nodes.size]
            if column is None or self._stale(plugin, column):
                await plugin.prepare(pod_class, self._snap, np.flatnonzero(live))
            elif column.state is not None:
                slots = self._due(plugin.depends_on, column.generation, live)
                await plugin.prepare(pod_class, self._snap, slots)
            self._snap.must_still_be(incarnation)
        failed = self._refresh(profile, pod_class, kept, watch)
        return kept if failed is None else failed

    def _refresh(
        self, profile: str, pod_class: classes.PodClass, kept: columns.ClassColumns, watch: stopwatch.Stopwatch
    ) -> status.Status | None:
        """Bring the in-tree plugins' columns to the snapshot's generation; the status where one cannot score."""
        live = self._snap.nodes.alive[: self._snap.nodes.size]
        for remote in self._chains[profile].remote:
            kept.plugins[remote.name].reserve(self._snap.nodes.capacity)
        for plugin in self._chains[profile].local:
            column = kept.plugins.get(plugin.name)
            started = watch.now()
            if column is None or self._stale(plugin, column):
                state = plugin.pre_score(pod_class, self._snap)
                column = kept.plugins[plugin.name] = columns.ScoreColumn(state, self._snap.generation)
                watch.plugin(plugin.name, "PreScore", started, _code(state))
            if isinstance(column.state, status.Status):
                watch.point("PreScore", started, column.state.code)
                return column.state
            watch.point("PreScore", started)
            started = watch.now()
            scorer = self._roles[profile].plain.get(plugin.name)
            if column.state is not None and scorer is not None:
                slots = self._due(plugin.depends_on, column.generation, live)
                if slots.size:
                    raw = scorer.score(pod_class, self._snap, column.state, slots)
                    column.write(slots, raw, self._snap.nodes.capacity)
                    kept.scored_again(slots)
                    self._slots_evaluated += slots.size
                    watch.plugin(plugin.name, "Score", started)
            column.generation = self._snap.generation
            watch.point("Score", started)
        return None

    def _stale(self, plugin: interfaces.AnyScorePlugin, column: columns.ScoreColumn) -> bool:
        if plugin.depends_on == interfaces.Dependency.CLUSTER:
            return column.state_generation != self._snap.generation
        return self._snap.changed(plugin.reads) > column.state_generation

    def _due(self, depends_on: interfaces.Dependency, generation: int, live: arrays.BoolArray) -> arrays.SlotArray:
        if generation == self._snap.generation and depends_on != interfaces.Dependency.CLUSTER:
            return np.zeros(0, dtype=np.intp)
        if generation < 0 or depends_on == interfaces.Dependency.CLUSTER:
            return np.flatnonzero(live)
        changed = self._snap.nodes.changed_since(generation, depends_on == interfaces.Dependency.NODE_PODS)
        return changed[live[changed]]

    async def _score_remotely(
        self, profile: str, pod_class: classes.PodClass, kept: columns.ClassColumns, watch: stopwatch.Stopwatch
    ) -> status.Status | None:
        """Have services score what changed, nodes that change under their calls too; a status where one failed.

        A node that has changed again after the last round counts with the score that it had, or with 0.
        """
        incarnation = self._snap.incarnation
        remotes = self._chains[profile].remote
        # Concurrent evaluations of one class share the calls: the second finds the scores of the first.
        async with kept.asking:
            called: dict[str, int] = {}
            for _ in range(ROUNDS):
                for remote in remotes:
                    self._snap.must_still_be(incarnation)
                    generation, started = self._snap.generation, watch.now()
                    slots = self._due_remotely(remote, kept, called.get(remote.name))
                    failed = await self._call(remote, profile, pod_class, kept, slots)
                    called[remote.name] = generation
                    code = status.Code.SUCCESS if failed is None else failed.code
                    watch.plugin(remote.name, "Score", started, code)
                    watch.point("Score", started, code)
                    if failed is not None:
                        return failed
                if not any(self._due_remotely(remote, kept, called[remote.name]).size for remote in remotes):
                    break
        return None

    def _due_remotely(self, remote: RemoteScore, kept: columns.ClassColumns, called: int | None) -> arrays.SlotArray:
        """The slots to call the service about; `called`: its last call for this evaluation was at that generation."""
        live = self._snap.nodes.alive[: self._snap.nodes.size]
        column = kept.plugins.get(remote.name)
        if column is None or called is None:
            return self._due(remote.depends_on, -1 if column is None else column.generation, live)
        if column.state is None:
            return changes.NO_SLOTS
        changed = self._snap.nodes.changed_since(called, remote.depends_on != interfaces.Dependency.NODE)
        return changed[live[changed]]

    async def _call(
        self,
        remote: RemoteScore,
        profile: str,
        pod_class: classes.PodClass,
        kept: columns.ClassColumns,
        slots: arrays.SlotArray,
    ) -> status.Status | None:
        generation, incarnation = self._snap.generation, self._snap.incarnation
        column = kept.plugins.get(remote.name)
        if column is None:
            column = kept.plugins[remote.name] = columns.ScoreColumn(True, generation)
        if slots.size:
            raw = await remote.score(profile, pod_class, self._snap, slots)
            self._snap.must_still_be(incarnation)
            if isinstance(raw, status.Status):
                return raw
            # Nothing to say, or a failure that is ignored: it adds nothing, and is called again next time.
            column.state = None if raw is None else True
            if raw is None:
                return None
            column.write(slots, raw, self._snap.nodes.capacity)
            kept.scored_again(slots)
        column.generation = generation
        return None


def _code(state: object) -> status.Code:
    """How a PreScore ended, as metrics say it."""
    if isinstance(state, status.Status):
        return state.code
    return status.Code.SKIP if state is None else status.Code.SUCCESS
