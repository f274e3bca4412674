"""Calls within the process end as those of grpc.aio do: by answers, statuses, deadlines and cancellations."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import grpc
import pytest
from google.protobuf.wrappers_pb2 import StringValue
from grpc import aio

from tests.helpers import recorded_spans
from trireme.rpc import channels, dialing, in_process
from trireme.tracing import trace_context

Code = grpc.StatusCode
CALLER = trace_context.TraceContext(0xA, 0xB, True)


class Service:
    """Handlers that do what the request says."""

    def __init__(self) -> None:
        self.ends: list[str] = []
        self.remaining: float | None = None
        self.reads = asyncio.Event()
        self.aborting: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def unary(self, request: Any, context: Any) -> Any:
        self.remaining = context.time_remaining()
        try:
            match request.value:
                case "abort":
                    await context.abort(Code.FAILED_PRECONDITION, "not now", (("reason", "tired"),))
                case "raise":
                    raise ValueError("oh")
                case "time out":
                    raise TimeoutError
                case "call":
                    raise aio.AioRpcError(Code.FAILED_PRECONDITION, aio.Metadata(), aio.Metadata(), "of another")
                case "hang":
                    await asyncio.Event().wait()
                case "clean up":
                    await self._hang_and_clean_up()
                case "wait":
                    await self.reads.wait()
        except asyncio.CancelledError:
            self.ends.append("cancelled")
            raise
        return request

    async def _hang_and_clean_up(self) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0.1)
            self.ends.append("cleaned up")
            raise

    async def count(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Answer numbers up to that of the request, after "word:", and do what the word says."""
        word, _, number = request.value.partition(":")
        self.remaining = context.time_remaining()
        try:
            for each in range(int(number)):
                yield StringValue(value=str(each))
            match word:
                case "abort":
                    await context.abort(Code.FAILED_PRECONDITION, "not now", (("reason", "tired"),))
                case "raise":
                    raise ValueError("oh")
                case "hang":
                    await asyncio.Event().wait()
                case "wait":
                    await self.reads.wait()
                    yield request
        finally:
            self.ends.append(word)

    async def converse(self, requests: AsyncIterator[bytes], context: Any) -> None:
        try:
            async for request in requests:
                match request:
                    case b"abort":
                        await context.abort(Code.ABORTED, "enough")
                    case b"raise":
                        raise ValueError("oh")
                    case b"end":
                        return
                    case b"deaf":
                        await self.reads.wait()
                    case b"abort elsewhere":
                        aborting = context.abort(Code.UNAVAILABLE, "the process ends")
                        self.aborting = asyncio.ensure_future(aborting)
                await context.write(b"<" + request + b">")
        except asyncio.CancelledError:
            self.ends.append("cancelled")
            raise


def _server(service: Service) -> in_process.InProcessServer:
    server = in_process.InProcessServer("s")
    handlers = {
        "Unary": grpc.unary_unary_rpc_method_handler(service.unary),
        "Count": grpc.unary_stream_rpc_method_handler(service.count),
        "Converse": grpc.stream_stream_rpc_method_handler(service.converse, request_deserializer=bytes),
    }
    server.add(lambda added_to: added_to.add_registered_method_handlers("s", handlers))
    return server


@contextlib.asynccontextmanager
async def _dialled() -> AsyncIterator[tuple[channels.DrainingChannel, Service, in_process.InProcessServer]]:
    """A channel as phases are called by, the service that it leads to, and the server."""
    service = Service()
    server = _server(service)
    server.start()
    channel = dialing.Dialer().channel(server.address, (), 0)
    try:
        yield channel, service, server
    finally:
        await channel.close()


def _count(channel: channels.DrainingChannel, text: str, timeout: float | None = None) -> Any:
    call = channel.unary_stream("/s/Count", response_deserializer=StringValue.FromString)
    return call(StringValue(value=text), timeout=timeout)


def _converse(channel: channels.DrainingChannel) -> Any:
    return channel.stream_stream("/s/Converse", request_serializer=bytes)(None)


async def _status(calling: Awaitable[Any]) -> tuple[Code, str]:
    with pytest.raises(aio.AioRpcError) as raised:
        await calling
    return raised.value.code(), raised.value.details() or ""


async def test_a_message_is_handed_over_and_not_copied() -> None:
    message = StringValue(value="x")
    async with _dialled() as (channel, service, _):
        call = channel.unary_unary("/s/Unary", response_deserializer=StringValue.FromString)
        assert await call(message, timeout=20) is message
        assert service.remaining is not None
        assert 19 < service.remaining <= 20
        await call(message)
        assert service.remaining is None


async def test_a_caller_may_want_bytes() -> None:
    """Some read answers by themselves, as they know of what other releases answer."""
    async with _dialled() as (channel, _, _):
        message = StringValue(value="x")
        assert await channel.unary_unary("/s/Unary")(message) == message.SerializeToString()


@pytest.mark.parametrize(
    ("method", "request_", "expected"),
    [
        ("Unary", "abort", (Code.FAILED_PRECONDITION, "not now")),
        ("Unary", "raise", (Code.UNKNOWN, "Unexpected <class 'ValueError'>: oh")),
        ("Unary", "time out", (Code.UNKNOWN, "Unexpected <class 'TimeoutError'>: ")),
        ("Unary", "call", (Code.UNKNOWN, "Unexpected <class 'grpc.aio._call.AioRpcError'>: ")),
        ("Nothing", "", (Code.UNIMPLEMENTED, "Method not found!")),
    ],
    ids=["abort", "raise", "time-out-of-its-own", "status-of-its-own-call", "unknown-method"],
)
async def test_a_handler_that_fails_ends_the_call_with_a_status(
    method: str, request_: str, expected: tuple[Code, str]
) -> None:
    async with _dialled() as (channel, _, _):
        code, details = await _status(channel.unary_unary(f"/s/{method}")(StringValue(value=request_), timeout=20))
    assert (code, details.partition("<AioRpcError")[0]) == expected


async def test_a_refusal_has_its_reason_in_the_trailing_metadata() -> None:
    async with _dialled() as (channel, _, _):
        with pytest.raises(aio.AioRpcError) as raised:
            await channel.unary_unary("/s/Unary")(StringValue(value="abort"))
    assert list(raised.value.trailing_metadata() or ()) == [("reason", "tired")]


async def test_a_call_ends_at_its_deadline_and_so_does_its_handler() -> None:
    async with _dialled() as (channel, service, _):
        code, _ = await _status(channel.unary_unary("/s/Unary")(StringValue(value="hang"), timeout=0.01))
        assert (code, service.ends) == (Code.DEADLINE_EXCEEDED, ["cancelled"])


async def test_a_caller_that_is_cancelled_cancels_its_handler() -> None:
    async with _dialled() as (channel, service, _):
        calling = asyncio.create_task(channel.unary_unary("/s/Unary")(StringValue(value="hang"), timeout=20))
        await asyncio.sleep(0)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert service.ends == ["cancelled"]


async def test_a_server_takes_calls_while_it_is_started() -> None:
    """A phase that is not there yet, or not any more, is unavailable, and is called again later."""
    async with _dialled() as (channel, _, server):
        call = functools.partial(channel.unary_unary("/s/Unary"), StringValue(value="x"), timeout=20)
        await server.stop(0)
        assert (await _status(call()))[0] is Code.UNAVAILABLE
        assert (await _status(_converse(channel).read()))[0] is Code.UNAVAILABLE
        server.start()
        assert StringValue.FromString(await call()).value == "x"


async def test_a_server_that_stops_lets_a_call_under_way_end() -> None:
    """Its remote plugins are disconnected after that: a plugin that cannot be called may be ignored."""
    async with _dialled() as (channel, service, server):
        calling = asyncio.create_task(channel.unary_unary("/s/Unary")(StringValue(value="wait")))
        await asyncio.sleep(0)
        stopping = asyncio.create_task(server.stop(20))
        await asyncio.sleep(0.04)
        assert not stopping.done()
        service.reads.set()
        await calling
        await stopping


async def test_a_call_that_outlasts_the_grace_of_a_server_is_unavailable() -> None:
    async with _dialled() as (channel, service, server):
        calling = asyncio.create_task(channel.unary_unary("/s/Unary")(StringValue(value="hang"), timeout=20))
        await asyncio.sleep(0)
        await server.stop(0)
        assert (await _status(calling), service.ends) == ((Code.UNAVAILABLE, "Server shutting down"), ["cancelled"])


@pytest.mark.parametrize("deadline", [20.0, 0.01], ids=["before-its-deadline", "at-its-deadline"])
async def test_a_server_that_stops_waits_for_a_handler_that_cleans_up(deadline: float) -> None:
    """It takes a moment to end, and is not ended a second time."""
    async with _dialled() as (channel, service, server):
        calling = asyncio.create_task(channel.unary_unary("/s/Unary")(StringValue(value="clean up"), timeout=deadline))
        await asyncio.sleep(0.02)
        await server.stop(0)
        assert service.ends == ["cleaned up", "cancelled"]
        code, _ = await _status(calling)
        assert code is (Code.UNAVAILABLE if deadline > 1 else Code.DEADLINE_EXCEEDED)


async def test_the_responses_to_one_request_are_read_in_order() -> None:
    async with _dialled() as (channel, service, _):
        assert [each.value async for each in _count(channel, "end:3", timeout=20)] == ["0", "1", "2"]
        assert service.ends == ["end"]
        assert service.remaining is not None
        assert 19 < service.remaining <= 20


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abort:1", (Code.FAILED_PRECONDITION, "not now")),
        ("raise:1", (Code.UNKNOWN, "Unexpected <class 'ValueError'>: oh")),
        ("hang:1", (Code.DEADLINE_EXCEEDED, "Deadline Exceeded")),
    ],
    ids=["abort", "raise", "deadline"],
)
async def test_responses_before_a_failure_are_read_first(text: str, expected: tuple[Code, str]) -> None:
    async with _dialled() as (channel, service, _):
        call = _count(channel, text, timeout=0.02)
        assert (await call.read()).value == "0"
        assert await _status(call.read()) == expected
        assert service.ends == [text.partition(":")[0]]


async def test_an_unknown_method_with_responses_is_a_status() -> None:
    async with _dialled() as (channel, _, _):
        call = channel.unary_stream("/s/Nothing", response_deserializer=StringValue.FromString)
        assert (await _status(call(StringValue()).read()))[0] is Code.UNIMPLEMENTED


async def test_a_request_that_its_caller_changes_later_is_as_it_was() -> None:
    """The caller changes it for its next call, while work that this one began goes on."""
    async with _dialled() as (channel, service, _):
        message = StringValue(value="wait:1")
        call = channel.unary_stream("/s/Count", response_deserializer=StringValue.FromString)(message)
        assert (await call.read()).value == "0"
        message.value = "changed"
        service.reads.set()
        assert (await call.read()).value == "wait:1"


@pytest.mark.parametrize("end", ["the-reader", "the-call", "the-channel"])
async def test_the_handler_with_responses_ends_with(end: str) -> None:
    async with _dialled() as (channel, service, _):
        call = _count(channel, "hang:1")
        await call.read()
        reading = asyncio.create_task(call.read())
        await asyncio.sleep(0)
        if end == "the-reader":
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            await asyncio.sleep(0)
        else:
            if end == "the-call":
                call.cancel()
            else:
                await channel.close()
            assert (await _status(reading))[0] is Code.CANCELLED
        assert service.ends == ["hang"]


@pytest.mark.parametrize("grace", [20.0, 0.0], ids=["in-time", "too-late"])
async def test_a_server_that_stops_waits_for_responses(grace: float) -> None:
    async with _dialled() as (channel, service, server):
        call = _count(channel, "wait:0")
        reading = asyncio.create_task(call.read())
        await asyncio.sleep(0.01)
        stopping = asyncio.create_task(server.stop(grace))
        await asyncio.sleep(0.01)
        assert stopping.done() is (grace == 0)
        if grace:
            service.reads.set()
            assert (await reading).value == "wait:0"
        else:
            assert await _status(reading) == (Code.UNAVAILABLE, "Server shutting down")
        await stopping
        assert service.ends == ["wait"]


async def test_a_server_whose_stop_is_cancelled_ends_its_calls_at_once() -> None:
    """What serves in this process has no other end: a PreBind would write on while the Lease is released."""
    async with _dialled() as (channel, service, server):
        reading = asyncio.create_task(_count(channel, "hang:0").read())
        await asyncio.sleep(0.01)
        stopping = asyncio.create_task(server.stop(20))
        await asyncio.sleep(0)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        assert service.ends == ["hang"]
        assert await _status(reading) == (Code.UNAVAILABLE, "Server shutting down")


async def test_who_calls_learns_that_calls_are_taken_no_more() -> None:
    """Bind's client announces its leadership again to one that is started again."""
    states = grpc.ChannelConnectivity
    async with _dialled() as (channel, _, server):
        assert channel.get_state() is states.READY
        await channel.wait_for_state_change(states.TRANSIENT_FAILURE)
        for change, state in ((server.stop(0), states.TRANSIENT_FAILURE), (None, states.READY)):
            waiting = asyncio.create_task(channel.wait_for_state_change(channel.get_state()))
            await asyncio.sleep(0)
            assert not waiting.done()
            if change is None:
                server.start()
            else:
                await change
            async with asyncio.timeout(20):
                await waiting
            assert channel.get_state() is state


async def test_both_sides_of_a_stream_read_what_the_other_writes_in_order() -> None:
    async with _dialled() as (channel, _, _):
        call = _converse(channel)
        for text in (b"a", b"b"):
            await call.write(text)
        assert [await call.read(), await call.read()] == [b"<a>", b"<b>"]
        await call.write(b"end")
        assert await call.read() is aio.EOF
        with pytest.raises(asyncio.InvalidStateError):
            await call.write(b"c")


@pytest.mark.parametrize(
    ("request_", "expected"), [(b"abort", Code.ABORTED), (b"raise", Code.UNKNOWN)], ids=["abort", "raise"]
)
async def test_what_was_written_before_a_stream_failed_is_read_first(request_: bytes, expected: Code) -> None:
    async with _dialled() as (channel, _, _):
        call = _converse(channel)
        await call.write(b"a")
        await call.write(request_)
        assert await call.read() == b"<a>"
        assert (await _status(call.read()))[0] is expected


async def test_a_handler_whose_call_is_aborted_by_another_task_ends() -> None:
    """So a phase that stops ends its streams."""
    async with _dialled() as (channel, service, _):
        call = _converse(channel)
        await call.write(b"abort elsewhere")
        assert await call.read() == b"<abort elsewhere>"
        assert await _status(call.read()) == (Code.UNAVAILABLE, "the process ends")
        assert service.ends == ["cancelled"]
        with pytest.raises(aio.AbortError):
            await service.aborting


@pytest.mark.parametrize("begun", [True, False], ids=["begun", "not-begun"])
@pytest.mark.parametrize("end", ["the-call", "the-channel"])
async def test_the_handler_of_a_stream_ends_with(end: str, begun: bool) -> None:
    async with _dialled() as (channel, service, _):
        call = _converse(channel)
        reading = asyncio.create_task(call.read())
        if begun:
            await asyncio.sleep(0)
        if end == "the-call":
            call.cancel()
        else:
            await channel.close()
        code, _ = await _status(reading)
        assert (code, service.ends) == (Code.CANCELLED, ["cancelled"] * begun)


async def test_others_have_their_turn_between_the_messages_of_a_stream() -> None:
    """A full sync is many messages, each with a lot to apply: the frontend does not stand still for all of them."""
    turns: list[int] = []
    async with _dialled() as (channel, _, _):
        call = _converse(channel)
        for _ in range(3):
            await call.write(b"x")
        while len(call._call._responses) < 3:
            await asyncio.sleep(0)
            turns.append(len(call._call._responses))
    assert turns == [1, 2, 3]


async def test_a_writer_waits_for_a_handler_that_does_not_read() -> None:
    """A phase that is behind does not have the frontend's memory filled with what it has yet to read."""
    async with _dialled() as (channel, service, _):
        call = _converse(channel)
        await call.write(b"deaf")
        await asyncio.sleep(0)
        for _ in range(in_process.UNREAD_REQUESTS):
            await call.write(b"x")
        writing = asyncio.create_task(call.write(b"last"))
        await asyncio.sleep(0)
        assert not writing.done()
        service.reads.set()
        await writing
        assert [await call.read() for _ in range(in_process.UNREAD_REQUESTS + 2)][-1] == b"<last>"


async def test_the_span_of_a_call_is_a_child_of_its_callers() -> None:
    with recorded_spans.recorded() as recorder:
        async with _dialled() as (channel, _, _):
            with trace_context.use(CALLER):
                await channel.unary_unary("/s/Unary")(StringValue(value="x"))
    (span,) = recorder.spans
    assert (span.name, span.parent_id, span.context.trace_id) == ("s/Unary", 0xB, 0xA)


async def test_a_handler_knows_that_the_trace_of_its_caller_is_not_sampled() -> None:
    """It calls plugins, which must not begin traces of their own."""
    known: list[trace_context.TraceContext | None] = []
    caller = trace_context.TraceContext(0xA, 0xB, False)

    async def unary(request: StringValue, context: Any) -> StringValue:
        known.append(trace_context.current.get())
        return request

    server = in_process.InProcessServer("s")
    handlers = {"Unary": grpc.unary_unary_rpc_method_handler(unary)}
    server.add(lambda added_to: added_to.add_registered_method_handlers("s", handlers))
    server.start()
    with recorded_spans.recorded() as recorder:
        connection = dialing.Dialer().open(server.address, ())
        with trace_context.use(caller):
            await connection.channel.unary_unary("/s/Unary")(StringValue(value="x"))
        await connection.close()
    assert (known, recorder.spans) == ([caller], [])
