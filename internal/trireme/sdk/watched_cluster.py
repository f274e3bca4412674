"""A cluster that records its use: for calls that lack some of its pods.

Also change: sdk/go/reads.go, sdk/java/src/main/java/dev/trireme/sdk/ScoreHandlers.java,
sdk/rust/src/services/scoring.rs, sdk/typescript/src/services/score_service.ts (the same in the other languages' SDKs).

Tests: tests/contract/test_plugin_score_copies_cluster.py.
"""

from typing import Any

from trireme.sdk import cluster_state


class WatchedCluster(cluster_state.ClusterState):
    """Another cluster as it is now, and the name of what was used of it first."""

    def __init__(self, cluster: cluster_state.ClusterState) -> None:
        vars(self)["cluster"] = cluster

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__"):
            return object.__getattribute__(self, name)
        own = vars(self)
        own.setdefault("first_use", name)
        return getattr(own["cluster"], name)


def first_use(cluster: WatchedCluster) -> str | None:
    """The name of the method or attribute that was used first; None: the cluster was not used."""
    name: str | None = vars(cluster).get("first_use")
    return name
