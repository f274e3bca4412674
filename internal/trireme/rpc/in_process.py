"""Calls to services in this process: a server without a socket, and the channel to it.

A request is handed to its handler, and the answer to the caller, as the messages that they are: nothing is encoded,
and a call with one answer runs in its caller's task. A call with a stream of answers has a task of its own, and a copy
of the request: its caller may change that for the next call while work that this one began goes on. Deadlines, status
codes and streams are those of grpc.aio, as far as the phases use them.

The address of a server is the text `in-process:NAME` for people, and has the server for those that dial it.

Tests: tests/unit/rpc/test_in_process.py, tests/contract/test_local_phases.py.
"""

import abc
import asyncio
import collections
import contextlib
import functools
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, cast

import grpc
from grpc import aio

from trireme.tracing import server_spans, spans, trace_context

log = logging.getLogger(__name__)

UNREAD_REQUESTS = 16
"""How many messages of a stream may wait for its handler before their writer waits."""


class Address(str):
    """The address of a server in this process."""

    __slots__ = ("server",)
    server: "InProcessServer"

    def __new__(cls, name: str, server: "InProcessServer") -> "Address":
        """The text is for people."""
        made = super().__new__(cls, f"in-process:{name}")
        made.server = server
        return made


class InProcessServer:
    """The handlers of services, which are added as to gRPC's server. They can be called from `start` to `stop`."""

    def __init__(self, name: str) -> None:
        self.address = Address(name, self)
        self.serving = False
        self._handlers: dict[str, Any] = {}
        # Under way, those with one request.
        self._calls: set[_Call] = set()
        self._idle = asyncio.Event()
        # Set, and replaced, where `serving` changes.
        self._changed = asyncio.Event()

    def add(self, add_to: Callable[[aio.Server], None]) -> None:
        """Add the handlers of a service. Generated code uses no more of a server than the next two methods."""
        add_to(cast(aio.Server, self))

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Sequence[Any]) -> None:
        """As gRPC's; generated code adds the same handlers by name."""

    def add_registered_method_handlers(self, service_name: str, method_handlers: Mapping[str, Any]) -> None:
        """As gRPC's: add the methods of a service, by name."""
        for name, handler in method_handlers.items():
            self._handlers[f"/{service_name}/{name}"] = handler

    def start(self) -> None:
        """Take calls."""
        self._set_serving(True)

    async def stop(self, grace: float) -> None:
        """Take no more calls, and return once those under way have ended: after `grace` seconds as UNAVAILABLE.

        If this is cancelled they end at once.
        """
        self._set_serving(False)
        if not self._calls:
            return
        self._idle.clear()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self._idle.wait()
        finally:
            for call in self._calls:
                call.end_by_server()
            await self._idle.wait()

    def _set_serving(self, serving: bool) -> None:
        self.serving = serving
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def until_changed(self) -> None:
        """Return once it takes calls, or no more: whichever is the change."""
        await self._changed.wait()

    @contextlib.contextmanager
    def under_way(self, call: "_Call") -> Iterator[None]:
        """Have `stop` wait for the call within the context."""
        self._calls.add(call)
        try:
            yield
        finally:
            self._calls.discard(call)
            if not self._calls:
                self._idle.set()

    def handler(self, method: str) -> Any:
        """The handler of a method, in the trace of the caller, whose context it runs in; None: there is none."""
        handler = self._handlers.get(method)
        caller = None if spans.recorder is None else trace_context.current.get()
        if handler is None or caller is None:
            return handler
        return server_spans.traced_handler(handler, method, caller)


class InProcessChannel(aio.Channel):
    """The channel to a server of this process.

    It has all methods, as `aio.Channel` is abstract; those that nothing calls here are not offered.
    """

    def __init__(self, server: InProcessServer) -> None:
        self._server = server
        self._streams: set[_Responses] = set()

    def unary_unary(self, method: str, *_: Any, **__: Any) -> Any:
        """Make the callable of a method with one request and one response; calling it returns a coroutine."""
        return functools.partial(self._call, method)

    def stream_stream(self, method: str, request_serializer: Any = None, *_: Any, **__: Any) -> Any:
        """Make the callable of a method with streams both ways; calling it returns the call.

        Requests are encoded, as they may be bytes already.
        """
        return functools.partial(self._open_stream, method, request_serializer)

    def unary_stream(self, method: str, *_: Any, **__: Any) -> Any:
        """Make the callable of a method with one request and a stream of responses; calling it returns the call."""
        return functools.partial(self._open_responses, method)

    def stream_unary(self, method: str, *_: Any, **__: Any) -> NoReturn:
        """Not offered: no phase has such a method."""
        raise NotImplementedError(method)

    async def _call(self, method: str, request: Any, timeout: float | None = None, **_: Any) -> Any:
        """Have the handler answer. Raises: AioRpcError."""
        handler = self._handler(method)
        call = _Call(timeout)
        try:
            with self._server.under_way(call):
                async with call.limit:
                    return await handler.unary_unary(request, call)
        except Exception as error:  # a status of a call that the handler made is none of this call
            raise call.status_of(method, error) from error

    def _open_stream(self, method: str, serialize: Callable[[Any], bytes], *_: Any, **__: Any) -> "_Stream":
        stream = _Stream(serialize, functools.partial(self._handler, method), method)
        self._keep(stream)
        return stream

    def _open_responses(self, method: str, request: Any, timeout: float | None = None, **_: Any) -> "_ResponsesToOne":
        copied = type(request)()
        copied.CopyFrom(request)
        find = functools.partial(self._handler, method)
        stream = _ResponsesToOne(copied, find, method, self._server, _Call(timeout))
        self._keep(stream)
        return stream

    def _keep(self, stream: "_Responses") -> None:
        """Have `close` end it, until it ends."""
        self._streams.add(stream)
        stream.task.add_done_callback(lambda _: self._streams.discard(stream))

    def _handler(self, method: str) -> Any:
        """The method's handler. Raises: AioRpcError."""
        if not self._server.serving:
            raise _error(grpc.StatusCode.UNAVAILABLE, f"nothing is served at {self._server.address}")
        handler = self._server.handler(method)
        if handler is None:
            raise _error(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        return handler

    async def close(self, grace: float | None = None) -> None:
        """End the streams. Other calls end with their callers' tasks."""
        for stream in list(self._streams):
            stream.cancel()

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """Whether calls are taken."""
        states = grpc.ChannelConnectivity
        return states.READY if self._server.serving else states.TRANSIENT_FAILURE

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """Return once calls are taken, or no more, unlike then."""
        while self.get_state() == last_observed_state:
            await self._server.until_changed()

    async def channel_ready(self) -> None:
        """Return: there is nothing to connect."""

    async def __aenter__(self) -> "InProcessChannel":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _Call:
    """What a handler sees of a call, as gRPC's ServicerContext."""

    def __init__(self, timeout: float | None) -> None:
        #: Ends the handler at the deadline.
        self.limit = asyncio.timeout(timeout)
        self._aborted: aio.AioRpcError | None = None
        self._ended_by_server = False

    def end_by_server(self) -> None:
        """End the handler now, as the server stops; one whose deadline has passed ends already."""
        if not self.limit.expired():
            self._ended_by_server = True
            self.limit.reschedule(asyncio.get_running_loop().time())

    def time_remaining(self) -> float | None:
        """Seconds until the deadline; None: there is none."""
        deadline = self.limit.when()
        return None if deadline is None else max(deadline - asyncio.get_running_loop().time(), 0.0)

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Sequence[Any] = ()) -> NoReturn:
        """End the call with a status. Raises: AbortError, always."""
        self._aborted = _error(code, details, trailing_metadata)
        raise aio.AbortError(code, details)

    def status_of(self, method: str, error: Exception) -> aio.AioRpcError:
        """What the caller gets where the handler ended by this error."""
        if isinstance(error, aio.AbortError) and self._aborted is not None:
            return self._aborted
        if self._ended_by_server:
            return _error(grpc.StatusCode.UNAVAILABLE, "Server shutting down")
        if self.limit.expired():
            return _error(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
        log.error("%s failed: %s; the pods of the call are tried again", method, error, exc_info=error)
        return _error(grpc.StatusCode.UNKNOWN, f"Unexpected {type(error)}: {error}")


class _Responses(abc.ABC):
    """A call with a stream of responses: the caller's end. Its handler, which `find` returns, runs in a task."""

    def __init__(self, find: Callable[[], Any], method: str, call: _Call) -> None:
        self._responses: collections.deque[Any] = collections.deque()
        # Set when there is a response, or the call has ended.
        self._readable = asyncio.Event()
        self._ended = False
        self._error: aio.AioRpcError | None = None
        self.task = asyncio.create_task(self._run(find, method, call))
        # Not in the task, which does nothing at all where it is cancelled before it begins.
        self.task.add_done_callback(self._on_end)

    async def _run(self, find: Callable[[], Any], method: str, call: _Call) -> None:
        try:
            handler = find()
        except aio.AioRpcError as error:
            self._error = error
            return
        try:
            await self._answer(handler, call)
        except Exception as error:
            self._error = self._error or call.status_of(method, error)

    @abc.abstractmethod
    async def _answer(self, handler: Any, call: _Call) -> None:
        """Have the handler respond, to the end of the call."""

    def _on_end(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            self._error = self._error or _error(grpc.StatusCode.CANCELLED, "Locally cancelled by application!")
        self._ended = True
        self._readable.set()

    def respond(self, response: Any) -> None:
        """Add a response."""
        self._responses.append(response)
        self._readable.set()

    async def read(self) -> Any:
        """The next response, `aio.EOF` after the last. The call ends with a reader that is cancelled.

        Raises: AioRpcError.
        """
        while not self._responses:
            if self._ended:
                if self._error is not None:
                    raise self._error
                return aio.EOF
            self._readable.clear()
            try:
                await self._readable.wait()
            except asyncio.CancelledError:
                self.cancel()
                raise
        return self._responses.popleft()

    def cancel(self) -> bool:
        """End the call; whether it was under way."""
        return self.task.cancel()

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Have this called when the call has ended."""
        self.task.add_done_callback(callback)


class _ResponsesToOne(_Responses):
    """A call with one request and a stream of responses."""

    def __init__(
        self, request: Any, find: Callable[[], Any], method: str, server: InProcessServer, call: _Call
    ) -> None:
        self._request = request
        self._server = server
        super().__init__(find, method, call)

    async def _answer(self, handler: Any, call: _Call) -> None:
        with self._server.under_way(call):
            async with call.limit, contextlib.aclosing(handler.unary_stream(self._request, call)) as responses:
                async for response in responses:
                    self.respond(response)


class _Stream(_Responses):
    """A call with streams both ways."""

    def __init__(self, serialize: Callable[[Any], bytes], find: Callable[[], Any], method: str) -> None:
        self._serialize = serialize
        self._requests: asyncio.Queue[bytes] = asyncio.Queue(UNREAD_REQUESTS)
        super().__init__(find, method, _StreamCall(self))

    async def _answer(self, handler: Any, call: _Call) -> None:
        await handler.stream_stream(self._read_requests(handler.request_deserializer), call)

    async def _read_requests(self, decode: Callable[[bytes], Any]) -> AsyncIterator[Any]:
        while True:
            yield decode(await self._requests.get())
            # Many may be there, each with a megabyte to apply: others have their turn between them.
            await asyncio.sleep(0)

    def abort(self, error: aio.AioRpcError) -> None:
        """End the call by this; the handler is cancelled, unless it is the one that aborts."""
        self._error = error
        if asyncio.current_task() is not self.task:
            self.task.cancel()

    async def write(self, message: Any) -> None:
        """Send a message; waits while many are unread. Raises: InvalidStateError where the call has ended."""
        if self.task.done():
            raise asyncio.InvalidStateError("RPC already finished.")
        await self._requests.put(self._serialize(message))


class _StreamCall(_Call):
    """What the handler of a stream sees of the call."""

    def __init__(self, stream: _Stream) -> None:
        super().__init__(None)
        self._stream = stream

    async def write(self, message: Any) -> None:
        """Send a response."""
        self._stream.respond(message)

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Sequence[Any] = ()) -> NoReturn:
        """End the call with a status, from whichever task. Raises: AbortError, always."""
        self._stream.abort(_error(code, details, trailing_metadata))
        raise aio.AbortError(code, details)


def _error(code: grpc.StatusCode, details: str, trailing_metadata: Sequence[Any] = ()) -> aio.AioRpcError:
    return aio.AioRpcError(code, aio.Metadata(), aio.Metadata(*trailing_metadata), details=details)
