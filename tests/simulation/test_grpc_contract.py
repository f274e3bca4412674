"""Simulated gRPC and grpc.aio: the same programs see the same of both."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest
import simulated_grpc_client
import simulated_grpc_server
import virtual_loop
from grpc import aio

Code = grpc.StatusCode


@pytest.fixture(params=["real", "simulated"])
def run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], Any]:
    """Runs a program on real or simulated gRPC."""
    if request.param == "real":
        return lambda main: asyncio.run(main())
    monkeypatch.setattr(aio, "insecure_channel", simulated_grpc_client.insecure_channel)
    monkeypatch.setattr(aio, "server", simulated_grpc_server.server)
    return lambda main: virtual_loop.run(lambda loop: main())


Run = Callable[[Callable[[], Any]], Any]


class _Service:
    """Handlers that do what the request says, and remember what became of them."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.ends: list[str] = []
        self.metadata: Any = ()
        self.remaining: Any = None

    async def unary(self, request: bytes, context: Any) -> bytes:
        self.began.set()
        self.metadata, self.remaining = context.invocation_metadata(), context.time_remaining()
        try:
            return await self._unary(request, context)
        except asyncio.CancelledError:
            self.ends.append("cancelled")
            raise

    async def _unary(self, request: bytes, context: Any) -> bytes:
        match request:
            case b"abort":
                await context.abort(Code.FAILED_PRECONDITION, "not now", (("reason", "tired"),))
            case b"raise":
                raise ValueError("oh")
            case b"hang":
                await asyncio.sleep(600)
            case b"code":
                context.set_code(Code.NOT_FOUND)
                context.set_details("nothing")
            case b"trailing":
                context.set_trailing_metadata((("a", "b"),))
            case b"large":
                return b"x" * (5 << 20)
        return b"<" + request + b">"

    async def generate(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        self.began.set()
        try:
            for number in range(3):
                yield b"%d" % number
            if request == b"hang":
                await asyncio.sleep(600)
            if request == b"abort":
                await context.abort(Code.ABORTED, "enough")
        except asyncio.CancelledError:
            self.ends.append("cancelled")
            raise

    async def converse(self, requests: AsyncIterator[bytes], context: Any) -> None:
        """Writes to the context itself."""
        self.began.set()
        try:
            async for request in requests:
                if request == b"abort":
                    await context.abort(Code.ABORTED, "enough")
                if request == b"deaf":
                    await asyncio.sleep(600)
                await context.write(b"<" + request + b">")
        except asyncio.CancelledError:
            self.ends.append("cancelled")
            raise
        self.ends.append("eof")

    async def collect(self, requests: AsyncIterator[bytes], context: Any) -> bytes:
        return b"".join([request async for request in requests])


@contextlib.asynccontextmanager
async def _serving(**options: Any) -> AsyncIterator[tuple[Any, _Service, aio.Server, int]]:
    service = _Service()
    server = aio.server(**options)
    handlers = {
        "Unary": grpc.unary_unary_rpc_method_handler(service.unary),
        "Generate": grpc.unary_stream_rpc_method_handler(service.generate),
        "Converse": grpc.stream_stream_rpc_method_handler(service.converse),
        "Collect": grpc.stream_unary_rpc_method_handler(service.collect),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("s", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    channel = aio.insecure_channel(f"127.0.0.1:{port}")
    try:
        yield channel, service, server, port
    finally:
        await channel.close()
        await server.stop(0)


async def _outcome(call: Any) -> Any:
    """What a caller sees: the response, or the code (with details that a handler chose), or an exception's name."""
    try:
        return await call
    except aio.AioRpcError as error:
        return error.code()
    except asyncio.CancelledError:
        return "CancelledError"


async def _ended(service: _Service) -> list[str]:
    for _ in range(200):
        if service.ends:
            break
        await asyncio.sleep(0.01)
    return service.ends


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (b"x", b"<x>"),
        (b"", b"<>"),
        (b"abort", Code.FAILED_PRECONDITION),
        (b"raise", Code.UNKNOWN),
        (b"code", Code.NOT_FOUND),
        (b"large", Code.RESOURCE_EXHAUSTED),
        (b"y" * (5 << 20), Code.RESOURCE_EXHAUSTED),
    ],
    ids=["answer", "empty", "abort", "raise", "code", "large answer", "large request"],
)
def test_a_unary_call(run: Run, request_: bytes, expected: Any) -> None:
    """Answers and codes; messages over 4 MiB are refused by whoever receives them."""

    async def main() -> Any:
        async with _serving() as (channel, _, _, _):
            return await _outcome(channel.unary_unary("/s/Unary")(request_, timeout=20))

    assert run(main) == expected


def test_details_and_trailing_metadata_of_an_abort(run: Run) -> None:
    """Refusals carry a reason there."""

    async def main() -> Any:
        async with _serving() as (channel, _, _, _):
            try:
                await channel.unary_unary("/s/Unary")(b"abort", timeout=20)
            except aio.AioRpcError as error:
                return error.details(), [tuple(each) for each in error.trailing_metadata() or ()]

    assert run(main) == ("not now", [("reason", "tired")])


def test_trailing_metadata_of_an_answer(run: Run) -> None:
    """They come with it."""

    async def main() -> Any:
        async with _serving() as (channel, _, _, _):
            call = channel.unary_unary("/s/Unary")(b"trailing", timeout=20)
            await call
            return [tuple(each) for each in await call.trailing_metadata()], await call.code(), call.done()

    assert run(main) == ([("a", "b")], Code.OK, True)


def test_metadata_and_deadline_reach_the_server(run: Run) -> None:
    """As the caller gave them."""

    async def main() -> Any:
        async with _serving() as (channel, service, _, _):
            await channel.unary_unary("/s/Unary")(b"x", timeout=20, metadata=(("k", "v"),))
            return ("k", "v") in [tuple(each) for each in service.metadata], 19 < service.remaining <= 20

    assert run(main) == (True, True)


def test_an_unknown_method(run: Run) -> None:
    """Is unimplemented."""

    async def main() -> Any:
        async with _serving() as (channel, _, _, _):
            return await _outcome(channel.unary_unary("/s/Nothing")(b"x", timeout=20))

    assert run(main) is Code.UNIMPLEMENTED


@pytest.mark.parametrize("stream", [False, True])
def test_a_deadline_that_passes(run: Run, stream: bool) -> None:
    """The caller sees DEADLINE_EXCEEDED, the handler is cancelled."""

    async def main() -> Any:
        async with _serving() as (channel, service, _, _):
            if stream:
                call = channel.unary_stream("/s/Generate")(b"hang", timeout=0.3)
                outcome = await _outcome(_all(call))
            else:
                outcome = await _outcome(channel.unary_unary("/s/Unary")(b"hang", timeout=0.3))
            return outcome, await _ended(service)

    assert run(main) == (Code.DEADLINE_EXCEEDED, ["cancelled"])


async def _all(call: Any) -> list[bytes]:
    return [message async for message in call]


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_the_caller_cancels(run: Run, stream: bool) -> None:
    """The caller sees CancelledError, the handler is cancelled."""

    async def main() -> Any:
        async with _serving() as (channel, service, _, _):
            if stream:
                call = channel.unary_stream("/s/Generate")(b"hang", timeout=20)
                waiting = asyncio.create_task(_outcome(_all(call)))
            else:
                call = channel.unary_unary("/s/Unary")(b"hang", timeout=20)
                waiting = asyncio.create_task(_outcome(_await(call)))
            await service.began.wait()
            await asyncio.sleep(0.1)  # until the handler waits, and not gRPC for it
            cancelled = call.cancel(), call.cancel()
            return cancelled[0], await waiting, await _ended(service), call.cancelled(), await call.code()

    assert run(main) == (True, "CancelledError", ["cancelled"], True, Code.CANCELLED)


async def _await(call: Any) -> Any:
    return await call


@pytest.mark.parametrize("stream", [False, True])
def test_a_channel_that_closes_with_a_call_in_flight(run: Run, stream: bool) -> None:
    """The caller sees CancelledError; a new call on it is an error of usage."""

    async def main() -> Any:
        async with _serving() as (channel, service, _, _):
            if stream:
                waiting = asyncio.create_task(_outcome(_all(channel.unary_stream("/s/Generate")(b"hang", timeout=20))))
            else:
                waiting = asyncio.create_task(_outcome(_await(channel.unary_unary("/s/Unary")(b"hang", timeout=20))))
            await service.began.wait()
            await asyncio.sleep(0.1)  # until the handler waits, and not gRPC for it
            await channel.close()
            outcome = await waiting
            try:
                await channel.unary_unary("/s/Unary")(b"x", timeout=20)
            except aio.UsageError as error:
                return outcome, str(error), await _ended(service)

    assert run(main) == ("CancelledError", "Channel is closed.", ["cancelled"])


def test_the_server_is_gone(run: Run) -> None:
    """Calls fail at once with UNAVAILABLE, and work again once there is a server."""

    async def main() -> Any:
        async with _serving() as (channel, _, server, port):
            first = await _outcome(channel.unary_unary("/s/Unary")(b"x", timeout=20))
            await server.stop(0)
            second = await _outcome(channel.unary_unary("/s/Unary")(b"x", timeout=20))
            another = aio.server()
            handler = grpc.unary_unary_rpc_method_handler(_Service().unary)
            another.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("s", {"Unary": handler}),))
            another.add_insecure_port(f"127.0.0.1:{port}")
            await another.start()
            waiting = await _outcome(channel.unary_unary("/s/Unary")(b"y", timeout=20, wait_for_ready=True))
            await another.stop(0)
            return first, second, waiting

    assert run(main) == (b"<x>", Code.UNAVAILABLE, b"<y>")


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_that_stops_with_a_call_in_flight(run: Run, stream: bool) -> None:
    """After its grace the call fails with UNAVAILABLE, and the handler is cancelled."""

    async def main() -> Any:
        async with _serving() as (channel, service, server, _):
            if stream:
                waiting = asyncio.create_task(_outcome(_all(channel.unary_stream("/s/Generate")(b"hang", timeout=20))))
            else:
                waiting = asyncio.create_task(_outcome(_await(channel.unary_unary("/s/Unary")(b"hang", timeout=20))))
            await service.began.wait()
            await asyncio.sleep(0.1)  # until the handler waits, and not gRPC for it
            await server.stop(0.1)
            return await waiting, await _ended(service)

    assert run(main) == (Code.UNAVAILABLE, ["cancelled"])


def test_a_server_lets_calls_in_flight_finish(run: Run) -> None:
    """Within the grace that it is given."""

    async def main() -> Any:
        async with _serving() as (channel, service, server, _):
            call = channel.stream_stream("/s/Converse")(timeout=20)
            await call.write(b"a")
            await service.began.wait()
            stopping = asyncio.create_task(server.stop(10))
            await asyncio.sleep(0.1)
            await call.write(b"b")
            found = [await call.read(), await call.read()]
            await call.done_writing()
            await stopping
            return found, await call.read() is aio.EOF

    assert run(main) == ([b"<a>", b"<b>"], True)


@pytest.mark.parametrize(("request_", "code"), [(b"x", Code.OK), (b"abort", Code.ABORTED)])
def test_a_stream_of_answers(run: Run, request_: bytes, code: Code) -> None:
    """All of them come, then the status."""

    async def main() -> Any:
        async with _serving() as (channel, _, _, _):
            call = channel.unary_stream("/s/Generate")(request_, timeout=20)
            found = [await call.read() for _ in range(3)]
            last = await _outcome(call.read())
            return found, (Code.OK if last is aio.EOF else last), await call.code()

    assert run(main) == ([b"0", b"1", b"2"], code, code)


def test_a_conversation(run: Run) -> None:
    """Either side reads what the other wrote, to the end."""

    async def main() -> Any:
        async with _serving() as (channel, service, _, _):
            call = channel.stream_stream("/s/Converse")(timeout=20)
            found = []
            for text in (b"a", b"b"):
                await call.write(text)
                found.append(await call.read())
            await call.done_writing()
            return found, await call.read() is aio.EOF, await call.code(), service.ends

    assert run(main) == ([b"<a>", b"<b>"], True, Code.OK, ["eof"])


def test_a_conversation_that_the_server_aborts(run: Run) -> None:
    """The reader sees the code, a writer that the call is over."""

    async def main() -> Any:
        async with _serving() as (channel, _, _, _):
            call = channel.stream_stream("/s/Converse")(timeout=20)
            await call.write(b"abort")
            outcome = await _outcome(call.read())
            try:
                await call.write(b"x")
            except asyncio.InvalidStateError as error:
                return outcome, str(error), await call.details()

    assert run(main) == (Code.ABORTED, "RPC already finished.", "enough")


def test_a_writer_waits_for_a_reader(run: Run) -> None:
    """A server that does not read stops its caller, who stays free to cancel."""

    async def main() -> Any:
        async with _serving() as (channel, service, _, _):
            call = channel.stream_stream("/s/Converse")(timeout=20)
            await call.write(b"deaf")
            await service.began.wait()
            try:
                async with asyncio.timeout(2):
                    for _ in range(1000):
                        await call.write(b"x" * 100_000)
            except TimeoutError:
                call.cancel()
                return "stopped", await _ended(service)

    assert run(main) == ("stopped", ["cancelled"])


def test_a_stream_of_requests(run: Run) -> None:
    """From an iterator."""

    async def requests() -> AsyncIterator[bytes]:
        for text in (b"a", b"b", b"c"):
            yield text

    async def main() -> Any:
        async with _serving() as (channel, _, _, _):
            return await channel.stream_unary("/s/Collect")(requests(), timeout=20)

    assert run(main) == b"abc"


def test_too_many_calls(run: Run) -> None:
    """Are refused."""

    async def main() -> Any:
        async with _serving(maximum_concurrent_rpcs=1) as (channel, service, _, _):
            first = channel.unary_unary("/s/Unary")(b"hang", timeout=20)
            await service.began.wait()
            second = await _outcome(channel.unary_unary("/s/Unary")(b"x", timeout=20))
            first.cancel()
            return second

    assert run(main) is Code.RESOURCE_EXHAUSTED


def test_the_states_of_a_channel(run: Run) -> None:
    """Idle until it is used; ready; and not ready any more when the server is gone."""

    async def main() -> Any:
        async with _serving() as (channel, _, server, _):
            states = [channel.get_state()]
            await channel.unary_unary("/s/Unary")(b"x", timeout=20)
            states.append(channel.get_state())
            await server.stop(0)
            async with asyncio.timeout(20):
                await channel.wait_for_state_change(grpc.ChannelConnectivity.READY)
            return states, channel.get_state() is grpc.ChannelConnectivity.READY

    states, ready = run(main)
    assert states == [grpc.ChannelConnectivity.IDLE, grpc.ChannelConnectivity.READY]
    assert not ready
