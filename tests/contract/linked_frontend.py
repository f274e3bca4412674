"""What links need of a frontend: a cache, and the publisher of what is in it."""

import asyncio
import time

from trireme.cache import class_registry, cluster_cache, pod_projection
from trireme.frontend.phase_clients import follower_replicas, replica_link, snapshot_publisher
from trireme.rpc import dialing
from trireme.v1 import core_pb2, cycle_pb2, snapshot_pb2

NODES = 200


class Frontend:
    """Follows nothing and schedules nothing: tests say what is in the cache."""

    def __init__(
        self,
        dialer: dialing.Dialer | None = None,
        deadline_seconds: float = 30.0,
        configuration: snapshot_pb2.Configuration | None = None,
    ) -> None:
        self.registry = class_registry.ClassRegistry()
        self.cache = cluster_cache.ClusterCache(self.registry)
        hello = snapshot_pb2.Hello(fence=cycle_pb2.Fence(epoch=1), config_hash=1, configuration=configuration)
        publisher = snapshot_publisher.SnapshotPublisher(self.cache, lambda: hello)
        self.links = follower_replicas.FollowerReplicas(
            "filter", publisher, dialer or dialing.Dialer(), deadline_seconds, time.monotonic, lambda: None
        )
        publisher.add_followers(self.links)
        self.publish = publisher.publish

    def add_nodes(self, count: int) -> None:
        for number in range(count):
            node = core_pb2.Node()
            node.metadata.name = f"node-{number}"
            node.status.allocatable["pods"].string = "110"
            self.cache.set_node(node)

    def assume(self, number: int) -> None:
        parsed = pod_projection.parse(
            {
                "metadata": {
                    "namespace": "default",
                    "name": f"deployment-7c9f8b6d5-{number:05d}",
                    "uid": f"{number:08x}-1b2c-4d5e-8f90-a1b2c3d4e5f6",
                },
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            }
        )
        base = self.registry.intern_base(parsed.base)
        self.cache.assume(parsed.key, parsed.uid, f"node-{number % NODES}", base, (), 0)

    @property
    def link(self) -> replica_link.LinkStatistics:
        (found,) = self.links.statistics()
        return found

    async def follows(self) -> None:
        async with asyncio.timeout(20):
            while not self.link.in_step:
                await asyncio.sleep(0.01)

    async def fails(self, text: str) -> None:
        """Return once that is why; a call that is refused while it writes may say less at first."""
        async with asyncio.timeout(30):
            while text not in self.link.last_error:
                assert not self.link.in_step
                await asyncio.sleep(0.01)
