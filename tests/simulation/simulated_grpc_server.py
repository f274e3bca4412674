"""Simulated gRPC servers: handlers as grpc.aio calls them, over the simulated network."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import marshal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import grpc
from grpc import aio
from grpc._cython import cygrpc

from tests.simulation import simulated_grpc_connection, simulated_tls
from tests.simulation.simulated_grpc_connection import (
    FrameKind,
    GrpcConnection,
    Limits,
    StreamBuffers,
    frame,
    limits,
    value_frame,
)
from tests.simulation.simulated_tls import Certificates, ServerCredentials

log = logging.getLogger(__name__)

Code = grpc.StatusCode
_ANY_HOST = ("0.0.0.0", "[::]", "")


class CallDetails(NamedTuple):
    """The method and metadata of a call, as handlers are looked up by."""

    method: str
    invocation_metadata: tuple[tuple[str, Any], ...]


class SimulatedServer(aio.Server):
    """A server on the simulated network, as grpc.aio.server makes."""

    def __init__(self, interceptors: Sequence[Any], options: Any, maximum_concurrent_rpcs: int | None) -> None:
        self._handlers: list[Any] = []
        self._interceptors = interceptors
        self._limits = limits(options)
        self._max_calls = maximum_concurrent_rpcs
        self._loop: Any = asyncio.get_running_loop()
        self._listening: list[Any] = []
        self._connections: dict[_ServerConnection, None] = {}
        self._calls: dict[ServerCall, None] = {}
        self._started = self._stopping = False
        self._stopped = asyncio.Event()
        self._calls_ended = asyncio.Event()

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Sequence[Any]) -> None:
        """As grpc.aio's."""
        self._handlers.extend(generic_rpc_handlers)

    def add_registered_method_handlers(self, service_name: str, method_handlers: Any) -> None:
        """The generic handlers have all of them, too."""

    def add_insecure_port(self, address: str) -> int:
        """As grpc.aio's."""
        return self._listen(address, None)

    def add_secure_port(self, address: str, server_credentials: Any) -> int:
        """As grpc.aio's, with credentials of `simulated_tls`."""
        return self._listen(address, server_credentials)

    def _listen(self, address: str, credentials: ServerCredentials | None) -> int:
        host, port = simulated_grpc_connection.address(address)
        try:
            server = self._loop.network.listen(
                lambda: self._connection(credentials), None if host in _ANY_HOST else host, port
            )
        except OSError as error:
            raise RuntimeError(f"Failed to bind to address {address}: {error.strerror}") from error
        self._listening.append(server)
        bound: int = server.getsockname()[1]
        return bound

    async def start(self) -> None:
        """As grpc.aio's."""
        self._started = True
        for connection in self._connections:
            connection.greet()

    async def stop(self, grace: float | None) -> None:
        """As grpc.aio's: refuse calls, wait for those under way, and cancel the rest after `grace` seconds."""
        if self._stopping:
            await self._stopped.wait()
            return
        self._stopping = True
        for server in self._listening:
            server.close()
        for connection in list(self._connections):
            connection.send(frame(FrameKind.GOAWAY, 0))
        if grace and self._calls:
            try:
                async with asyncio.timeout(grace):
                    await self._no_calls()
            except TimeoutError:
                pass
        for call in list(self._calls):
            call.end_by_server()
        await self._no_calls()
        for connection in list(self._connections):
            connection.close()
        self._stopped.set()

    async def wait_for_termination(self, timeout: float | None = None) -> bool:
        """As grpc.aio's."""
        try:
            async with asyncio.timeout(timeout):
                await self._stopped.wait()
        except TimeoutError:
            return True
        return False

    async def _no_calls(self) -> None:
        while self._calls:
            self._calls_ended.clear()
            await self._calls_ended.wait()

    def _connection(self, credentials: ServerCredentials | None) -> GrpcConnection:
        connection = _ServerConnection(self._limits, self._on_frame, self._on_lost, credentials)
        self._connections[connection] = None
        if self._started:
            connection.greet()
        return connection

    def _on_frame(self, connection: GrpcConnection, kind: FrameKind, number: int, payload: bytes) -> None:
        assert isinstance(connection, _ServerConnection)
        if not connection.has_shaken_hands or kind is FrameKind.HELLO:
            connection.shake_hands(kind, payload)
        elif kind is FrameKind.CALL:
            method, remaining, metadata = marshal.loads(payload)
            call = ServerCall(connection, number, CallDetails(method, metadata), remaining)
            connection.streams[number] = call
            if self._stopping:
                call.send_status(Code.UNAVAILABLE, "Server shutting down")
            elif self._max_calls is not None and len(self._calls) >= self._max_calls:
                call.send_status(Code.RESOURCE_EXHAUSTED, "Concurrent RPC limit exceeded!")
            else:
                self._calls[call] = None
                call.start(self._find, self._ended)
        elif (known := connection.streams.get(number)) is not None:
            known.on_frame(kind, payload)

    def _on_lost(self, connection: GrpcConnection, reason: str) -> None:
        assert isinstance(connection, _ServerConnection)
        self._connections.pop(connection, None)
        for call in list(connection.streams.values()):
            call.cancel()

    def _ended(self, call: ServerCall) -> None:
        self._calls.pop(call, None)
        self._calls_ended.set()

    async def _find(self, details: CallDetails) -> Any:
        """The handler of a method, through all interceptors."""

        async def last(details: Any) -> Any:
            return next((found for each in self._handlers if (found := each.service(details)) is not None), None)

        find: Callable[[Any], Awaitable[Any]] = last
        for interceptor in reversed(self._interceptors):
            find = functools.partial(interceptor.intercept_service, find)
        return await find(details)


class _ServerConnection(GrpcConnection):
    """A connection that a server has accepted. Without `credentials` there is no TLS."""

    def __init__(
        self,
        limits: Limits,
        on_frame: Callable[[GrpcConnection, FrameKind, int, bytes], None],
        on_lost: Callable[[GrpcConnection, str], None],
        credentials: ServerCredentials | None,
    ) -> None:
        super().__init__(limits, on_frame, on_lost)
        self._credentials = credentials
        self._in_use: Certificates | None = None  # for this connection, once the client has begun
        #: The client's certificate, PEM; empty: none.
        self.certificate = b""
        self.has_shaken_hands = credentials is None
        self._greets = False

    def greet(self) -> None:
        """Have the client begin calls, as soon as it is connected and TLS is agreed on."""
        self._greets = True
        self._greet_when_possible()

    def _greet_when_possible(self) -> None:
        if self._greets and self.has_shaken_hands and self.transport is not None:
            self.send(frame(FrameKind.SETTINGS, 0))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._greet_when_possible()

    def shake_hands(self, kind: FrameKind, payload: bytes) -> None:
        """Show our certificate, or take the client's; a peer that sends anything else is refused."""
        if self._credentials is not None and kind is FrameKind.HELLO and self._in_use is None:
            self._in_use = self._credentials.for_handshake()
            self.send(frame(FrameKind.CERTIFICATE, 0, self._in_use.own))
        elif self._credentials is not None and kind is FrameKind.CERTIFICATE and self._in_use is not None:
            try:
                self._in_use.check_client(payload, is_required=self._credentials.requires_client)
            except simulated_tls.Untrusted as error:
                log.info("a handshake failed: %s", error)
                self.transport.abort()
                return
            self.certificate, self.has_shaken_hands = payload, True
            self._greet_when_possible()
        else:
            self.transport.abort()


class ServerCall:
    """A call at the server; also its ServicerContext."""

    def __init__(
        self, connection: _ServerConnection, number: int, details: CallDetails, remaining: float | None
    ) -> None:
        """`remaining`: seconds to the deadline."""
        self._loop: Any = asyncio.get_running_loop()
        self._connection = connection
        self._number = number
        self._hash = next(self._loop.numbers)
        self._call_details = details
        self._deadline = None if remaining is None else self._loop.time() + remaining
        self._buffers = StreamBuffers()
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._callbacks: list[Callable[[Any], None]] = []
        self._initial_sent = self._status_sent = self._cancelled = False
        self._abort: BaseException | None = None
        self._code: Any = Code.OK
        self._details = ""
        self._trailing: Any = ()

    def __hash__(self) -> int:
        return self._hash  # so that a set of calls has the same order in each run

    def start(self, find: Callable[[CallDetails], Awaitable[Any]], ended: Callable[[ServerCall], None]) -> None:
        """Run the handler."""
        if self._deadline is not None:
            self._timer = self._loop.call_later(max(self._deadline - self._loop.time(), 0), self.cancel)
        self._task = self._loop.create_task(self._run(find))

        def on_end(_: Any) -> None:
            ended(self)
            if self._timer is not None:
                self._timer.cancel()
            self._connection.streams.pop(self._number, None)
            for callback in self._callbacks:
                callback(self)

        self._task.add_done_callback(on_end)

    def on_frame(self, kind: FrameKind, payload: bytes) -> None:
        """A frame of this call came."""
        if kind is FrameKind.MESSAGE:
            limit = self._connection.limits.max_receive
            if limit is not None and len(payload) > limit:
                text = f"SERVER: Received message larger than max ({len(payload)} vs. {limit})"
                self.send_status(Code.RESOURCE_EXHAUSTED, text)
                self.cancel()
            else:
                self._buffers.receive(payload)
        elif kind is FrameKind.HALF_CLOSE:
            self._buffers.end()
        elif kind is FrameKind.CONSUMED:
            self._buffers.consumed(marshal.loads(payload))
        elif kind is FrameKind.CANCEL:
            self.cancel()

    def cancel(self) -> None:
        """The client is not interested any more, or gone."""
        self._cancelled = True
        self._buffers.close()
        if self._task is not None:
            self._task.cancel()

    def end_by_server(self) -> None:
        """The server ends it."""
        self.send_status(Code.UNAVAILABLE, "Server shutting down")
        self.cancel()

    def send_status(self, code: Any, details: str, trailing: Any = (), *, after: bytes = b"") -> None:
        """End the call for the client, `after` frames that go with it."""
        if self._status_sent:
            return
        self._status_sent = True
        number = code.value[0] if isinstance(code, Code) else int(code)
        plain = tuple((str(key), value) for key, value in trailing or ())
        self._connection.send(after + value_frame(FrameKind.STATUS, self._number, (number, details, plain)))
        self._buffers.close()
        if self._task is None:
            self._connection.streams.pop(self._number, None)

    # The handler

    async def _run(self, find: Callable[[CallDetails], Awaitable[Any]]) -> None:
        try:
            handler = await find(self._call_details)
            if handler is None:
                self.send_status(Code.UNIMPLEMENTED, "Method not found!")
            else:
                await self._handle(handler)
        except asyncio.CancelledError:
            self.send_status(Code.CANCELLED, "Cancelled")
            raise
        except aio.AbortError:
            pass
        except Exception as error:
            if not self._status_sent and not self._cancelled:
                log.exception(
                    "Unexpected [%s] raised by servicer method [%s]", type(error).__name__, self._call_details[0]
                )
            self.send_status(Code.UNKNOWN, f"Unexpected {type(error)}: {error}")

    async def _handle(self, handler: Any) -> None:
        self._decode, self._encode = handler.request_deserializer, handler.response_serializer
        if handler.request_streaming:
            argument: Any = self._requests()
            method = handler.stream_stream if handler.response_streaming else handler.stream_unary
        else:
            message = await self._buffers.read()
            if message is None:
                return
            argument = message if self._decode is None else self._decode(message)
            method = handler.unary_stream if handler.response_streaming else handler.unary_unary
        last = b""
        if not handler.response_streaming:
            response = await method(argument, self)
            self._raise_if_over()
            last = self._initial() + self._message(response)
        elif inspect.isasyncgen(responses := method(argument, self)):
            async for response in responses:
                await self.write(response)
        else:
            await responses
        self.send_status(self._code, self._details, self._trailing, after=last or self._initial())

    async def _requests(self) -> AsyncIterator[Any]:
        while (request := await self.read()) is not aio.EOF:
            yield request

    def _initial(self, metadata: Any = ()) -> bytes:
        if self._initial_sent:
            return b""
        self._initial_sent = True
        return value_frame(
            FrameKind.INITIAL_METADATA, self._number, tuple((str(key), value) for key, value in metadata)
        )

    def _message(self, response: Any) -> bytes:
        data = response if self._encode is None else self._encode(response)
        limit = self._connection.limits.max_send
        if limit is not None and len(data) > limit:
            self.send_status(Code.RESOURCE_EXHAUSTED, f"SERVER: Sent message larger than max ({len(data)} vs. {limit})")
            return b""
        return frame(FrameKind.MESSAGE, self._number, data)

    def _raise_if_over(self) -> None:
        if self._abort is not None:
            raise self._abort
        if self._status_sent:
            raise cygrpc.UsageError("RPC already finished.")
        if self._connection.lost or self._cancelled:
            raise cygrpc.InternalError("the client is gone")

    # As aio.ServicerContext

    async def read(self) -> Any:
        """The next request, or EOF."""
        message = await self._buffers.read()
        if message is None:
            return aio.EOF
        if (count := self._buffers.bytes_to_report(len(message))) and not self._connection.lost:
            self._connection.send(value_frame(FrameKind.CONSUMED, self._number, count))
        return message if self._decode is None else self._decode(message)

    async def write(self, message: Any) -> None:
        """Send a response of a stream."""
        self._raise_if_over()
        data = self._message(message)
        if not await self._buffers.take_room(len(data)):
            self._raise_if_over()
        self._connection.send(self._initial() + data)

    async def send_initial_metadata(self, initial_metadata: Any) -> None:
        """As grpc.aio's."""
        self._raise_if_over()
        self._connection.send(self._initial(initial_metadata))

    async def abort(self, code: Any, details: str = "", trailing_metadata: Any = ()) -> NoReturn:
        """As grpc.aio's."""
        if self._abort is not None:
            raise cygrpc.UsageError("Abort already called!")
        self._abort = aio.AbortError(code, details)
        if self._status_sent or self._cancelled or self._connection.lost:
            raise cygrpc.InternalError("the call is over")
        self.send_status(code, details, trailing_metadata or self._trailing)
        raise self._abort

    def invocation_metadata(self) -> Any:
        """As grpc.aio's."""
        return self._call_details.invocation_metadata

    def auth_context(self) -> dict[str, Any]:
        """As grpc.aio's, as far as the client's names go."""
        return simulated_tls.authentication(self._connection.certificate)

    def peer(self) -> str:
        """The client's address."""
        host, port = self._connection.transport.get_extra_info("peername")
        return f"ipv4:{host}:{port}"

    def time_remaining(self) -> float | None:
        """Seconds to the deadline."""
        return None if self._deadline is None else max(self._deadline - self._loop.time(), 0.0)

    def set_code(self, code: Any) -> None:
        """As grpc.aio's."""
        self._code = code

    def set_details(self, details: str) -> None:
        """As grpc.aio's."""
        self._details = details

    def set_trailing_metadata(self, trailing_metadata: Any) -> None:
        """As grpc.aio's."""
        self._trailing = trailing_metadata

    def cancelled(self) -> bool:
        """Whether the client has cancelled it."""
        return self._cancelled

    def done(self) -> bool:
        """Whether it is over."""
        return self._task is not None and self._task.done()

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """As grpc.aio's."""
        self._callbacks.append(callback)


def server(**named: Any) -> aio.Server:
    """As grpc.aio.server, with arguments by name."""
    return SimulatedServer(named.get("interceptors") or (), named.get("options"), named.get("maximum_concurrent_rpcs"))
