"""A plugin on the Python SDK, served over gRPC, with the clients of the phases that call it."""

import asyncio
import types
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.contract.plugin_servers import fill, on_the_sdk
from trireme import sdk
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.remote import (
    filter_state,
    remote_bind,
    remote_client,
    remote_plugins,
    remote_post_filter,
    remote_queue,
    remote_queue_sort,
    remote_reserve,
)
from trireme.snapshot import classes, snapshot
from trireme.v1 import bind_pb2, bind_phase_pb2, core_pb2, cycle_pb2, meta_pb2, snapshot_pb2
from trireme.wire import node_columns


class Hosts:
    """What the phases have of one plugin."""

    def __init__(self, config: snapshot_pb2.RemotePlugin) -> None:
        self.config = config
        self.snap = snapshot.Snapshot()
        self.remotes = remote_plugins.RemotePlugins(self.snap)
        self.filter = self.remotes.make_filter_plugin(config, "p")
        self.score = self.remotes.make_score_plugin(config, "p")
        self.client = remote_client.connect(config)
        self.queue = remote_queue.RemoteQueuePlugin(self.client)
        self.queue_sort = remote_queue_sort.RemoteQueueSortPlugin(self.client)
        self.reserve = remote_reserve.RemoteReservePlugin(self.client)
        self.post_filter = remote_post_filter.RemotePostFilterPlugin(self.client)
        self.bind = remote_bind.RemoteBindPlugin(self.client)
        self.pod_class: classes.PodClass = fill(self.snap, 4)
        self.table = interfaces.StatusTable()

    async def verdicts(self, state: bytes = b"") -> Any:
        """Filter's answer about all nodes: the entry of each, or the outcome of the call."""
        slots = self.snap.nodes.live_slots()
        answers = filter_state.RemoteFilterState(state)
        failed = await self.filter.prepare(self.pod_class, self.snap, answers, slots, self.table)
        if failed is not None:
            return failed
        answer = self.filter.filter(self.pod_class, self.snap, answers, slots, self.table)
        assert answer.capacity is not None
        return [
            self.table.statuses[index - 1].message if index else capacity
            for index, capacity in zip(answer.index.tolist(), answer.capacity.tolist(), strict=True)
        ]

    async def scores(self) -> Any:
        """Score's answer about all nodes."""
        slots = self.snap.nodes.live_slots()
        prepared = await self.score.prepare(self.pod_class, self.snap, None, slots)
        if prepared.failure is not None or prepared.silent:
            return prepared.failure
        return self.score.score(self.pod_class, self.snap, prepared.state, slots).tolist()

    async def run_post_filter(self, nodes: int, pre_filter: status.Status | None = None) -> Any:
        """What PostFilter says where so many nodes refuse the pod."""
        index, capacity = np.zeros(nodes, dtype=np.int16), np.zeros(nodes, dtype=np.int32)
        refused = node_columns.NodeColumns(0, 0, nodes, None, (), index, capacity)
        cycle = cycle_pb2.Cycle(fence=CYCLE.fence, profile="p", pod_class=self.pod_class.id)
        cycle.pod.metadata.name, cycle.pod.status.nominated_node_name = "preemptor", "node-3"
        context: Any = types.SimpleNamespace(cycle=cycle, pre_filter=pre_filter)
        return await self.post_filter.post_filter(context, self.snap, refused)

    async def close(self) -> None:
        """End all connections."""
        await self.remotes.connections.close()
        await self.client.connection.close()


class Stack:
    """Serves plugins and hands out what the phases have of them; everything ends with the test."""

    def __init__(self, stack: AsyncExitStack, folder: Path) -> None:
        self._stack = stack
        self._folder = folder

    async def host(self, plugin: Any) -> Hosts:
        """Serve the plugin, shake hands, and connect."""
        address = await self._stack.enter_async_context(on_the_sdk(plugin, self._folder))
        info = await remote_client.handshake(plugin.info.name, address, deadline_seconds=10)
        config = snapshot_pb2.RemotePlugin(name=info.name, endpoints=[address], deadline_ms=5000, info=info)
        hosts = Hosts(config)
        self._stack.push_async_callback(hosts.close)
        return hosts


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[Stack]:
    """What a test serves and connects ends with it."""
    async with AsyncExitStack() as entered:
        yield Stack(entered, tmp_path)


POD = core_pb2.Pod(metadata=meta_pb2.ObjectMeta(namespace="shop", name="web-1", labels={"app": "web"}))
CYCLE = cycle_pb2.Cycle(fence=cycle_pb2.Fence(epoch=4), profile="p", pod=POD)


def item(name: str, **states: bytes) -> bind_pb2.BindItem:
    """A pod to bind, with the states of plugins."""
    return bind_pb2.BindItem(
        pod=cycle_pb2.PodIdentity(namespace="shop", name=name, uid=f"uid-{name}"),
        node_name="node-1",
        state=bind_phase_pb2.PluginStates(plugin_states=states).SerializeToString(),
    )


class PerNode:
    """Answers node by node."""

    info = sdk.Info("PerNode", depends_on=sdk.Dependency.NODE_PODS)

    def pre_filter(self, call: sdk.Call) -> sdk.PreFilter:
        return sdk.PreFilter(nodes={"node-1", "node-2"}, state=call.pod.metadata.namespace.encode())

    def filter(self, call: sdk.Call, node: sdk.Node) -> sdk.Verdict:
        if node.name == "node-0":
            return sdk.unschedulable(f"not for {call.state.decode()}", "taken", by="somebody")
        return {"node-1": 3, "node-2": 2**40}.get(node.name)

    async def score(self, call: sdk.Call, node: sdk.Node) -> int:
        await asyncio.sleep(0)
        return int(node.name[-1]) * 10
