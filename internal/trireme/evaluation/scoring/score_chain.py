"""The score plugins of one profile, and what each of them can do.

What a plugin can do follows from the protocols that it implements. That is found out once, when the profile is made: to
ask an object for a protocol takes longer than many an answer.

Also change: internal/trireme/evaluation/filtering/filter_chain.py (filter and score are alike here).

Tests: tests/unit/evaluation/test_scoring.py, tests/unit/evaluation/test_batches_with_remote_scores.py.
"""

from collections.abc import Mapping, Sequence
from typing import TypeGuard

from trireme.plugin_api import interfaces, scorers


class ScoreChain:
    """The score plugins of one profile, in the profile's order, and their weights by name.

    `percentage` of the nodes is scored; 0: all.
    """

    def __init__(
        self, weights: Mapping[str, int], plugins: Sequence[scorers.AnyScorePlugin], percentage: int = 0
    ) -> None:
        self.weights = weights
        self.plugins = tuple(plugins)
        self.percentage = percentage
        #: Those whose scores have to be prepared, and all others.
        self.asynchronous = {each.name: each for each in plugins if isinstance(each, scorers.AsyncScore)}
        self.synchronous = tuple(each for each in plugins if not isinstance(each, scorers.AsyncScore))
        #: Of the synchronous ones those that score faster what was prepared.
        self.preparing = tuple(each for each in self.synchronous if isinstance(each, scorers.PreparingScore))
        #: Those whose scores depend on which nodes passed; a placement changes many of these.
        self.joint = {each.name: each for each in self.synchronous if isinstance(each, scorers.JointScorePlugin)}
        #: Those for which a placement changes only its own node's score.
        self.own_node = {each.name: each for each in self.synchronous if isinstance(each, scorers.OwnNodeScore)}
        #: Of the asynchronous ones those that are called for the scores of a node with copies of the pod on it.
        self.copying = {each.name: each for each in self.asynchronous.values() if _is_called_for_copies(each)}
        #: All synchronous ones but the joint ones.
        self.plain = {each.name: each for each in self.synchronous if not isinstance(each, scorers.JointScorePlugin)}

        #: Of those in `own_node` those that look at the usage of resources alone.
        self.by_usage: Mapping[str, scorers.UsageScore] = {
            name: each
            for name, each in self.plain.items()
            if isinstance(each, scorers.UsageScore) and each.depends_on == interfaces.Dependency.NODE_PODS
        }
        #: The synchronous ones whose scores classes with equal node terms share.
        self.by_node_terms = frozenset(
            each.name
            for each in self.synchronous
            if isinstance(each, scorers.NodeTermsScore) and each.depends_on == interfaces.Dependency.NODE
        )
        #: The names of the synchronous ones whose scores classes of one family share.
        self.ignoring_requests = tuple(
            each.name for each in self.synchronous if isinstance(each, interfaces.IgnoresRequests)
        )
        #: The synchronous ones that look at requests in another way than by usage.
        self.reading_requests = tuple(
            each
            for each in self.synchronous
            if each.name not in self.ignoring_requests and each.name not in self.by_usage
        )
        #: The synchronous ones whose scores placed pods may change in another way.
        self.by_pods = tuple(
            each.name
            for each in self.synchronous
            if each.name not in self.by_usage and each.depends_on != interfaces.Dependency.NODE
        )

    @property
    def custom_normalization(self) -> bool:
        """Whether a plugin normalises its scores by itself, over all nodes that take the pod."""
        return any(plugin.normalization == scorers.Normalization.CUSTOM for plugin in self.asynchronous.values())

    @property
    def places_one_by_one(self) -> bool:
        """Whether pods are placed one at a time: a placement may change scores that only a call can bring up to date.

        Those of any node, or (NODE_PODS) of the pod's own, if the plugin is not called for them ahead.
        """
        by_pods = any(
            plugin.depends_on >= interfaces.Dependency.NODE_PODS and plugin.name not in self.copying
            for plugin in self.asynchronous.values()
        )
        return bool(self.percentage) or by_pods or self.custom_normalization


def _is_called_for_copies(plugin: scorers.AsyncScore) -> TypeGuard[scorers.AsyncCopyScore]:
    """Whether the plugin says what a placement changes: the score of its own node, which nobody else normalises."""
    return (
        isinstance(plugin, scorers.AsyncCopyScore)
        and plugin.scores_copies
        and plugin.depends_on == interfaces.Dependency.NODE_PODS
        and plugin.normalization != scorers.Normalization.CUSTOM
    )
