"""Simulated gRPC channels: grpc.aio's own Channel and calls, over a core that uses the simulated network.

grpc.aio consists of Python classes over a core in C. The Python classes are kept, so callers see their cancellation,
states and exceptions; `ChannelCore` stands for `cygrpc.AioChannel`, `simulated_grpc_call.CallCore` for its calls.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import grpc
from grpc import aio
from grpc._cython import cygrpc
from grpc.aio import _channel

from tests.simulation import simulated_tls
from tests.simulation.simulated_grpc_call import CallCore
from tests.simulation.simulated_grpc_connection import FrameKind, GrpcConnection, address, frame, limits
from tests.simulation.simulated_tls import Certificates

_IDLE, _CONNECTING, _READY, _FAILURE, _SHUTDOWN = (
    state.value[0]
    for state in (
        grpc.ChannelConnectivity.IDLE,
        grpc.ChannelConnectivity.CONNECTING,
        grpc.ChannelConnectivity.READY,
        grpc.ChannelConnectivity.TRANSIENT_FAILURE,
        grpc.ChannelConnectivity.SHUTDOWN,
    )
)
# Of gRPC's backoff between two attempts to connect.
_BACKOFF_FACTOR, _BACKOFF_JITTER = 1.6, 0.2

_UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


class SimulatedChannel(_channel.Channel):
    """grpc.aio's channel over the simulated network."""

    def __init__(self, target: str, options: Any = None, credentials: Certificates | None = None) -> None:
        self._unary_unary_interceptors = []
        self._unary_stream_interceptors = []
        self._stream_unary_interceptors = []
        self._stream_stream_interceptors = []
        self._loop = asyncio.get_running_loop()
        self._channel = ChannelCore(target, options, credentials)
        self._active_calls = _OrderedCalls()


class _OrderedCalls(dict[Any, None]):
    """Calls in the order in which they began; grpc.aio's own is a weak set, in the order of addresses."""

    def add(self, call: Any) -> None:
        self[call] = None

    def discard(self, call: Any) -> None:
        self.pop(call, None)


class ChannelCore:
    """Connects when a call needs it, and again after a failure with growing delays. Calls that come meanwhile fail."""

    def __init__(self, target: str, options: Any, credentials: Certificates | None) -> None:
        """Without `credentials` connections are plaintext."""
        self._address = address(target)
        self._limits = limits(options)
        self._credentials = credentials
        # Whom the server's certificate has to be for.
        self._server_name = str(dict(options or ()).get("grpc.ssl_target_name_override", self._address[0]))
        self._loop: Any = asyncio.get_running_loop()
        self._state = _IDLE
        self._connection: GrpcConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._settled: asyncio.Future[None] | None = None
        self._last_error = ""
        self._waiting: dict[CallCore, None] = {}  # for a connection
        self._watchers: list[tuple[int, asyncio.Future[bool]]] = []
        self._numbers = itertools.count(1, 2)
        self._closing = self._closed = False

    # As cygrpc.AioChannel

    def call(self, method: bytes, deadline: float | None, *_: Any) -> CallCore:
        """A new call, which is sent by one of its methods."""
        if self._closing or self._closed:
            raise cygrpc.UsageError("Channel is closed.")
        return CallCore(self, method, deadline, wait_for_ready=bool(_[1] if len(_) > 1 else False))

    def get_registered_call_handle(self, method: bytes) -> int:
        """None is registered."""
        return 0

    def check_connectivity_state(self, try_to_connect: bool) -> int:
        """The state; `try_to_connect`: leave idleness."""
        if self._closed:
            return _SHUTDOWN
        if try_to_connect:
            self._connect_if_idle()
        return self._state

    async def watch_connectivity_state(self, last_state: int, deadline: Any) -> bool:
        """Return once the state is another."""
        if self._closing or self._closed:
            raise cygrpc.UsageError("Channel is closed.")
        if self._state != last_state:
            return True
        changed: asyncio.Future[bool] = self._loop.create_future()
        self._watchers.append((last_state, changed))
        return await changed

    def closing(self) -> None:
        """No further calls."""
        self._closing = True

    def closed(self) -> bool:
        """Whether it is closed."""
        return self._closed

    def close(self) -> None:
        """Close the connection."""
        self._closed = True
        if self._loop.is_closed():
            return
        self._set_state(_SHUTDOWN)
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connection is not None:
            self._connection.close()

    # For calls

    @property
    def max_send(self) -> int | None:
        """Messages may be so long."""
        return self._limits.max_send

    @property
    def max_receive(self) -> int | None:
        """Messages may be so long."""
        return self._limits.max_receive

    def begin(self, call: CallCore) -> None:
        """Have `call.connected` called once there is a connection, or fail the call."""
        if self._connection is not None:
            call.connected(self._connection, next(self._numbers))
        elif self._state == _FAILURE and not call.wait_for_ready:
            call.finish(_UNAVAILABLE, self._last_error)
        else:
            self._waiting[call] = None
            self._connect_if_idle()

    def forget(self, call: CallCore) -> None:
        """The call is over."""
        self._waiting.pop(call, None)

    # Connecting

    def _connect_if_idle(self) -> None:
        if self._state == _IDLE and self._connecting is None and not self._closed:
            self._connecting = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        backoff = self._limits.first_backoff
        self._set_state(_CONNECTING)
        try:
            while True:
                started = self._loop.time()
                try:
                    async with asyncio.timeout(self._limits.connect):
                        await self._connect_once()
                except (OSError, TimeoutError) as error:
                    self._fail_waiting(str(error) or "connection attempt timed out")
                else:
                    return
                jitter = 1 + _BACKOFF_JITTER * (2 * self._loop.random.random() - 1)
                await asyncio.sleep(max(started + backoff * jitter - self._loop.time(), 0))
                backoff = min(backoff * _BACKOFF_FACTOR, self._limits.last_backoff)
        finally:
            self._connecting = None

    async def _connect_once(self) -> None:
        """Raises: OSError; TimeoutError also where the server accepts and says nothing."""
        settled = self._settled = self._loop.create_future()
        _, connection = await self._loop.create_connection(
            lambda: GrpcConnection(self._limits, self._on_frame, self._on_lost), *self._address
        )
        if self._credentials is not None:
            connection.send(frame(FrameKind.HELLO, 0))
        try:
            await settled
        except BaseException:
            connection.transport.abort()
            raise
        self._connection = connection
        self._set_state(_READY)
        waiting, self._waiting = self._waiting, {}
        for call in waiting:
            call.connected(connection, next(self._numbers))

    def _fail_waiting(self, text: str) -> None:
        host, port = self._address
        self._last_error = f"failed to connect to all addresses; last error: UNKNOWN: ipv4:{host}:{port}: {text}"
        self._set_state(_FAILURE)
        for call in list(self._waiting):
            if not call.wait_for_ready:
                call.finish(_UNAVAILABLE, self._last_error)

    def _set_state(self, state: int) -> None:
        self._state = state
        watchers, self._watchers = self._watchers, []
        for last, changed in watchers:
            if last == state:
                self._watchers.append((last, changed))
            elif not changed.done():
                changed.set_result(True)

    # The connection

    def _on_frame(self, connection: GrpcConnection, kind: FrameKind, number: int, payload: bytes) -> None:
        if kind in (FrameKind.SETTINGS, FrameKind.CERTIFICATE):
            if self._settled is not None and not self._settled.done():
                self._shake_hands(connection, kind, payload, self._settled)
        elif kind is FrameKind.GOAWAY:
            self._leave(connection)
            if not connection.streams:
                connection.close()
        elif (call := connection.streams.get(number)) is not None:
            call.on_frame(kind, payload)

    def _shake_hands(
        self, connection: GrpcConnection, kind: FrameKind, payload: bytes, settled: asyncio.Future[None]
    ) -> None:
        """Take the server's certificate and show ours, if there is TLS, and be ready once the server is."""
        if kind is FrameKind.CERTIFICATE and self._credentials is not None:
            try:
                self._credentials.check_server(payload, self._server_name)
            except simulated_tls.Untrusted as error:
                settled.set_exception(error)
                return
            connection.send(frame(FrameKind.CERTIFICATE, 0, self._credentials.own))
            connection.has_shaken_hands = True
        elif kind is FrameKind.SETTINGS and connection.has_shaken_hands == (self._credentials is not None):
            settled.set_result(None)
        else:
            settled.set_exception(simulated_tls.Untrusted(simulated_tls.PLAINTEXT))

    def _on_lost(self, connection: GrpcConnection, reason: str) -> None:
        if self._settled is not None and not self._settled.done():
            self._settled.set_exception(ConnectionResetError(reason))
        self._leave(connection)
        for call in list(connection.streams.values()):
            call.finish(_UNAVAILABLE, reason)

    def _leave(self, connection: GrpcConnection) -> None:
        """Further calls need another connection."""
        if self._connection is connection:
            self._connection = None
            if not self._closed:
                self._set_state(_IDLE)


def insecure_channel(target: str, options: Any = None, *_: Any, **__: Any) -> aio.Channel:
    """As grpc.aio.insecure_channel."""
    return SimulatedChannel(target, options)


def secure_channel(target: str, credentials: Any, options: Any = None, *_: Any, **__: Any) -> aio.Channel:
    """As grpc.aio.secure_channel."""
    return SimulatedChannel(target, options, credentials)
