"""A call of a simulated gRPC channel: what grpc.aio's core does for its Python classes, as `cygrpc._AioCall`."""

from __future__ import annotations

import asyncio
import marshal
import time
from collections.abc import Callable
from typing import Any, Protocol

import grpc
from grpc._cython import cygrpc

from tests.simulation.simulated_grpc_connection import FrameKind, GrpcConnection, StreamBuffers, frame, value_frame

_CANCELLED = grpc.StatusCode.CANCELLED


class Channel(Protocol):
    """What a call needs of its channel."""

    @property
    def max_send(self) -> int | None:
        """Messages may be so long."""

    @property
    def max_receive(self) -> int | None:
        """Messages may be so long."""

    def begin(self, call: CallCore) -> None:
        """Have `call.connected` called once there is a connection, or fail the call."""

    def forget(self, call: CallCore) -> None:
        """The call is over."""


class CallCore:
    """One call, as cygrpc._AioCall."""

    def __init__(self, channel: Channel, method: bytes, deadline: float | None, *, wait_for_ready: bool) -> None:
        """`deadline` is a time of the wall clock, as grpc.aio makes it."""
        self._loop: Any = asyncio.get_running_loop()
        self._channel = channel
        self._method = method.decode()
        self._deadline = None if deadline is None else self._loop.time() + deadline - time.time()  # noqa: TID251
        self.wait_for_ready = wait_for_ready
        self._connection: GrpcConnection | None = None
        self._number = 0
        self._metadata: Any = ()
        self._unsent: list[tuple[FrameKind, bytes]] = []
        self._buffers = StreamBuffers()
        self._locally_cancelled = False
        self._status: Any = None
        self._initial_metadata: Any = None
        self._callbacks: list[Callable[[], None]] = []
        self._status_waiters: list[asyncio.Future[None]] = []
        self._metadata_waiters: list[asyncio.Future[None]] = []
        self._connection_waiters: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None

    # As cygrpc._AioCall: the state

    def done(self) -> bool:
        """Whether the call is over."""
        return self._status is not None

    def is_ok(self) -> bool:
        """Whether it ended well."""
        return self._status is not None and self._status.code() == 0

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._status is not None and self._status.code() == _CANCELLED.value[0]

    def is_locally_cancelled(self) -> bool:
        """Whether it was cancelled here."""
        return self._locally_cancelled

    def cancel(self, details: str) -> None:
        """Cancel it."""
        self._locally_cancelled = True
        self._send(frame(FrameKind.CANCEL, self._number))
        self.finish(_CANCELLED, details)

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        """Call it when the call is over."""
        if self.done():
            callback()
        else:
            self._callbacks.append(callback)

    def time_remaining(self) -> float | None:
        """Seconds to the deadline."""
        return None if self._deadline is None else max(self._deadline - self._loop.time(), 0.0)

    async def status(self) -> Any:
        """The status, once there is one."""
        while self._status is None:
            await self._wait(self._status_waiters)
        return self._status

    async def initial_metadata(self) -> Any:
        """The server's first metadata, once they came or the call is over."""
        while self._initial_metadata is None and self._status is None:
            await self._wait(self._metadata_waiters)
        return self._initial_metadata or ()

    def set_internal_error(self, text: str) -> None:
        """A part of the call failed without a status."""
        self.finish(grpc.StatusCode.INTERNAL, text)

    # As cygrpc._AioCall: sending and receiving

    async def unary_unary(self, request: bytes, metadata: Any, context: Any) -> Any:
        """Send a request; the response, or None."""
        self._begin(metadata, request)
        await self.status()
        return await self._buffers.read()

    async def stream_unary(self, metadata: Any, on_metadata_sent: Callable[[], None], context: Any) -> Any:
        """Begin to send a stream; the response, or None."""
        self._begin(metadata)
        await self._connected()
        on_metadata_sent()
        await self.status()
        return await self._buffers.read()

    async def initiate_unary_stream(self, request: bytes, metadata: Any, context: Any) -> None:
        """Send a request; returns with the server's first metadata."""
        self._begin(metadata, request)
        await self.initial_metadata()

    async def initiate_stream_stream(self, metadata: Any, on_metadata_sent: Callable[[], None], context: Any) -> None:
        """Begin to send a stream; returns with the server's first metadata."""
        self._begin(metadata)
        await self._connected()
        on_metadata_sent()
        await self.initial_metadata()

    async def send_serialized_message(self, message: bytes) -> None:
        """Send a message of a stream."""
        if self._too_long(message):
            return
        if not await self._buffers.take_room(len(message)):
            raise cygrpc.InternalError("the call is over")
        self._send(frame(FrameKind.MESSAGE, self._number, message))

    async def receive_serialized_message(self) -> Any:
        """The next message, or EOF."""
        message = await self._buffers.read()
        if message is None:
            return cygrpc.EOF
        if count := self._buffers.bytes_to_report(len(message)):
            self._send(value_frame(FrameKind.CONSUMED, self._number, count))
        return message

    async def send_receive_close(self) -> None:
        """End the stream of requests."""
        self._send(frame(FrameKind.HALF_CLOSE, self._number))

    # For the channel

    def connected(self, connection: GrpcConnection, number: int) -> None:
        """Send what is to be sent over this connection."""
        self._connection, self._number = connection, number
        connection.streams[number] = self
        opening = value_frame(
            FrameKind.CALL, number, (self._method, self.time_remaining(), tuple(map(tuple, self._metadata)))
        )
        connection.send(opening + b"".join(frame(kind, number, payload) for kind, payload in self._unsent))
        self._wake(self._connection_waiters)

    def on_frame(self, kind: FrameKind, payload: bytes) -> None:
        """A frame of this call came."""
        if kind is FrameKind.CONSUMED:
            self._buffers.consumed(marshal.loads(payload))
        elif kind is FrameKind.INITIAL_METADATA:
            self._set_initial_metadata(marshal.loads(payload))
        elif kind is FrameKind.MESSAGE:
            limit = self._channel.max_receive
            if limit is not None and len(payload) > limit:
                self._send(frame(FrameKind.CANCEL, self._number))
                text = f"CLIENT: Received message larger than max ({len(payload)} vs. {limit})"
                self.finish(grpc.StatusCode.RESOURCE_EXHAUSTED, text)
            else:
                self._buffers.receive(payload)
        elif kind is FrameKind.STATUS:
            code, details, trailing = marshal.loads(payload)
            self._finish(code, details, trailing)

    def finish(self, code: grpc.StatusCode, details: str) -> None:
        """End the call, unless it has ended."""
        self._finish(code.value[0], details, ())

    # Own

    def _begin(self, metadata: Any, request: bytes | None = None) -> None:
        if self.done():
            return
        self._metadata = metadata
        remaining = self.time_remaining()
        if remaining is not None:
            self._timer = self._loop.call_later(remaining, self._on_deadline)
        if request is not None:
            if self._too_long(request):
                return
            self._unsent = [(FrameKind.MESSAGE, request), (FrameKind.HALF_CLOSE, b"")]
        self._channel.begin(self)

    def _too_long(self, message: bytes) -> bool:
        limit = self._channel.max_send
        if limit is None or len(message) <= limit:
            return False
        text = f"CLIENT: Sent message larger than max ({len(message)} vs. {limit})"
        self._send(frame(FrameKind.CANCEL, self._number))
        self.finish(grpc.StatusCode.RESOURCE_EXHAUSTED, text)
        return True

    def _on_deadline(self) -> None:
        self._send(frame(FrameKind.CANCEL, self._number))
        self.finish(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")

    def _send(self, data: bytes) -> None:
        if self._connection is not None and not self.done():
            self._connection.send(data)

    def _set_initial_metadata(self, metadata: Any) -> None:
        if self._initial_metadata is None:
            self._initial_metadata = metadata
            self._wake(self._metadata_waiters)

    def _finish(self, code: int, details: str, trailing: Any) -> None:
        if self._status is not None:
            return
        self._status = cygrpc.AioRpcStatus(code, details, tuple(trailing), "")
        if self._initial_metadata is None:
            self._initial_metadata = ()
        if self._timer is not None:
            self._timer.cancel()
        self._channel.forget(self)
        if self._connection is not None:
            self._connection.streams.pop(self._number, None)
        self._buffers.close()
        for waiting in (self._connection_waiters, self._metadata_waiters, self._status_waiters):
            self._wake(waiting)
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    async def _connected(self) -> None:
        while self._connection is None and self._status is None:
            await self._wait(self._connection_waiters)

    async def _wait(self, waiting: list[asyncio.Future[None]]) -> None:
        future: asyncio.Future[None] = self._loop.create_future()
        waiting.append(future)
        await future

    @staticmethod
    def _wake(waiting: list[asyncio.Future[None]]) -> None:
        while waiting:
            future = waiting.pop(0)
            if not future.done():
                future.set_result(None)
