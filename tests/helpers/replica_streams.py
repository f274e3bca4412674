"""A link to a replica whose streams a test reads and acknowledges, with a clock that the test moves."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from grpc import aio

from trireme.frontend.phase_clients import replica_link
from trireme.rpc import dialing
from trireme.v1 import snapshot_pb2

DEADLINE = 20.0
"""Seconds that a test waits for what happens at once on an idle machine."""


def delta(generation: int) -> bytes:
    return snapshot_pb2.SyncRequest(delta=snapshot_pb2.Delta(to_generation=generation)).SerializeToString()


class Stream:
    """A stream to a replica that answers what the test says."""

    def __init__(self, most: int | None, refusal: Exception | None = None) -> None:
        """`most`: how many messages are written before `proceed` is called; None: all.

        `refusal`: why the replica ended the stream before the first write.
        """
        self.refusal = refusal
        self.written: list[snapshot_pb2.SyncRequest] = []
        self.full = asyncio.Event()
        self._received = asyncio.Event()
        self._most = most
        self._proceeding = asyncio.Event()
        self._answers: asyncio.Queue[snapshot_pb2.SyncResponse | None] = asyncio.Queue()

    async def write(self, message: bytes) -> None:
        if self.refusal is not None:
            self.end()
            raise asyncio.InvalidStateError("RPC already finished.")
        self.written.append(snapshot_pb2.SyncRequest.FromString(message))
        self._received.set()
        if len(self.written) == self._most:
            self.full.set()
            await self._proceeding.wait()

    def proceed(self) -> None:
        self._proceeding.set()

    def cancel(self) -> None:
        self.end()

    def acknowledge(self, generation: int) -> None:
        """As soon as it is received."""
        self._answers.put_nowait(snapshot_pb2.SyncResponse(applied_generation=generation))

    def end(self) -> None:
        self._answers.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[snapshot_pb2.SyncResponse]:
        while (answer := await self._answers.get()) is not None:
            while not self._has(answer.applied_generation):
                self._received.clear()
                await self._received.wait()
            yield answer
        if self.refusal is not None:
            raise self.refusal

    def _has(self, generation: int) -> bool:
        return any(one.HasField("delta") and one.delta.to_generation >= generation for one in self.written)


class Channel:
    """Opens streams."""

    def __init__(self) -> None:
        self.opened: asyncio.Queue[Stream] = asyncio.Queue()
        #: How many messages the next stream takes before the test has it proceed.
        self.most: int | None = None
        #: Why the replica refuses streams; None: it does not.
        self.refusal: Exception | None = None

    def stream_stream(self, method: str, **serializers: Any) -> Any:
        def open_stream(requests: None) -> Stream:
            stream, self.most = Stream(self.most, self.refusal), None
            self.opened.put_nowait(stream)
            return stream

        return open_stream


class RenewableChannel:
    """A channel to one replica."""

    def __init__(self) -> None:
        self.channel = Channel()

        self.ended: list[str] = []

    def renew(self) -> bool:
        return False

    def error_text(self, error: aio.AioRpcError) -> str:
        return f"{error.code().name}: {error.details()}"

    async def drain(self) -> None:
        self.ended.append("drained")

    async def close(self) -> None:
        self.ended.append("closed")


class Dialer(dialing.Dialer):
    """Has one channel."""

    def __init__(self) -> None:
        super().__init__()
        self.only = RenewableChannel()

    def open(self, address: str, options: Sequence[tuple[str, Any]]) -> Any:
        return self.only


class Source:
    """An empty cluster; each Hello has the configuration of its moment."""

    def __init__(self) -> None:
        self.config_hash = 1
        self.chunks = [delta(0)]

    def hello(self) -> snapshot_pb2.Hello:
        return snapshot_pb2.Hello(config_hash=self.config_hash)

    def full_sync(self) -> Sequence[bytes]:
        return self.chunks


class Setting:
    """A link with its replica and a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.source = Source()
        self.notified: asyncio.Queue[bool] = asyncio.Queue()
        dialer = Dialer()
        self.connection = dialer.only
        self.channel = dialer.only.channel
        self.opened = self.channel.opened
        self.link = replica_link.ReplicaLink("replica", self.source, dialer, lambda: self.now, self._changed)

    def _changed(self) -> None:
        self.notified.put_nowait(self.link.in_step)

    async def in_step(self) -> Stream:
        """The next stream, once its full sync is acknowledged."""
        stream = await self.opened.get()
        stream.acknowledge(0)
        while not await self.notified.get():
            pass
        return stream


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[Setting]:
    """A link that runs until the test ends."""
    setting = Setting()
    task = asyncio.create_task(setting.link.run())
    try:
        async with asyncio.timeout(DEADLINE):
            yield setting
    finally:
        task.cancel()
        await asyncio.wait({task})
