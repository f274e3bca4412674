"""The channel for all calls to phases and plugins: it drains before it closes.

Three properties of grpc.aio make a plain channel unsafe where endpoints come and go and may be of any version:

- Closing a channel raises CancelledError in the callers of pending calls. That looks like a cancellation of the
  caller's own task and ends the task silently. Here such calls fail with UNAVAILABLE, as if the server had stopped, so
  that the caller tries another replica. Cancelling the caller's task still raises CancelledError.
- A call on a closed channel raises UsageError. Here it fails with UNAVAILABLE, too.
- A response that cannot be decoded becomes None, which the caller takes for a message. Here the call fails with
  INTERNAL.

While tracing is on, calls pass on the context of the span that they are a part of.

An interceptor could do the same, but costs a task and two futures per call.

Tests: tests/contract/test_replica_channels.py.
"""

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import grpc
from grpc import aio

from trireme.tracing import spans, trace_context
from trireme_kube.componentbase import supervision

Answer = TypeVar("Answer")
Stub = TypeVar("Stub")

Decode: TypeAlias = Callable[[bytes], Any] | None
"""Decodes a response; None: the response stays bytes."""

CLOSED = "the connection was closed"
UNDECODABLE = "the answer cannot be decoded"


class DrainingChannel(aio.Channel):
    """A channel to one address. It subclasses the abstract `aio.Channel` because that is what generated stubs take."""

    def __init__(self, channel: aio.Channel, *, passes_trace: bool = True) -> None:
        """`passes_trace`: while tracing is on, calls pass on their span; a server in this process knows it anyway."""
        self._channel = channel
        self._passes_trace = passes_trace
        self._refusing = False
        self._in_flight = 0  # calls that have a deadline
        self._last_deadline = 0.0  # of these, in the loop's time
        self._idle = asyncio.Event()
        self._idle.set()
        self._stubs: dict[Callable[[aio.Channel], Any], Any] = {}  # by what makes them

    def stub(self, make: Callable[[aio.Channel], Stub]) -> Stub:
        """The stub of a service on this channel, made once: it has a callable for each of the service's methods."""
        if make not in self._stubs:
            self._stubs[make] = make(self)
        found: Stub = self._stubs[make]
        return found

    @property
    def in_flight(self) -> int:
        """Calls in flight, without streams that have no deadline."""
        return self._in_flight

    async def drain(self) -> None:
        """Refuse new calls, and return once those in flight have ended or reached their deadlines.

        It does not wait for streams without a deadline: they continue until the channel is closed.
        """
        self._refusing = True
        try:
            async with asyncio.timeout_at(self._last_deadline if self._in_flight else None):
                await self._idle.wait()
        except TimeoutError:
            return

    async def close(self, grace: float | None = None) -> None:
        """Close it; pending calls fail with UNAVAILABLE, at once or after `grace` seconds."""
        self._refusing = True
        await self._channel.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """The state of the connection."""
        return self._channel.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """Return once the state of the connection has changed."""
        await self._channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        """Return once it is connected."""
        await self._channel.channel_ready()

    async def __aenter__(self) -> "DrainingChannel":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def unary_unary(
        self, method: str, request_serializer: Any = None, response_deserializer: Decode = None, **named: Any
    ) -> Any:
        """Make the callable of a method with one request and one response; calling it returns a coroutine."""
        call: Any = self._channel.unary_unary(method, request_serializer, None, **named)
        return functools.partial(self._call_unary, call, response_deserializer)

    def stream_unary(
        self, method: str, request_serializer: Any = None, response_deserializer: Decode = None, **named: Any
    ) -> Any:
        """Make the callable of a method with a stream of requests and one response; calling it returns a coroutine."""
        call: Any = self._channel.stream_unary(method, request_serializer, None, **named)
        return functools.partial(self._call_unary, call, response_deserializer)

    def unary_stream(
        self, method: str, request_serializer: Any = None, response_deserializer: Decode = None, **named: Any
    ) -> Any:
        """Make the callable of a method with one request and a stream of responses; calling it returns a Stream."""
        call: Any = self._channel.unary_stream(method, request_serializer, None, **named)
        return functools.partial(self._open_stream, call, response_deserializer)

    def stream_stream(
        self, method: str, request_serializer: Any = None, response_deserializer: Decode = None, **named: Any
    ) -> Any:
        """Make the callable of a method with streams both ways; calling it returns a Stream."""
        call: Any = self._channel.stream_stream(method, request_serializer, None, **named)
        return functools.partial(self._open_stream, call, response_deserializer)

    async def guard(self, awaitable: Awaitable[Answer]) -> Answer:
        """Await a part of a call.

        Raises: AioRpcError with UNAVAILABLE where the channel closed meanwhile.
        """
        try:
            return await awaitable
        except asyncio.CancelledError as error:
            if supervision.is_being_cancelled():
                raise
            raise _closed_channel_error() from error
        except asyncio.InvalidStateError as error:
            if self._refusing:
                raise _closed_channel_error() from error
            raise

    async def _call_unary(self, method: Callable[..., Any], decode: Decode, request: Any = None, **named: Any) -> Any:
        """Make a call with one response, counted for `drain`, and decode the response."""
        self._admit_and_count_call(named.get("timeout"))
        if spans.recorder is not None and self._passes_trace:
            named["metadata"] = _with_trace_context(named.get("metadata"))
        try:
            return _decode_response(await self.guard(method(request, **named)), decode)
        finally:
            self._count_call_ended(named.get("timeout"))

    def _open_stream(self, method: Callable[..., Any], decode: Decode, request: Any = None, **named: Any) -> "Stream":
        """Begin a call with a stream of responses, counted for `drain` if it has a deadline."""
        timeout = named.get("timeout")
        self._admit_and_count_call(timeout)
        if spans.recorder is not None and self._passes_trace:
            named["metadata"] = _with_trace_context(named.get("metadata"))
        try:
            call = method(request, **named)
        except BaseException:
            self._count_call_ended(timeout)
            raise
        call.add_done_callback(lambda _: self._count_call_ended(timeout))
        return Stream(self, call, decode)

    def _admit_and_count_call(self, timeout: float | None) -> None:
        """Count a call that begins, if it has a deadline.

        Raises: AioRpcError with UNAVAILABLE while the channel drains or is closed.
        """
        if self._refusing:
            raise _closed_channel_error()
        if timeout is not None:
            self._in_flight += 1
            self._last_deadline = max(self._last_deadline, asyncio.get_running_loop().time() + timeout)
            self._idle.clear()

    def _count_call_ended(self, timeout: float | None) -> None:
        """Count a call that has ended."""
        if timeout is not None:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()


class Stream:
    """A call with a response stream, read by `read` or by iteration."""

    __slots__ = ("_call", "_channel", "_decode")

    def __init__(self, channel: DrainingChannel, call: Any, decode: Decode) -> None:
        self._channel = channel
        self._call = call
        self._decode = decode

    async def read(self) -> Any:
        """The next message, `aio.EOF` after the last. Raises: AioRpcError, which ends the call."""
        answer = await self._channel.guard(self._call.read())
        if answer is aio.EOF:
            return answer
        try:
            return _decode_response(answer, self._decode)
        except aio.AioRpcError:
            self._call.cancel()
            raise

    async def write(self, message: Any) -> None:
        """Send a message. Raises: AioRpcError; InvalidStateError where the call has ended."""
        await self._channel.guard(self._call.write(message))

    def cancel(self) -> bool:
        """End the call; whether it was under way."""
        cancelled: bool = self._call.cancel()
        return cancelled

    async def __aiter__(self) -> AsyncIterator[Any]:
        while (message := await self.read()) is not aio.EOF:
            yield message


def _with_trace_context(metadata: Iterable[tuple[str, str | bytes]] | None) -> Sequence[tuple[str, str | bytes]]:
    """The metadata of a call, with the span that it is a part of."""
    context = trace_context.current.get()
    return (*(metadata or ()), *(() if context is None else ((trace_context.HEADER, context.header()),)))


def _decode_response(answer: Any, decode: Decode) -> Any:
    """Decode a response. Raises: AioRpcError with INTERNAL if it is malformed, as gRPC's other clients do.

    A response of this process (`in_process`) is a message already, which is encoded for callers that want bytes.
    """
    if not isinstance(answer, bytes):
        return answer if decode is not None else answer.SerializeToString()
    if decode is None:
        return answer
    try:
        return decode(answer)
    except Exception as error:  # a decoder may raise anything
        raise aio.AioRpcError(
            grpc.StatusCode.INTERNAL, aio.Metadata(), aio.Metadata(), details=f"{UNDECODABLE}: {error}"
        ) from error


def _closed_channel_error() -> aio.AioRpcError:
    """What a call on a channel raises that is draining or closed."""
    return aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, aio.Metadata(), aio.Metadata(), details=CLOSED)
