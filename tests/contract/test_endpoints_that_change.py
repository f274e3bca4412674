"""Endpoints of all phases come and go while pods are scheduled: nothing stops, is lost, or is done twice."""

import asyncio
import pathlib
import random

import pytest

from tests.contract.frontend_with_phases import Cluster, Server, node

NODES, PODS_PER_NODE = 100, 104
PODS = 10_000
CHANGES = 1000
SERVERS_PER_PHASE = 3
CLASSES = 20


class Endpoints:
    """The endpoints of one phase: some of its servers."""

    def __init__(self, cluster: Cluster, phase: str, folder: pathlib.Path, rng: random.Random) -> None:
        frontend = cluster.frontend
        self._replicas = {
            "filter": frontend.phases.links.filters,
            "score": frontend.phases.links.scores,
            "bind": frontend.phases.links.binders,
        }[phase]
        self.servers = [Server(cluster, phase, folder, number) for number in range(SERVERS_PER_PHASE)]
        self.listed: set[str] = set()
        self._rng = rng

    async def change(self) -> None:
        """Add or remove one. What is removed may end at once, with the calls that it has."""
        server = self._rng.choice(self.servers)
        if server.address not in self.listed:
            await server.start()
        self.listed ^= {server.address}
        self._replicas.set_endpoints(sorted(self.listed))
        if server.address not in self.listed and self._rng.random() < 0.3:
            await asyncio.sleep(self._rng.choice((0.0, 0.002)))
            await server.stop()

    async def add_all(self) -> None:
        """All are there."""
        for server in self.servers:
            await server.start()
        self.listed = {server.address for server in self.servers}
        self._replicas.set_endpoints(sorted(self.listed))


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_a_thousand_changes_of_endpoints_while_ten_thousand_pods_are_scheduled(tmp_path: pathlib.Path) -> None:
    """If this fails, a rolling update of any phase stops the scheduler, drops a pod or binds one twice."""
    seed = random.randrange(1 << 30)
    rng = random.Random(seed)
    cluster = Cluster()
    cluster.deliver_nodes([node(f"node-{number}", PODS_PER_NODE) for number in range(NODES)])
    phases = [Endpoints(cluster, phase, tmp_path, rng) for phase in ("filter", "score", "bind")]
    changes = 0
    async with cluster.scheduling():
        for phase in phases:
            await phase.add_all()
        for number in range(PODS):
            cluster.create(f"pod-{number}", f"{100 + number % CLASSES}m")
            if number % (PODS // CHANGES) == 0:
                await rng.choice(phases).change()
                changes += 1
                await asyncio.sleep(rng.choice((0.0, 0.005, 0.02)))
        bound_meanwhile = len(cluster.bound)
        for phase in phases:
            await phase.add_all()
        await cluster.until_bound(PODS, 200)
        for phase in phases:
            for server in phase.servers:
                await server.stop()
    assert changes == CHANGES
    assert bound_meanwhile > PODS // 10, "most of the changes did not meet any calls"
    assert not cluster.twice, seed
    assert len(cluster.bound) == PODS
    assert max(cluster.per_node().values()) <= PODS_PER_NODE
