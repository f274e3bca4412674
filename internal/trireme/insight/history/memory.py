"""Insight's memory: the clusters of the last time and the decisions on them, from one stream of messages."""

from collections.abc import Callable
from typing import NoReturn

from trireme.insight import observed_cluster
from trireme.insight.history import cluster_history, decision_explainer, decision_history
from trireme.registry import filter_profiles, score_profiles
from trireme.v1 import cycle_pb2, snapshot_pb2
from trireme_kube.componentbase import clocks


class Memory:
    """Follows one observed cluster; `take` gets each message once the cluster has it."""

    def __init__(
        self,
        cluster: observed_cluster.ObservedCluster,
        *,
        now_ns: Callable[[], int] = clocks.wall_ns,
        max_bytes: int = cluster_history.MAX_BYTES,
    ) -> None:
        self.clusters = cluster_history.ClusterHistory(cluster, max_bytes=max_bytes)
        self.decisions = decision_history.DecisionHistory(cluster, self.clusters)
        self._now_ns = now_ns

    def explainer(self, identity: Callable[[], cycle_pb2.Cycle]) -> decision_explainer.DecisionExplainer:
        """What explains the decisions in memory; `identity` makes the cycles of its evaluations."""
        return decision_explainer.DecisionExplainer(self.clusters, self.decisions, identity)

    def configure(self, configuration: snapshot_pb2.Configuration) -> None:
        """Decisions are made by this configuration from now on. Raises: ValueError."""
        local, remote = without_remote_plugins(configuration)
        self.clusters.use(
            cluster_history.Plugins(
                filter_profiles.make_profiles(local, _no_remote_plugin),
                score_profiles.make_profiles(local, _no_remote_plugin),
                remote,
            )
        )

    def take(self, request: snapshot_pb2.SyncRequest) -> None:
        """Take over a message."""
        self.decisions.record(request, self._now_ns())
        if request.WhichOneof("message") == "delta":
            self.clusters.record(request.delta)


def without_remote_plugins(
    configuration: snapshot_pb2.Configuration,
) -> tuple[snapshot_pb2.Configuration, dict[str, tuple[str, ...]]]:
    """The configuration without remote plugins, and by profile the names of those that it has."""
    names = {plugin.name for plugin in configuration.remote_plugins}
    out, remote = snapshot_pb2.Configuration(), dict[str, tuple[str, ...]]()
    out.CopyFrom(configuration)
    del out.remote_plugins[:]
    for profile in out.profiles:
        found: dict[str, None] = {}
        for point in profile.plugin_sets:
            found |= dict.fromkeys(entry.name for entry in point.plugins if entry.name in names)
            kept = [entry for entry in point.plugins if entry.name not in names]
            del point.plugins[:]
            point.plugins.extend(kept)
        if found:
            remote[profile.scheduler_name] = tuple(found)
    return out, remote


def _no_remote_plugin(plugin: snapshot_pb2.RemotePlugin, profile: str = "") -> NoReturn:
    """Raises: ValueError."""
    raise ValueError(f"{plugin.name} is a remote plugin")
