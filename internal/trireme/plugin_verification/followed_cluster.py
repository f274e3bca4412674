"""The snapshot stream towards a plugin that follows the cluster: the sample nodes by slot, and pods on them.

Also change: internal/trireme/frontend/phase_clients/replica_link.py, internal/trireme/remote/plugin_control.py,
internal/trireme/rpc/follower.py (the stream of deltas).
Also change: protos/trireme/v1/snapshot.proto (the service).

Tests: tests/contract/test_plugin_verification.py.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

from grpc import aio

from trireme.plugin_verification import sample_cluster
from trireme.rpc import channels
from trireme.v1 import cycle_pb2, snapshot_pb2

_SYNC = "/trireme.v1.SnapshotFollower/Sync"
FULL_SYNC_GENERATION = 7
"""The generation of the full sync."""


class FollowedCluster:
    """The cluster as the plugin is sent it. Slots are the indices of the sample nodes, classes the pods' from 1."""

    def __init__(
        self,
        channel: channels.DrainingChannel,
        cluster: sample_cluster.SampleCluster,
        fence: cycle_pb2.Fence,
        config_hash: int,
        profile: str,
    ) -> None:
        self.generation = FULL_SYNC_GENERATION
        #: What the plugin has acknowledged, in order.
        self.acknowledgements: list[snapshot_pb2.SyncResponse] = []
        #: Why the stream ended; None while it is open.
        self.failure: aio.AioRpcError | None = None
        self._cluster = cluster
        self._hello = snapshot_pb2.Hello(
            fence=fence,
            config_hash=config_hash,
            configuration=snapshot_pb2.Configuration(profiles=[snapshot_pb2.Profile(scheduler_name=profile)]),
        )
        self._channel = channel
        self._rows = 0
        self._stream: Any = None
        self._reading: asyncio.Task[None] | None = None
        self._acknowledged = asyncio.Condition()

    async def open(self, timeout: float) -> bool:
        """Open the stream and send all nodes, with a pod of the first class on the first one.

        Returns whether the plugin acknowledged them in time.
        """
        self._stream = self._channel.stream_stream(_SYNC, snapshot_pb2.SyncRequest.SerializeToString)()
        self._reading = asyncio.create_task(self._read())
        nodes = [
            snapshot_pb2.NodeEntry(slot=slot, node=node.message, json=node.json)
            for slot, node in enumerate(self._cluster.nodes)
        ]
        full = snapshot_pb2.Delta(
            reset=True,
            to_generation=self.generation,
            classes=[snapshot_pb2.PodClass(id=at + 1, pod=pod) for at, pod in enumerate(self._cluster.pods)],
            nodes=nodes,
            pods=self._place([0]),
        )
        try:
            await self._stream.write(snapshot_pb2.SyncRequest(hello=self._hello))
            await self._stream.write(snapshot_pb2.SyncRequest(delta=full))
        except (aio.AioRpcError, asyncio.InvalidStateError):
            return False  # _read has the reason
        return await self.is_acknowledged(self.generation, timeout)

    async def place_pods(self, slots: Sequence[int], timeout: float) -> bool:
        """Place one more pod of the first class on each of these slots; returns as `open`."""
        delta = snapshot_pb2.Delta(
            from_generation=self.generation, to_generation=self.generation + 1, pods=self._place(slots)
        )
        self.generation += 1
        with contextlib.suppress(aio.AioRpcError, asyncio.InvalidStateError):
            await self._stream.write(snapshot_pb2.SyncRequest(delta=delta))
        return await self.is_acknowledged(self.generation, timeout)

    async def is_acknowledged(self, generation: int, timeout: float) -> bool:
        """Whether the plugin acknowledges this generation, or a later one, in time."""

        def reached() -> bool:
            return self.failure is not None or any(
                each.applied_generation >= generation for each in self.acknowledgements
            )

        async with self._acknowledged:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._acknowledged.wait_for(reached), timeout)
        return reached() and self.failure is None

    async def close(self) -> None:
        """End the stream."""
        if self._reading is not None:
            self._stream.cancel()
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self) -> None:
        """Record the acknowledgements, until the stream ends."""
        try:
            while (data := await self._stream.read()) is not aio.EOF:
                async with self._acknowledged:
                    self.acknowledgements.append(snapshot_pb2.SyncResponse.FromString(data))
                    self._acknowledged.notify_all()
        except aio.AioRpcError as error:
            async with self._acknowledged:
                self.failure = error
                self._acknowledged.notify_all()

    def _place(self, slots: Iterable[int]) -> snapshot_pb2.PodColumns:
        """New pods of the first class on these slots, in new rows."""
        columns = snapshot_pb2.PodColumns()
        for slot in slots:
            columns.row.append(self._rows)
            columns.pod_class.append(1)
            columns.slot.append(slot)
            columns.uid.append(f"placed-{self._rows}")
            columns.name.append(f"placed-{self._rows}")
            columns.start_time_s.append(0)
            columns.flags.append(0)
            self._rows += 1
        return columns
