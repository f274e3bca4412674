"""Connections that a server counts, on the event loops that there are."""

import asyncio
from collections.abc import Callable

import pytest
import uvloop
from aiohttp import web

from trireme_kube.componentbase.server import connection_limits


async def _hello(_: web.Request) -> web.Response:
    return web.Response(text="hello")


async def _answer() -> bytes:
    """What a server whose connections are counted answers."""
    application = web.Application()
    application.router.add_get("/", _hello)
    runner = connection_limits.make_runner(application, 0.1)
    await runner.setup()
    protocols = connection_limits.ConnectionLimits(runner)
    server = await asyncio.get_running_loop().create_server(protocols, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
    async with asyncio.timeout(20):
        answer = await reader.readuntil(b"hello")
    writer.close()
    server.close()
    await runner.cleanup()
    return answer


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_connections_are_served_on_every_loop(loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """The processes run on uvloop, whose transports are none of asyncio's: no probe and no scrape would be answered."""
    with asyncio.Runner(loop_factory=loop_factory) as loop:
        assert loop.run(_answer()).endswith(b"hello")


async def test_a_connection_that_is_being_answered_makes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who opens connections would have the answers of others dropped that take a while."""
    monkeypatch.setattr(connection_limits, "MAX_CONNECTIONS", 1)
    asked, goes_on = asyncio.Event(), asyncio.Event()

    async def slow(request: web.Request) -> web.Response:
        asked.set()
        await goes_on.wait()
        return await _hello(request)

    application = web.Application()
    application.router.add_get("/", slow)
    runner = connection_limits.make_runner(application, 0.1)
    await runner.setup()
    limits = connection_limits.ConnectionLimits(runner, patience=20)
    server = await asyncio.get_running_loop().create_server(limits, "127.0.0.1", 0)
    async with asyncio.timeout(20):
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        await asked.wait()
        room = asyncio.ensure_future(limits.wait_for_room(lambda: 0))
        await asyncio.sleep(0)
        assert not room.done()
        goes_on.set()
        answer = await reader.read()  # the server closes the connection: another one waits
        await room
    assert answer.endswith(b"hello")
    writer.close()
    server.close()
    await runner.cleanup()
