"""Simulated gRPC and grpc.aio: the same programs see the same of both. Calls with streams."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from grpc import aio

from tests.simulation.grpc_contract_service import Code, Run, ended, outcome_of, serving


@pytest.mark.parametrize(("request_", "code"), [(b"x", Code.OK), (b"abort", Code.ABORTED)])
def test_a_stream_of_answers(run: Run, request_: bytes, code: Code) -> None:
    """All of them come, then the status."""

    async def main() -> Any:
        async with serving() as (channel, _, _, _):
            call = channel.unary_stream("/s/Generate")(request_, timeout=20)
            found = [await call.read() for _ in range(3)]
            last = await outcome_of(call.read())
            return found, (Code.OK if last is aio.EOF else last), await call.code()

    assert run(main) == ([b"0", b"1", b"2"], code, code)


def test_a_conversation(run: Run) -> None:
    """Either side reads what the other wrote, to the end."""

    async def main() -> Any:
        async with serving() as (channel, service, _, _):
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
        async with serving() as (channel, _, _, _):
            call = channel.stream_stream("/s/Converse")(timeout=20)
            await call.write(b"abort")
            outcome = await outcome_of(call.read())
            try:
                await call.write(b"x")
            except asyncio.InvalidStateError as error:
                return outcome, str(error), await call.details()

    assert run(main) == (Code.ABORTED, "RPC already finished.", "enough")


def test_a_writer_waits_for_a_reader(run: Run) -> None:
    """A server that does not read stops its caller, who stays free to cancel."""

    async def main() -> Any:
        async with serving() as (channel, service, _, _):
            call = channel.stream_stream("/s/Converse")(timeout=20)
            await call.write(b"deaf")
            await service.began.wait()
            try:
                async with asyncio.timeout(2):
                    for _ in range(1000):
                        await call.write(b"x" * 100_000)
            except TimeoutError:
                call.cancel()
                return "stopped", await ended(service)

    assert run(main) == ("stopped", ["cancelled"])


def test_a_stream_of_requests(run: Run) -> None:
    """From an iterator."""

    async def requests() -> AsyncIterator[bytes]:
        for text in (b"a", b"b", b"c"):
            yield text

    async def main() -> Any:
        async with serving() as (channel, _, _, _):
            return await channel.stream_unary("/s/Collect")(requests(), timeout=20)

    assert run(main) == b"abc"
