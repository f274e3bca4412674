"""The snapshot streams of the frontend to plugins that follow the cluster."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, cast

import pytest

from trireme.frontend.phase_clients import plugin_streams, replica_link
from trireme.v1 import plugin_pb2, snapshot_pb2
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
        return []


def _configuration(*versions: str) -> snapshot_pb2.Configuration:
    """A plugin that follows the cluster, of each version."""
    return snapshot_pb2.Configuration(
        remote_plugins=[
            snapshot_pb2.RemotePlugin(
                name="P",
                endpoints=["127.0.0.1:1"],
                deadline_ms=100,
                info=plugin_pb2.PluginInfo(name="P", version=version, node_data=plugin_pb2.NODE_DATA_SNAPSHOT),
            )
            for version in versions
        ]
    )


async def test_a_stream_that_is_closed_leaves_no_task() -> None:
    """Broken, every update of such a plugin costs memory for as long as the frontend runs."""
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
    """Broken, a plugin is no longer sent changes, and nobody notices."""

    async def run(_: replica_link.ReplicaLink) -> None:
        raise ArithmeticError("a mistake")

    monkeypatch.setattr(replica_link.ReplicaLink, "run", run)
    streams = plugin_streams.PluginStreams(cast(Any, _Publisher()), time.monotonic)
    streams.configure(_configuration("1"))
    with pytest.raises(supervision.TaskEnded, match=r"127\.0\.0\.1:1.*a mistake"):
        await asyncio.wait_for(streams.supervisor.failure(), 20)
    await streams.close()
