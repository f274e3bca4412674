"""Insight's memory: the clusters of the last time and the decisions on them, from one stream of messages.

Tests: tests/unit/insight/history/test_decision_explanations.py.
"""

from collections.abc import Callable

from trireme.insight import observed_cluster
from trireme.insight.history import cluster_history, decision_explainer, decision_history, last_answers
from trireme.registry import filter_profiles, score_profiles
from trireme.remote import recorded_makers
from trireme.snapshot import snapshot
from trireme.v1 import cycle_pb2, plugin_pb2, snapshot_pb2
from trireme_kube.componentbase import clocks

Points = frozenset[plugin_pb2.ExtensionPoint.ValueType]

FILTER_POINTS: Points = frozenset({plugin_pb2.EXTENSION_POINT_PRE_FILTER, plugin_pb2.EXTENSION_POINT_FILTER})
SCORE_POINTS: Points = frozenset({plugin_pb2.EXTENSION_POINT_PRE_SCORE, plugin_pb2.EXTENSION_POINT_SCORE})


class Memory:
    """Follows one observed cluster; `take` gets each message once the cluster has it."""

    def __init__(
        self, cluster: observed_cluster.ObservedCluster, *, now_ns: Callable[[], int] = clocks.wall_ns
    ) -> None:
        self.clusters = cluster_history.ClusterHistory(cluster)
        self.decisions = decision_history.DecisionHistory(cluster, self.clusters)
        self._now_ns = now_ns

    def explainer(self, identity: Callable[[], cycle_pb2.Cycle]) -> decision_explainer.DecisionExplainer:
        """What explains the decisions in memory; `identity` makes the cycles of its evaluations."""
        return decision_explainer.DecisionExplainer(self.clusters, self.decisions, identity)

    def configure(self, configuration: snapshot_pb2.Configuration) -> None:
        """Decisions are made by this configuration from now on. Raises: ValueError."""
        local = without_remote_plugins(configuration)
        recorded = None
        if configuration.remote_plugins:
            plugins = recorded_makers.RecordedMakers()
            recorded = cluster_history.RecordedProfiles(
                plugins,
                filter_profiles.make_profiles(configuration, plugins.make_filter),
                score_profiles.make_profiles(configuration, plugins.make_score),
            )
        self.clusters.use(
            cluster_history.Plugins(
                filter_profiles.make_profiles(local),
                score_profiles.make_profiles(local),
                remote_plugins_at(configuration, FILTER_POINTS),
                remote_plugins_at(configuration, SCORE_POINTS),
                recorded,
            )
        )

    async def last_answers(self, snap: snapshot.Snapshot, profile: str, number: int) -> last_answers.LastAnswers | None:
        """What evaluates a class without calling remote plugins; None: none of the profile's counts."""
        return await last_answers.last_answers(self.clusters, self.decisions, snap, profile, number)

    def take(self, request: snapshot_pb2.SyncRequest) -> None:
        """Take over a message."""
        self.decisions.record(request, self._now_ns())
        if request.WhichOneof("message") == "delta":
            self.clusters.record(request.delta)


def remote_plugins_at(configuration: snapshot_pb2.Configuration, points: Points) -> dict[str, tuple[str, ...]]:
    """By profile the names of the remote plugins at these points whose answers count; profiles without are left out."""
    names = {plugin.name for plugin in configuration.remote_plugins if not plugin.shadow}
    out = {}
    for profile in configuration.profiles:
        sets = (each for each in profile.plugin_sets if each.extension_point in points)
        found = dict.fromkeys(entry.name for each in sets for entry in each.plugins if entry.name in names)
        if found:
            out[profile.scheduler_name] = tuple(found)
    return out


def without_remote_plugins(configuration: snapshot_pb2.Configuration) -> snapshot_pb2.Configuration:
    """The configuration without remote plugins."""
    names = {plugin.name for plugin in configuration.remote_plugins}
    out = snapshot_pb2.Configuration()
    out.CopyFrom(configuration)
    del out.remote_plugins[:]
    for profile in out.profiles:
        for point in profile.plugin_sets:
            kept = [entry for entry in point.plugins if entry.name not in names]
            del point.plugins[:]
            point.plugins.extend(kept)
    return out
