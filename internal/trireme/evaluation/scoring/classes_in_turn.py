"""Finds which of several classes can be placed in turn by one call, and what placing them needs of each.

A class that is new, and may never come again, gets no scores of its own, and where there are few nodes none does: what
does not depend on requests is that of its family, and what does is computed for all classes together (`pods_in_turn`).

Tests: tests/unit/evaluation/test_classes_in_turn.py.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from trireme.evaluation import plugin_timer
from trireme.evaluation.scoring import class_scores, placement, placers, pods_in_turn, score_chain, score_evaluator
from trireme.framework import status
from trireme.snapshot import arrays, classes, snapshot

# So many totals are kept at once at most: 16 MiB.
_TOTALS = 2 * 1024 * 1024

# With more nodes than these, what a class that comes again has kept is brought up to date in less time than it takes to
# score all nodes together with other classes.
FEW_NODES = 8192


@dataclass(frozen=True, slots=True)
class PodsToPlace:
    """Pods of a class to place, what one takes of its node, and the nodes that take one by filter's answer.

    Shape: admitted (slot,); slots beyond take none.
    """

    class_id: int
    count: int
    demand: Mapping[str, int]
    admitted: arrays.BoolArray


@dataclass(frozen=True, slots=True)
class ClassInTurn:
    """A class that can be placed in turn.

    `scores` are its own, or those of another class of its family; None: one node takes it, so nothing is scored.
    """

    wanted: pods_in_turn.PodsOfClass
    scores: class_scores.ClassScores | None


@dataclass(frozen=True, slots=True)
class _Scores:
    """Scores that are up to date, and what they add to totals that no placement changes.

    Without `has_usage` those by usage may be out of date.
    """

    scores: class_scores.ClassScores
    static: pods_in_turn.StaticTotals
    has_usage: bool


class ClassesInTurn:
    """Collects classes of one profile until one cannot be placed in turn, on one generation of the snapshot."""

    def __init__(
        self,
        snap: snapshot.Snapshot,
        evaluator: score_evaluator.ScoreEvaluator,
        profile: str,
        chain: score_chain.ScoreChain,
        timer: plugin_timer.PluginTimer,
        *,
        before: int,
    ) -> None:
        """`before`: so many nodes may be full of pods that the snapshot does not have."""
        self._snap = snap
        self._evaluator = evaluator
        self._profile = profile
        self._chain = chain
        self._timer = timer
        self._families: dict[bytes, _Scores] = {}
        self._pods = before

    async def collect(self, wanted: Iterable[PodsToPlace]) -> list[ClassInTurn]:
        """The first classes for which placed pods change nothing but what is left of their nodes' resources.

        They end before one for which a plugin fails, and after one with affinity to pods: where it is matters to
        others. None where the snapshot changed meanwhile.
        """
        generation, size = self._snap.generation, self._snap.nodes.size
        if not size or self._chain.asynchronous or self._chain.percentage:
            return []
        out: list[ClassInTurn] = []
        for each in wanted:
            pod_class = self._snap.classes.get(each.class_id)
            if pod_class is None or (made := await self._class_in_turn(pod_class, each)) is None:
                break
            out.append(made)
            if pod_class.relates_to_pods or (len(out) + 1) * size > _TOTALS:
                break
        return out if self._snap.generation == generation else []

    async def _class_in_turn(self, pod_class: classes.PodClass, wanted: PodsToPlace) -> ClassInTurn | None:
        size = self._snap.nodes.size
        # Filter may be ahead of this replica, or behind it: what is no node here cannot be chosen here.
        opened = self._snap.nodes.alive[:size].copy()
        opened[: wanted.admitted.shape[0]] &= wanted.admitted[:size]
        opened[wanted.admitted.shape[0] :] = False
        if np.count_nonzero(opened) == 1:
            self._pods += wanted.count
            return ClassInTurn(_on_one_node(wanted, opened, exclusive=pod_class.takes_more_than_resources), None)
        by_family = size <= FEW_NODES or not self._evaluator.knows(self._profile, pod_class)
        known = self._evaluator.columns_of(self._profile, pod_class)
        found = await self._scores_for(pod_class, by_family)
        if found is None or not placers.affects_usage_only(self._chain, found.scores):
            return None
        self._pods += wanted.count
        static = found.static.of(opened, self._pods)
        if static is None:
            return None
        is_own = found.has_usage and found.scores is known
        own = np.zeros(size, dtype=np.int64) if is_own else None
        by_usage = []
        started = self._timer.now()
        for name, plugin in self._chain.by_usage.items():
            column, weight = found.scores.plugins[name], self._chain.weights[name]
            state = column.state if is_own else plugin.pre_score(pod_class, self._snap)
            if state is not None:
                by_usage.append(pods_in_turn.UsageScorer(plugin, state, weight))
                if own is not None:
                    own += placement.apply_weight(column.raw[:size], weight)
        self._timer.record_point("PreScore", started)
        pods = pods_in_turn.PodsOfClass(
            wanted.class_id,
            wanted.count,
            wanted.demand,
            opened,
            static,
            by_usage,
            own,
            pod_class.takes_more_than_resources,
        )
        return ClassInTurn(pods, found.scores)

    async def _scores_for(self, pod_class: classes.PodClass, by_family: bool) -> _Scores | None:
        """The scores that count for the class, perhaps of another of its family; None: a plugin fails."""
        if by_family:
            found = self._families.get(pod_class.family)
            sibling = None if found else self._evaluator.sibling_of(self._profile, pod_class)
            # A sibling's cached scores may be outdated: where they depend on other pods, the class itself is evaluated.
            if sibling is not None and placers.affects_usage_only(self._chain, sibling[1]):
                # Of another class nobody needs the scores by usage.
                found = await self._evaluate(sibling[0], has_usage=sibling[0] is pod_class)
                if found is not None:
                    self._families[pod_class.family] = found
            if found is not None and self._evaluator.scores_alike(self._profile, pod_class, found.scores):
                return found
        return await self._evaluate(pod_class, has_usage=True)

    async def _evaluate(self, pod_class: classes.PodClass, *, has_usage: bool) -> _Scores | None:
        outdated = () if has_usage else self._chain.by_usage
        scores = await self._evaluator.evaluate(self._profile, pod_class, self._timer, outdated=outdated)
        if isinstance(scores, status.Status):
            return None
        ranked, common = placers.ranked_plugins(self._chain, scores)
        return _Scores(scores, pods_in_turn.StaticTotals(ranked, common, self._snap.nodes.size), has_usage)


def _on_one_node(wanted: PodsToPlace, opened: arrays.BoolArray, *, exclusive: bool) -> pods_in_turn.PodsOfClass:
    """The pods of a class that one node takes, as it does pods of a DaemonSet: they go there, whatever its score."""
    no_scores = np.broadcast_to(np.int64(0), opened.shape)
    return pods_in_turn.PodsOfClass(
        wanted.class_id, wanted.count, wanted.demand, opened, 0, (), no_scores, exclusive, one_node=True
    )
