"""The cluster's state on its way to the replicas: what changes goes to all, and who begins to follow gets everything.

A full sync costs much where the cluster is large and many begin at once, so the last one is kept, with what was
published since behind it, for as long as that costs a replica less than a new one would.
"""

from collections.abc import Callable, Sequence

from trireme.cache import cluster_cache
from trireme.frontend.phase_clients import replicas
from trireme.v1 import snapshot_pb2


class Publisher:
    """Where streams begin (`replica_link.Source`). Nothing is sent before `phases` says to whom."""

    def __init__(self, cache: cluster_cache.ClusterCache, hello: Callable[[], snapshot_pb2.Hello]) -> None:
        """`hello` makes the first message to a replica."""
        self._cache = cache
        self.hello = hello
        self.phases: Sequence[replicas.Replicas] = ()
        self._whole: list[bytes] = []  # the last full sync, and what was published since
        self._whole_bytes = self._since_bytes = 0  # of the one and the other

    @property
    def followed(self) -> bool:
        """Whether any replica has a stream."""
        return any(phase.followed for phase in self.phases)

    def full_sync(self) -> Sequence[bytes]:
        """All of the cluster: as it was when it was last made for a replica, and what has changed since. What has
        changed goes to the replicas that follow already first.
        """
        self.publish()
        if not self._whole:
            self._whole = [
                snapshot_pb2.SyncRequest(delta=delta).SerializeToString() for delta in self._cache.full_sync()
            ]
            self._whole_bytes, self._since_bytes = sum(map(len, self._whole)), 0
        return tuple(self._whole)

    def publish(self) -> int:
        """Send what has changed to all replicas; answers the generation that they will be at."""
        if not (self._whole or self.followed):
            self._cache.drop_delta()
            return self._cache.generation
        while (delta := self._cache.take_delta()) is not None:
            request = snapshot_pb2.SyncRequest(delta=delta).SerializeToString()
            self._keep(request)
            for phase in self.phases:
                phase.publish(request, delta.to_generation)
        return self._cache.generation

    def _keep(self, request: bytes) -> None:
        self._since_bytes += len(request)
        if self._since_bytes > self._whole_bytes:
            self._whole = []
        elif self._whole:
            self._whole.append(request)
