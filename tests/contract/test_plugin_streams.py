"""The snapshot streams of the frontend to plugins that follow the cluster."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from trireme.frontend.phase_clients import plugin_streams, replica_link
from trireme.rpc import grpc_server, listen_flags
from trireme.v1 import plugin_pb2, snapshot_pb2, snapshot_pb2_grpc
from trireme_kube.componentbase import supervision


class _Publisher:
    def __init__(self) -> None:
        self.followers: list[Any] = []

    def add_followers(self, followers: Any) -> None:
        self.followers.append(followers)

    def remove_followers(self, followers: Any) -> None:
        self.followers.remove(followers)

    def hello(self) -> snapshot_pb2.Hello:
        return snapshot_pb2.Hello()

    def full_sync(self) -> Sequence[bytes]:
        delta = snapshot_pb2.Delta(reset=True, to_generation=3)
        return [snapshot_pb2.SyncRequest(delta=delta).SerializeToString()]


def _configuration(*versions: str, address: str = "127.0.0.1:1") -> snapshot_pb2.Configuration:
    """A plugin that follows the cluster, of each version."""
    return snapshot_pb2.Configuration(
        remote_plugins=[
            snapshot_pb2.RemotePlugin(
                name="P",
                endpoints=[address],
                deadline_ms=100,
                info=plugin_pb2.PluginInfo(name="P", version=version, node_data=plugin_pb2.NODE_DATA_SNAPSHOT),
            )
            for version in versions
        ]
    )


class _Follower(snapshot_pb2_grpc.SnapshotFollowerServicer):
    """A plugin that reads its stream, and acknowledges nothing until it may."""

    def __init__(self) -> None:
        self.acknowledging = asyncio.Event()

    async def Sync(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[snapshot_pb2.SyncResponse]:
        async for request in requests:
            if request.HasField("delta"):
                await self.acknowledging.wait()
                yield snapshot_pb2.SyncResponse(applied_generation=request.delta.to_generation)


async def test_a_plugin_without_the_cluster_is_reported(tmp_path: Path) -> None:
    """If this fails, pods go by what a plugin answers about nodes that it was never sent, and nobody sees that."""
    follower = _Follower()
    service = grpc_server.Service(
        snapshot_pb2.DESCRIPTOR.services_by_name["SnapshotFollower"],
        lambda server: snapshot_pb2_grpc.add_SnapshotFollowerServicer_to_server(follower, server),
    )
    server = grpc_server.ReplicaServer(listen_flags.make_listener(f"unix:{tmp_path}/plugin.sock"), [service])
    address = (await server.start()).text
    streams = plugin_streams.PluginStreams(cast(Any, _Publisher()), time.monotonic)
    reports: list[set[str]] = []
    streams.unsynced_changed = lambda unsynced: reports.append(set(unsynced))
    try:
        configuration = _configuration("1", address=address)
        streams.configure(configuration)
        assert reports == [{"P"}]
        async with asyncio.timeout(20):
            while not streams.statistics()["P"].full_syncs:
                await asyncio.sleep(0.005)
        assert reports == [{"P"}]
        follower.acknowledging.set()
        async with asyncio.timeout(20):
            while len(reports) < 2:
                await asyncio.sleep(0.005)
            assert (streams.statistics()["P"].in_step, streams.statistics()["P"].acknowledged) == (True, 3)
            streams.configure(configuration)
            while len(reports) < 4:
                await asyncio.sleep(0.005)
        streams.configure(_configuration())
        assert reports == [{"P"}, set(), {"P"}, set()]
        assert not streams.statistics()
    finally:
        await streams.close()
        await server.stop(0)


async def test_the_stream_to_a_rejected_plugin_goes_on() -> None:
    """If this fails, a plugin that was left out for lack of the cluster never gets it."""
    now = 100.0
    publisher = _Publisher()
    streams = plugin_streams.PluginStreams(cast(Any, publisher), lambda: now)
    streams.configure(_configuration("1"))
    now += 70
    assert (streams.unsynced_seconds("P"), streams.unsynced_seconds("Another")) == (70, 0)
    streams.configure(_configuration(), lambda plugin: plugin == "P")
    assert (list(streams.statistics()), len(publisher.followers), streams.unsynced_seconds("P")) == (["P"], 1, 70)
    streams.configure(_configuration("2"), lambda plugin: plugin == "P")
    assert (list(streams.statistics()), len(publisher.followers)) == (["P"], 1)
    streams.configure(_configuration())
    assert (dict(streams.statistics()), publisher.followers, streams.unsynced_seconds("P")) == ({}, [], 0)
    await streams.close()


async def test_a_stream_that_is_closed_leaves_no_task() -> None:
    """If this fails, every update of such a plugin costs memory for as long as the frontend runs."""
    before = asyncio.all_tasks()
    publisher = _Publisher()
    streams = plugin_streams.PluginStreams(cast(Any, publisher), time.monotonic)
    for version in range(20):
        streams.configure(_configuration(str(version)))
        await asyncio.sleep(0)
    streams.configure(_configuration())
    async with asyncio.timeout(20):
        while asyncio.all_tasks() - before:
            await asyncio.sleep(0.005)
    assert publisher.followers == []
    assert not streams.statistics()
    await streams.close()


async def test_work_of_a_stream_that_ends_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a plugin is no longer sent changes, and nobody notices."""

    async def run(_: replica_link.ReplicaLink) -> None:
        raise ArithmeticError("a mistake")

    monkeypatch.setattr(replica_link.ReplicaLink, "run", run)
    streams = plugin_streams.PluginStreams(cast(Any, _Publisher()), time.monotonic)
    streams.configure(_configuration("1"))
    with pytest.raises(supervision.TaskEnded, match=r"127\.0\.0\.1:1.*a mistake"):
        await asyncio.wait_for(streams.supervisor.failure(), 20)
    await streams.close()
