"""Simulated gRPC and grpc.aio: the same programs see the same of both. Calls with one answer, channels and servers."""

import asyncio
from typing import Any

import grpc
import pytest
from grpc import aio

from tests.simulation.grpc_contract_service import Code, Run, Service, ended, outcome_of, serving


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
    """Answers and codes; messages over 4 MiB are refused by their receiver."""

    async def main() -> Any:
        async with serving() as (channel, _, _, _):
            return await outcome_of(channel.unary_unary("/s/Unary")(request_, timeout=20))

    assert run(main) == expected


def test_details_and_trailing_metadata_of_an_abort(run: Run) -> None:
    """Refusals carry a reason there."""

    async def main() -> Any:
        async with serving() as (channel, _, _, _):
            try:
                await channel.unary_unary("/s/Unary")(b"abort", timeout=20)
            except aio.AioRpcError as error:
                return error.details(), [tuple(each) for each in error.trailing_metadata() or ()]

    assert run(main) == ("not now", [("reason", "tired")])


def test_trailing_metadata_of_an_answer(run: Run) -> None:
    """They come with it."""

    async def main() -> Any:
        async with serving() as (channel, _, _, _):
            call = channel.unary_unary("/s/Unary")(b"trailing", timeout=20)
            await call
            return [tuple(each) for each in await call.trailing_metadata()], await call.code(), call.done()

    assert run(main) == ([("a", "b")], Code.OK, True)


def test_metadata_and_deadline_reach_the_server(run: Run) -> None:
    """As the caller gave them."""

    async def main() -> Any:
        async with serving() as (channel, service, _, _):
            await channel.unary_unary("/s/Unary")(b"x", timeout=20, metadata=(("k", "v"),))
            return ("k", "v") in [tuple(each) for each in service.metadata], 19 < service.remaining < 20.5

    assert run(main) == (True, True)


def test_an_unknown_method(run: Run) -> None:
    """Is unimplemented."""

    async def main() -> Any:
        async with serving() as (channel, _, _, _):
            return await outcome_of(channel.unary_unary("/s/Nothing")(b"x", timeout=20))

    assert run(main) is Code.UNIMPLEMENTED


@pytest.mark.parametrize("stream", [False, True])
def test_a_deadline_that_passes(run: Run, stream: bool) -> None:
    """The caller sees DEADLINE_EXCEEDED, the handler is cancelled."""

    async def main() -> Any:
        async with serving() as (channel, service, _, _):
            if stream:
                call = channel.unary_stream("/s/Generate")(b"hang", timeout=0.3)
                outcome = await outcome_of(_all(call))
            else:
                outcome = await outcome_of(channel.unary_unary("/s/Unary")(b"hang", timeout=0.3))
            return outcome, await ended(service)

    assert run(main) == (Code.DEADLINE_EXCEEDED, ["cancelled"])


async def _all(call: Any) -> list[bytes]:
    return [message async for message in call]


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_the_caller_cancels(run: Run, stream: bool) -> None:
    """The caller sees CancelledError, the handler is cancelled."""

    async def main() -> Any:
        async with serving() as (channel, service, _, _):
            if stream:
                call = channel.unary_stream("/s/Generate")(b"hang", timeout=20)
                waiting = asyncio.create_task(outcome_of(_all(call)))
            else:
                call = channel.unary_unary("/s/Unary")(b"hang", timeout=20)
                waiting = asyncio.create_task(outcome_of(_await(call)))
            await service.began.wait()
            await asyncio.sleep(0.1)  # until the handler waits, and not gRPC for it
            cancelled = call.cancel(), call.cancel()
            return cancelled[0], await waiting, await ended(service), call.cancelled(), await call.code()

    assert run(main) == (True, "CancelledError", ["cancelled"], True, Code.CANCELLED)


async def _await(call: Any) -> Any:
    return await call


@pytest.mark.parametrize("stream", [False, True])
def test_a_channel_that_closes_with_a_call_in_flight(run: Run, stream: bool) -> None:
    """The caller sees CancelledError; a new call on it is an error of usage."""

    async def main() -> Any:
        async with serving() as (channel, service, _, _):
            if stream:
                waiting = asyncio.create_task(
                    outcome_of(_all(channel.unary_stream("/s/Generate")(b"hang", timeout=20)))
                )
            else:
                waiting = asyncio.create_task(outcome_of(_await(channel.unary_unary("/s/Unary")(b"hang", timeout=20))))
            await service.began.wait()
            await asyncio.sleep(0.1)  # until the handler waits, and not gRPC for it
            await channel.close()
            outcome = await waiting
            try:
                await channel.unary_unary("/s/Unary")(b"x", timeout=20)
            except aio.UsageError as error:
                return outcome, str(error), await ended(service)

    assert run(main) == ("CancelledError", "Channel is closed.", ["cancelled"])


def test_the_server_is_gone(run: Run) -> None:
    """Calls fail at once with UNAVAILABLE, and work again once there is a server."""

    async def main() -> Any:
        async with serving() as (channel, _, server, port):
            first = await outcome_of(channel.unary_unary("/s/Unary")(b"x", timeout=20))
            await server.stop(0)
            second = await outcome_of(channel.unary_unary("/s/Unary")(b"x", timeout=20))
            another = aio.server()
            handler = grpc.unary_unary_rpc_method_handler(Service().unary)
            another.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("s", {"Unary": handler}),))
            another.add_insecure_port(f"127.0.0.1:{port}")
            await another.start()
            waiting = await outcome_of(channel.unary_unary("/s/Unary")(b"y", timeout=20, wait_for_ready=True))
            await another.stop(0)
            return first, second, waiting

    assert run(main) == (b"<x>", Code.UNAVAILABLE, b"<y>")


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_that_stops_with_a_call_in_flight(run: Run, stream: bool) -> None:
    """After its grace the call fails with UNAVAILABLE, and the handler is cancelled."""

    async def main() -> Any:
        async with serving() as (channel, service, server, _):
            if stream:
                waiting = asyncio.create_task(
                    outcome_of(_all(channel.unary_stream("/s/Generate")(b"hang", timeout=20)))
                )
            else:
                waiting = asyncio.create_task(outcome_of(_await(channel.unary_unary("/s/Unary")(b"hang", timeout=20))))
            await service.began.wait()
            await asyncio.sleep(0.1)  # until the handler waits, and not gRPC for it
            await server.stop(0.1)
            return await waiting, await ended(service)

    assert run(main) == (Code.UNAVAILABLE, ["cancelled"])


def test_a_server_lets_calls_in_flight_finish(run: Run) -> None:
    """Within the grace that it is given."""

    async def main() -> Any:
        async with serving() as (channel, service, server, _):
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


def test_too_many_calls(run: Run) -> None:
    """Are refused."""

    async def main() -> Any:
        async with serving(maximum_concurrent_rpcs=1) as (channel, service, _, _):
            first = channel.unary_unary("/s/Unary")(b"hang", timeout=20)
            await service.began.wait()
            second = await outcome_of(channel.unary_unary("/s/Unary")(b"x", timeout=20))
            first.cancel()
            return second

    assert run(main) is Code.RESOURCE_EXHAUSTED


def test_the_states_of_a_channel(run: Run) -> None:
    """Idle until it is used; ready; and not ready any more when the server is gone."""

    async def main() -> Any:
        async with serving() as (channel, _, server, _):
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
