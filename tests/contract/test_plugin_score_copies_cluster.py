"""A score that reads the cluster, which does not have the copies of a pod, is no score with copies."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from grpc import aio

from tests.contract.plugin_servers import on_the_sdk
from trireme import sdk
from trireme.v1 import (
    core_pb2,
    cycle_pb2,
    filter_pb2,
    meta_pb2,
    plugin_pb2,
    plugin_pb2_grpc,
    score_copies_pb2,
    score_pb2,
    score_pb2_grpc,
    snapshot_pb2,
    snapshot_pb2_grpc,
    status_pb2,
)

SECONDS = 20.0
FENCE = cycle_pb2.Fence(epoch=1, scheduler_id="one")
# By the number of pods.
SCORES = [100, 90, 80, 70]


class Crowd:
    """Scores by the pods of a node, which it finds as `reads` says."""

    def __init__(self, reads: str, score_copies: bool | None = None) -> None:
        self.reads = reads
        self.info = sdk.Info(
            "Crowd", depends_on=sdk.Dependency.NODE_PODS, node_data=sdk.NodeData.SNAPSHOT, score_copies=score_copies
        )

    def score(self, call: sdk.Call, node: sdk.Node) -> int:
        assert call.cluster is not None
        assert not call.added_pods
        if self.reads == "node.pods":
            return SCORES[len(node.pods)]
        if self.reads == "cluster.nodes":
            names = [each.metadata.name for each in call.cluster.nodes.values()]
            return SCORES[len(node.pods)] - names.index(node.name)
        try:
            return SCORES[len(call.cluster.pods_on(0))]
        except Exception:  # An author's own way to deal with what cannot be read.
            return 0


@asynccontextmanager
async def followed(plugin: Any, folder: Path) -> AsyncIterator[aio.Channel]:
    """A channel to the plugin, which follows a cluster of one empty node."""
    async with on_the_sdk(plugin, folder) as address, aio.insecure_channel(address) as channel:
        sync: Any = snapshot_pb2_grpc.SnapshotFollowerStub(channel)
        stream = sync.Sync(timeout=SECONDS)
        hello = snapshot_pb2.Hello(fence=FENCE, configuration=snapshot_pb2.Configuration())
        await stream.write(snapshot_pb2.SyncRequest(hello=hello))
        node = core_pb2.Node(metadata=meta_pb2.ObjectMeta(name="n0"))
        delta = snapshot_pb2.Delta(
            reset=True,
            to_generation=1,
            nodes=[snapshot_pb2.NodeEntry(slot=0, node=node)],
            classes=[snapshot_pb2.PodClass(id=1, pod=core_pb2.Pod())],
        )
        await stream.write(snapshot_pb2.SyncRequest(delta=delta))
        await stream.read()
        yield channel
        stream.cancel()


async def copies(channel: aio.Channel) -> score_copies_pb2.ScoreCopiesResponse:
    """What the node scores with one, two and three copies."""
    stub: Any = score_pb2_grpc.ScorePluginStub(channel)
    cycle = cycle_pb2.Cycle(fence=FENCE, generation=1, profile="p", pod_class=1)
    request = score_copies_pb2.ScoreCopiesRequest(cycle=cycle, nodes=filter_pb2.NodeSelection(slots=[0]), copies=3)
    response: score_copies_pb2.ScoreCopiesResponse = await stub.ScoreCopies(request, timeout=SECONDS)
    return response


async def score(channel: aio.Channel) -> list[int]:
    """What the node scores as it is."""
    stub: Any = score_pb2_grpc.ScorePluginStub(channel)
    cycle = cycle_pb2.Cycle(fence=FENCE, generation=1, profile="p", pod_class=1)
    request = score_pb2.ScoreRequest(cycle=cycle, nodes=filter_pb2.NodeSelection(slots=[0]))
    return list((await stub.Score(request, timeout=SECONDS)).scores)


async def announced(channel: aio.Channel) -> bool:
    """Whether the plugin says that it scores copies."""
    stub: Any = plugin_pb2_grpc.PluginServiceStub(channel)
    answer = await stub.GetPluginInfo(plugin_pb2.GetPluginInfoRequest(features=["score-copies"]), timeout=SECONDS)
    return bool(answer.plugins[0].score_copies)


async def test_copies_are_among_the_pods_of_the_node_and_nowhere_else(tmp_path: Path) -> None:
    """A score that counts the pods of the node and the added ones would count each copy twice."""
    async with followed(Crowd("node.pods"), tmp_path) as channel:
        assert await announced(channel)
        assert list((await copies(channel)).scores) == SCORES[1:]


async def test_a_score_that_reads_pods_in_the_cluster_answers_no_copies(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It has no copies there, so all pods of a batch would pile up on the best node, and nothing would say so."""
    caplog.set_level(logging.WARNING)
    async with followed(Crowd("cluster.pods_on"), tmp_path) as channel:
        answers = [await copies(channel) for _ in range(2)]
        assert await score(channel) == [100]
    for answer in answers:
        assert (answer.status.code, answer.status.plugin, list(answer.scores)) == (status_pb2.CODE_ERROR, "Crowd", [])
        [text] = answer.status.messages
        assert "score used call.cluster.pods_on" in text
        assert "set Info.score_copies to True" in text
    assert [each.getMessage() for each in caplog.records if "ScoreCopies" in each.getMessage()] == [
        f"plugin Crowd: {text}"
    ]


async def test_an_author_who_says_so_may_read_the_cluster(tmp_path: Path) -> None:
    """Who looks up nodes there would be slow for nothing; who counts pods there has to be able to switch it off."""
    async with followed(Crowd("cluster.nodes"), tmp_path) as channel:
        assert "used call.cluster.nodes" in (await copies(channel)).status.messages[0]
    async with followed(Crowd("cluster.nodes", True), tmp_path) as channel:
        assert await announced(channel)
        assert list((await copies(channel)).scores) == SCORES[1:]
    async with followed(Crowd("cluster.pods_on", False), tmp_path) as channel:
        assert not await announced(channel)
