"""Who places the next pods of a class: made of its columns, and of how a placement changes each plugin's scores.

Tests: tests/unit/evaluation/test_batches_with_remote_scores.py, tests/unit/evaluation/test_classes_in_turn.py,
tests/unit/evaluation/test_kept_scores.py.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from trireme.evaluation.scoring import (
    class_scores,
    copy_scores,
    domain_placement,
    placement,
    ranking,
    score_chain,
    score_column,
)
from trireme.framework import domain_rules
from trireme.plugin_api import scorers
from trireme.snapshot import arrays, classes, snapshot

AnyPlacer = placement.Placer | domain_placement.DomainPlacer


def ranked_plugins(
    chain: score_chain.ScoreChain, cached: class_scores.ClassScores
) -> tuple[Sequence[ranking.RankedPlugin], int]:
    """The plugins whose scores of a node do not depend on other nodes, but by their maximum.

    Those that score all nodes alike are left out; the second result is what they add to each total.
    """
    out, common = [], 0
    plugins: list[scorers.ScorePlugin | scorers.AsyncScore] = [
        *chain.plain.values(),
        *chain.asynchronous.values(),
    ]
    for plugin in plugins:
        column = cached.plugins[plugin.name]
        if column.silent:
            continue
        weight, own = chain.weights[plugin.name], plugin.name in chain.own_node or is_copied(chain, plugin.name)
        if column.uniform is None or own or plugin.name in chain.asynchronous:
            out.append(ranking.RankedPlugin(column, weight, plugin.normalization, own))
        else:
            common += placement.common_score(column.uniform, plugin.normalization, weight)
    return out, common


def is_copied(chain: score_chain.ScoreChain, name: str) -> bool:
    """Whether a plugin is called for scores with copies on the node, and no other node's score follows from them."""
    plugin = chain.copying.get(name)
    return plugin is not None and plugin.normalization == scorers.Normalization.NONE


def affects_usage_only(chain: score_chain.ScoreChain, cached: class_scores.ClassScores) -> bool:
    """Whether of placed pods only what they use of their nodes' resources matters, in a chain that calls no service."""
    return all(name in cached.plugins and cached.plugins[name].silent for name in (*chain.joint, *chain.by_pods))


class PlacerFactory:
    """Makes placers of one class from its columns as they are now."""

    def __init__(
        self,
        snap: snapshot.Snapshot,
        chain: score_chain.ScoreChain,
        pod_class: classes.PodClass,
        cached: class_scores.ClassScores,
        ranked: ranking.Ranking,
        ties: arrays.Int64Array,
    ) -> None:
        self._snap = snap
        self._chain = chain
        self._class = pod_class
        self._cached = cached
        self._ranked = ranked
        self._ties = ties

    def affects_own_node_only(self, constraints: Sequence[domain_rules.DomainConstraint]) -> bool:
        """Whether all nodes are scored, and a placement changes nothing on another node than its own."""
        chain = self._chain
        return not (constraints or chain.percentage or self._scores_many_nodes() or chain.custom_normalization)

    def make_for_best_nodes(self, slots: arrays.SlotArray) -> placement.Placer:
        """Make the placer over these slots, the best ones, as many as there are pods: no other can be chosen."""
        cached, ranked = self._cached, self._ranked
        static = placement.ScoredPlugin("", 1, scorers.Normalization.NONE, ranked.static[slots])
        own = self._make_own_scores_function(slots)
        nodes = placement.ScoredNodes(
            cached.capacity[slots], self._ties[slots], [static], own, own_now=ranked.own[slots]
        )
        return placement.Placer(nodes, cached.open_count)

    def make_for_all_nodes(
        self,
        slots: arrays.SlotArray,
        constraints: Sequence[domain_rules.DomainConstraint],
        extra: arrays.Int64Array,
        custom: Mapping[str, arrays.Int64Array],
        count: int,
    ) -> AnyPlacer:
        """Make the placer over the nodes at these slots: by domain if some plugin or constraint looks at many nodes.

        `extra` is added to the plugins' scores where it is not empty (slot,); `custom` are the scores of plugins that
        normalise by themselves (node,).
        """
        by_domain = bool(constraints) or self._scores_many_nodes()
        # A placement changes none of a plugin's scores (static), those of its own node (own), or those
        # of many nodes (joint).
        static: list[placement.ScoredPlugin] = []
        joint: list[domain_placement.JointPlugin] = []
        for plugin in self._chain.plugins:
            name, weight = plugin.name, self._chain.weights[plugin.name]
            column = self._cached.plugins[name]
            if column.silent or name in self._chain.own_node or is_copied(self._chain, name):
                continue
            if name in self._chain.joint:
                shared = self._chain.joint[name].joint(self._class, self._snap, column.state, slots)
                joint.append(domain_placement.JointPlugin(weight, shared))
            elif name in self._chain.copying:
                scores = self._copy_joint_scores(column, plugin.normalization, slots)
                joint.append(domain_placement.JointPlugin(weight, scores))
            elif name in custom:
                none = scorers.Normalization.NONE
                static.append(placement.ScoredPlugin(name, weight, none, custom[name]))
            else:
                # Of scores that are the same everywhere one says it all where batches are placed by domains.
                even = column.uniform is not None and name not in self._chain.asynchronous
                raw = column.raw[slots[:1]] if even and by_domain else arrays.entries_at(column.raw, slots)
                static.append(placement.ScoredPlugin(name, weight, plugin.normalization, raw, even))
        if extra.size:
            static.append(placement.ScoredPlugin("", 1, scorers.Normalization.NONE, extra[slots]))

        nodes = placement.ScoredNodes(
            arrays.entries_at(self._cached.capacity, slots),
            arrays.entries_at(self._ties, slots),
            static,
            self._make_own_scores_function(slots),
            own_now=arrays.entries_at(self._ranked.own, slots),
        )
        if by_domain:
            return domain_placement.DomainPlacer(nodes, joint, constraints, slots, count)
        return placement.Placer(nodes)

    def _scores_many_nodes(self) -> bool:
        """Whether by a plugin's scores a placement changes other nodes too: they share them, or their maximum."""
        normalized = [name for name in self._chain.copying if not is_copied(self._chain, name)]
        return any(not self._cached.plugins[name].silent for name in (*self._chain.joint, *normalized))

    def _copy_joint_scores(
        self,
        column: score_column.ScoreColumn,
        normalization: scorers.Normalization,
        slots: arrays.SlotArray,
    ) -> copy_scores.CopyJointScores:
        """The scores of a plugin that is called for those with copies and normalised by the highest one."""

        def score_with_copies(node: int, copies: int) -> int:
            row = column.copies.row(int(slots[node]))
            return int(row[copies - 1]) if copies <= row.shape[0] else scorers.UNKNOWN

        return copy_scores.CopyJointScores(arrays.entries_at(column.raw, slots), normalization, score_with_copies)

    def _make_own_scores_function(self, slots: arrays.SlotArray) -> placement.OwnScores | None:
        """Return what computes the scores that depend on copies on the node itself; None if no plugin's do."""
        own = [
            (plugin, self._cached.plugins[name].state, self._chain.weights[name])
            for name, plugin in self._chain.own_node.items()
            if not self._cached.plugins[name].silent
        ]
        copied = [
            (self._cached.plugins[name], self._chain.weights[name])
            for name in self._chain.copying
            if is_copied(self._chain, name) and not self._cached.plugins[name].silent
        ]

        def own_scores(nodes: arrays.SlotArray, copies: int) -> arrays.Int64Array:
            """The weighted sum of the plugins' scores of each node with 1, 2, … copies. Shape: (node, copy)."""
            total = np.zeros((nodes.shape[0], copies), dtype=np.int64)
            for plugin, state, weight in own:
                scores = plugin.score_copies(self._class, self._snap, state, slots[nodes], copies)
                total += placement.apply_weight(scores, weight)
            for column, weight in copied:
                scores = column.copies.table(slots[nodes], column.raw[slots[nodes]], copies)
                unknown = (scores == scorers.UNKNOWN) | (total == scorers.UNKNOWN)
                total = np.where(unknown, scorers.UNKNOWN, total + placement.apply_weight(scores, weight))
            return total

        return own_scores if own or copied else None
