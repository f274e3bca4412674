"""Pods are placed in batches beside a service that filters and scores by the pods of a node, as one by one."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from tests.contract.plugin_servers import on_the_sdk
from tests.helpers.phase_calls import PROFILE
from tests.helpers.recorded_decisions import LARGE, SMALL, RecordedCluster
from trireme import sdk
from trireme.remote import remote_client
from trireme.v1 import score_copies_pb2, score_pb2_grpc, snapshot_pb2
from trireme.wire.phase_answers import PlaceAnswer

# Pods of a class on one node, at most.
LIMIT = 3
BY_PODS = {
    "spreads": lambda pods, size: 90 - 20 * pods - size,
    "packs": lambda pods, size: 10 + 20 * pods + size,
    "as it comes": lambda pods, size: (pods * 37 + size * 11) % 101,
}


class Crowding:
    """Knows by itself which pods are on nodes; a limit of pods of each class, and a score by how many there are."""

    def __init__(self, shape: str, *, copies: bool, normalization: sdk.Normalization = sdk.Normalization.NONE) -> None:
        self.info = sdk.Info(
            "Crowding", depends_on=sdk.Dependency.NODE_PODS, score_copies=copies, normalization=normalization
        )
        self.pods: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.fails_at_copies = False
        self._score_of = BY_PODS[shape]

    def filter(self, call: sdk.Call, node: sdk.Node) -> sdk.Verdict:
        return max(LIMIT - self.pods[node.name], 0) or sdk.unschedulable("crowded")

    def score_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> list[int]:
        self.calls["copies" if call.added_pods else "score"] += 1
        if call.added_pods and self.fails_at_copies:
            raise OSError("down")
        return [self._score_of(self.pods[node.name] + len(call.added_pods), int(node.name[1:])) for node in nodes]


@asynccontextmanager
async def cluster_with(folder: Path, plugin: Crowding) -> AsyncIterator[RecordedCluster]:
    """Six nodes of 4 CPUs that the plugin judges."""
    async with on_the_sdk(plugin, folder) as address:
        info = await remote_client.handshake("Crowding", address, deadline_seconds=10)
        config = snapshot_pb2.RemotePlugin(name="Crowding", endpoints=[address], deadline_ms=20_000, info=info)
        cluster = await RecordedCluster(6, config).open()
        try:
            yield cluster
        finally:
            await cluster.remotes.connections.close()


async def place(cluster: RecordedCluster, plugin: Crowding, number: int, pods: int, at_once: int) -> list[str]:
    """Place pods of the class, at most so many by one answer; the nodes in order."""
    hosts: list[str] = []
    while len(hosts) < pods:
        wanted = min(at_once, pods - len(hosts))
        filtered = await cluster.filter(number, wanted)
        if filtered.is_refused_everywhere(-1):
            break
        placed: PlaceAnswer = await cluster.evaluators.place(PROFILE, number, wanted, filtered)
        assert placed.failure is None
        names = [cluster.builder.snap.nodes.names[slot] for slot in placed.slots]
        cluster.builder.place(number, *names)
        plugin.pods.update(names)
        hosts += names
    return hosts


@pytest.mark.parametrize("normalization", list(sdk.Normalization)[:3])
@pytest.mark.parametrize("shape", BY_PODS)
async def test_batches_land_as_pods_one_by_one(tmp_path: Path, shape: str, normalization: sdk.Normalization) -> None:
    """Scores that a placement changed would be used as they were: pods pile up where they should spread."""
    single = Crowding(shape, copies=False, normalization=normalization)
    batched = Crowding(shape, copies=True, normalization=normalization)
    found = []
    for plugin, at_once in ((single, 1), (batched, 9)):
        async with cluster_with(tmp_path, plugin) as cluster:
            found.append(
                [await place(cluster, plugin, number, pods, at_once) for number, pods in ((SMALL, 9), (LARGE, 9))]
            )
    assert found[1] == found[0]
    assert len(found[0][0]) == 9
    assert batched.calls["score"] < single.calls["score"] / 2
    assert not single.calls["copies"]


async def test_a_plugin_that_says_nothing_of_copies_has_its_pods_placed_one_by_one(tmp_path: Path) -> None:
    """An older plugin would have a whole batch placed by the scores of its first pod."""
    plugin = Crowding("spreads", copies=False)
    async with cluster_with(tmp_path, plugin) as cluster:
        placed = await cluster.place(SMALL, 5, await cluster.filter(SMALL, 5))
    assert (len(placed.slots), placed.more) == (1, True)


async def test_a_plugin_that_fails_at_copies_has_its_pods_placed_one_by_one(tmp_path: Path) -> None:
    """Pods would fail by a call that only makes them faster."""
    plugin, single = Crowding("spreads", copies=True), Crowding("spreads", copies=False)
    plugin.fails_at_copies = True
    async with cluster_with(tmp_path, plugin) as cluster:
        failing = await place(cluster, plugin, SMALL, 8, 8)
    async with cluster_with(tmp_path, single) as cluster:
        assert failing == await place(cluster, single, SMALL, 8, 1)


async def test_a_call_about_no_copies_is_refused(tmp_path: Path) -> None:
    """An empty answer would be taken for scores."""
    async with (
        on_the_sdk(Crowding("spreads", copies=True), tmp_path) as address,
        aio.insecure_channel(address) as channel,
    ):
        stub: Any = score_pb2_grpc.ScorePluginStub(channel)
        with pytest.raises(aio.AioRpcError) as caught:
            await stub.ScoreCopies(score_copies_pb2.ScoreCopiesRequest(), timeout=10)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details() == "copies: 0, must be at least 1"
