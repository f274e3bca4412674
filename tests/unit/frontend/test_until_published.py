"""Waiting until what the cache has is published, for calls of plugins that follow the cluster."""

import asyncio
from collections.abc import Callable

import pytest

from tests.helpers import virtual_time
from trireme.cache import class_registry, cluster_cache
from trireme.frontend.phase_clients import snapshot_publisher
from trireme.v1 import core_pb2, snapshot_pb2


def _node(name: str) -> core_pb2.Node:
    node = core_pb2.Node()
    node.metadata.name = name
    return node


@pytest.mark.parametrize("published", [True, False], ids=["published", "a cycle that takes long"])
def test_a_call_about_a_change_names_the_generation_that_has_it(published: bool) -> None:
    async def main(clock: Callable[[], float]) -> None:
        cache = cluster_cache.ClusterCache(class_registry.ClassRegistry())
        publisher = snapshot_publisher.SnapshotPublisher(cache, snapshot_pb2.Hello)
        cache.set_node(_node("early"))
        before = publisher.publish()
        assert await publisher.until_published() == before
        cache.set_node(_node("late"))
        started = clock()
        waiting = [asyncio.create_task(publisher.until_published()) for _ in range(2)]
        await asyncio.sleep(0.5)
        assert not any(task.done() for task in waiting)
        if published:
            assert publisher.publish() == before + 1
        assert await asyncio.gather(*waiting) == [before + published] * 2
        assert clock() - started == pytest.approx(0.5 if published else snapshot_publisher.LONGEST_WAIT_SECONDS)

        cache.set_node(_node("later"))
        again = asyncio.create_task(publisher.until_published())
        await asyncio.sleep(0.5)
        assert not again.done(), "the change came after what was published"
        publisher.publish()
        assert await again == before + 1 + published

    virtual_time.run(main)
