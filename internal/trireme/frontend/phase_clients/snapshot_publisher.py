"""Publishes the cluster's state to replicas: each change to all followers, and a full sync to those that begin.

A full sync of a large cluster is expensive, and many replicas may begin at once. So the last one is cached, followed by
what was published since, as long as the two together cost a replica less than a new full sync would.

Tests: tests/unit/frontend/test_snapshot_publisher.py, tests/unit/frontend/test_until_published.py,
tests/unit/frontend/test_full_sync.py.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from trireme.cache import cluster_cache
from trireme.frontend.phase_clients import follower_replicas
from trireme.v1 import snapshot_pb2

#: How long `until_published` waits: a scheduling cycle, during which nothing is published, may take longer.
LONGEST_WAIT_SECONDS = 2.0


class SnapshotPublisher:
    """The source of all snapshot streams (`replica_link.StreamSource`). Nothing is sent before there are followers."""

    def __init__(self, cache: cluster_cache.ClusterCache, hello: Callable[[], snapshot_pb2.Hello]) -> None:
        """`hello` makes the first message to a replica."""
        self._cache = cache
        self.hello = hello
        self._followers: list[follower_replicas.FollowerReplicas] = []
        self._full_sync: list[bytes] = []  # the last one, and what was published since
        self._full_sync_bytes = self._since_bytes = 0  # of the one and the other
        # Set when the changes so far have been published; made for those that wait for it.
        self._published: asyncio.Event | None = None

    def add_followers(self, followers: follower_replicas.FollowerReplicas) -> None:
        """Send changes to these replicas, too, from now on."""
        self._followers.append(followers)

    def remove_followers(self, followers: follower_replicas.FollowerReplicas) -> None:
        """Send these replicas nothing more."""
        self._followers.remove(followers)

    @property
    def followed(self) -> bool:
        """Whether any replica has a stream."""
        return any(followers.followed for followers in self._followers)

    def full_sync(self) -> Sequence[bytes]:
        """All of the cluster, as a cached full sync and what has changed since.

        Changes that were not published yet go to the present followers first.
        """
        self.publish()
        if not self._full_sync:
            self._full_sync = [
                snapshot_pb2.SyncRequest(delta=delta).SerializeToString() for delta in self._cache.full_sync()
            ]
            self._full_sync_bytes, self._since_bytes = sum(map(len, self._full_sync)), 0
        return tuple(self._full_sync)

    def publish(self) -> int:
        """Send what has changed to all followers; returns the generation that they will be at."""
        if not (self._full_sync or self.followed):
            self._cache.drop_delta()
            return self._end_waits()
        while (delta := self._cache.take_delta()) is not None:
            request = snapshot_pb2.SyncRequest(delta=delta).SerializeToString()
            self._extend_full_sync(request)
            for followers in self._followers:
                followers.publish(request, delta.to_generation)
        return self._end_waits()

    async def until_published(self) -> int:
        """Wait until all that the cache has now is published; returns the generation that has it.

        Scheduling cycles publish when they begin, and between them the frontend does so every 100 ms. It waits
        `LONGEST_WAIT_SECONDS` at most, and then returns the last generation.
        """
        if self._cache.has_changes:
            self._published = published = self._published or asyncio.Event()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LONGEST_WAIT_SECONDS):
                    await published.wait()
        return self._cache.generation

    def _end_waits(self) -> int:
        """Wake those that wait until everything is published, and return the generation."""
        if self._published is not None:
            self._published.set()
            self._published = None
        return self._cache.generation

    def _extend_full_sync(self, request: bytes) -> None:
        """Append a delta to the cached full sync, or drop that once it would be better made again."""
        self._since_bytes += len(request)
        if self._since_bytes > self._full_sync_bytes:
            self._full_sync = []
        elif self._full_sync:
            self._full_sync.append(request)
