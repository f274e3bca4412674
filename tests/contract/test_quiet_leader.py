"""What changes in the cluster reaches the replicas while nothing is scheduled, however much it is."""

import asyncio
import pathlib
import time
from collections.abc import Iterator

import pytest

from tests.contract.frontend_with_phases import Cluster, Server, node
from trireme.frontend import leadership_runner
from trireme.v1 import core_pb2
from trireme_kube.client.informers.watch import EventKind

NODES = 20_000
PER_PAGE = 500
IMAGES_PER_NODE = 50
BOUND_SECONDS = 1.0


def _images(version: int) -> Iterator[list[core_pb2.ContainerImage]]:
    """The images of one node after the other: some hundred different ones, fifty on each node."""
    known = []
    for number in range(200):
        digest = f"{number * 7919 + version:064x}"
        names = [f"registry.example.com/team/app-{number}@sha256:{digest}", f"registry.example.com/app-{number}:v1"]
        known.append(core_pb2.ContainerImage(names=names, size_bytes=(number + 1) << 20))
    number = 0
    while True:
        yield [known[(number + step * 3) % len(known)] for step in range(IMAGES_PER_NODE)]
        number += 1


async def _deliver(cluster: Cluster, kind: EventKind, version: int) -> None:
    """The watch shows all nodes, a page at a time."""
    images = _images(version)
    for start in range(0, NODES, PER_PAGE):
        page = [node(f"node-{number}", 110, next(images)) for number in range(start, start + PER_PAGE)]
        for each in page:
            each.metadata.resource_version = str(version)
        cluster.deliver_nodes(page, kind)
        await asyncio.sleep(0)


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_a_pod_after_a_quiet_time_is_bound_within_a_second(tmp_path: pathlib.Path) -> None:
    """If this fails, the first pod after a quiet time waits for all that has changed since, or forever.

    All of it as one delta exceeds what a message may have.
    """
    cluster = Cluster()
    frontend = cluster.frontend
    servers = [Server(cluster, phase, tmp_path, 0) for phase in ("filter", "score", "bind")]
    for server in servers:
        await server.start()
    links = (frontend.phases.links.filters, frontend.phases.links.scores)

    def followed() -> bool:
        statistics = [entry for phase in links for entry in phase.statistics()]
        return all(entry.in_step and entry.acknowledged == frontend.cluster.cache.generation for entry in statistics)

    async with cluster.scheduling():
        for replicas, server in zip((*links, frontend.phases.links.binders), servers, strict=True):
            replicas.set_endpoints([server.address])
        async with asyncio.timeout(60):
            while not frontend.phases.links.available():
                await asyncio.sleep(0.05)
        for kind, version in ((EventKind.ADDED, 1), (EventKind.MODIFIED, 2)):
            await _deliver(cluster, kind, version)
            await asyncio.sleep(2 * leadership_runner.STEADY_PUBLISH_SECONDS)
            async with asyncio.timeout(150):
                while not followed():
                    await asyncio.sleep(0.05)
        # Nothing was left for a cycle to publish.
        generation = frontend.cluster.cache.generation
        created = time.monotonic()
        uid = cluster.create("pod", "100m")
        await cluster.until_bound(1, 60)
        took = cluster.bound_at[uid] - created
        assert frontend.cluster.cache.generation <= generation + 2
        assert took < BOUND_SECONDS
        for server in servers:
            await server.stop()
