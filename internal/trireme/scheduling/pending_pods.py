"""The pending pods: those of this scheduler's profiles that no watch has shown on a node yet.

Tests: tests/unit/scheduling/test_assembly.py.
"""

from trireme.cache import cluster_cache
from trireme.queueing.pending_pod import PendingPod


class PendingPods:
    """The pending pods, assumed ones included. The handlers of pod events write them, all others look them up."""

    def __init__(self, cache: cluster_cache.ClusterCache) -> None:
        self._cache = cache
        self.by_uid: dict[str, PendingPod] = {}

    def get(self, uid: str) -> PendingPod | None:
        """The pending pod of this UID, assumed or not."""
        return self.by_uid.get(uid)

    def uids(self) -> frozenset[str]:
        """The UIDs of all pending pods, assumed ones included."""
        return frozenset(self.by_uid)

    def lacks_node(self, uid: str) -> bool:
        """Whether the pod is pending and not assumed on a node."""
        return uid in self.by_uid and self._cache.pod(uid) is None

    def version_of(self, uid: str) -> str:
        """The resourceVersion at which the pod, pending or not, was last seen; empty: there is no such pod."""
        pending, placed = self.by_uid.get(uid), self._cache.pod(uid)
        if pending is not None:
            return str(pending.parsed.resource_version)
        return str(placed.version) if placed is not None and placed.version else ""
