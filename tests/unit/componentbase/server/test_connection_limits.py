"""Connections that a server counts, on the event loops that there are."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

import pytest
import uvloop
from aiohttp import web

from trireme_kube.componentbase.server import connection_limits
from trireme_kube.componentbase.tls import tls_acceptor

_Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_REQUEST = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
_SLOW = _REQUEST.replace(b"/", b"/slow", 1)


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


class _Server:
    """A server whose requests for /slow are answered once `goes_on` is set."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.limits: connection_limits.ConnectionLimits
        self.goes_on = asyncio.Event()
        self.slow = asyncio.Semaphore(0)
        self._writers: list[asyncio.StreamWriter] = []

    async def handle(self, request: web.Request) -> web.Response:
        if request.path == "/slow":
            self.slow.release()
            await self.goes_on.wait()
        return await _hello(request)

    async def connect(self, sent: bytes) -> _Streams:
        """A connection on which this was sent."""
        reader, writer = await asyncio.open_connection(*self.address)
        self._writers.append(writer)
        writer.write(sent)
        return reader, writer

    async def answer(self, sent: bytes) -> bytes:
        """The answer to this on a connection of its own, up to its end."""
        reader, _ = await self.connect(sent.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
        return await reader.read()

    def latest(self) -> float:
        """When something was noted last of any connection."""
        return max(each.heard_at for each in self.limits.by_protocol.values())

    def close(self) -> None:
        """Let go of the connections and of the requests."""
        self.goes_on.set()
        for writer in self._writers:
            writer.close()


@contextlib.asynccontextmanager
async def _served(monkeypatch: pytest.MonkeyPatch, patience: float) -> AsyncIterator[_Server]:
    """Serve at most three connections at a time; the whole test has 20 s."""
    monkeypatch.setattr(connection_limits, "MAX_CONNECTIONS", 3)
    application = web.Application()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        server = _Server(listener.getsockname())
        application.router.add_get("/{path:.*}", server.handle)
        runner = connection_limits.make_runner(application, 0.1)
        await runner.setup()
        server.limits = limits = connection_limits.ConnectionLimits(runner, patience)
        acceptor = tls_acceptor.TlsAcceptor(listener, None, limits, limits.wait_for_room, patience)
        accepting = asyncio.create_task(acceptor.run())
        try:
            async with asyncio.timeout(20):
                yield server
        finally:
            server.close()
            accepting.cancel()
            await acceptor.close()
            await runner.cleanup()


@pytest.mark.slow
async def test_request_heads_sent_byte_by_byte_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few bytes a second of anybody would keep everybody else waiting for as long as they come."""
    async with _served(monkeypatch, 0.3) as server:
        connections = [await server.connect(_REQUEST[:-2] + b"X: ") for _ in range(3)]

        async def send_bytes() -> None:
            while True:
                for _, writer in connections:
                    writer.write(b"a")
                await asyncio.sleep(0.01)

        sending = asyncio.create_task(send_bytes())
        assert (await server.answer(_REQUEST)).endswith(b"hello")
        assert await connections[0][0].read() == b""  # its head was incomplete for longest
        sending.cancel()


async def test_requests_that_take_long_are_refused_one_by_one_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each connection waits for an answer, nobody else had one; and the connection that makes room learns why."""
    async with _served(monkeypatch, 0.1) as server:
        slow = [await server.connect(_SLOW) for _ in range(3)]
        for _ in slow:
            await server.slow.acquire()
        assert (await server.answer(_REQUEST)).endswith(b"hello")
        refused = await slow[0][0].read()  # the server closes the connection
        assert refused.startswith(b"HTTP/1.1 429 ")
        assert b"Retry-After: 1\r\n" in refused
        assert b"3 connections are open, and others wait for this one: try again after 1 s" in refused
        server.goes_on.set()
        assert [(await reader.read()).endswith(b"hello") for reader, _ in slow[1:]] == [True, True]


async def test_an_idle_connection_makes_room_before_a_request_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its caller waits for an answer; nobody waits for anything on the other."""
    async with _served(monkeypatch, 0.1) as server:
        slow = [await server.connect(_SLOW) for _ in range(2)]
        for _ in slow:
            await server.slow.acquire()
        idle, _ = await server.connect(b"")
        assert (await server.answer(_REQUEST)).endswith(b"hello")
        assert await idle.read() == b""
        server.goes_on.set()
        assert [(await reader.read()).endswith(b"hello") for reader, _ in slow] == [True, True]


async def test_the_beginning_of_another_request_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller of many requests would lose its connection within one, for others that send nothing."""
    async with _served(monkeypatch, 0.0) as server:
        connections = [await server.connect(_REQUEST) for _ in range(3)]
        for reader, _ in connections:
            await reader.readuntil(b"hello")
        (busy, writer), (idle, _), _ = connections
        writer.write(_REQUEST[:9])
        heard_at = server.latest()
        while server.latest() == heard_at:
            await asyncio.sleep(0)
        assert (await server.answer(_REQUEST)).endswith(b"hello")
        assert await idle.read() == b""
        writer.write(_REQUEST[9:])
        assert (await busy.readuntil(b"hello")).startswith(b"HTTP/1.1 200 ")


async def test_unfinished_handshakes_cost_nobody_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that opens connections and sends nothing would have the answers of others refused."""
    async with _served(monkeypatch, 0.05) as server:
        monkeypatch.setattr(connection_limits, "MAX_CONNECTIONS", 8)
        reader, _ = await server.connect(_SLOW)
        await server.slow.acquire()
        await server.limits.wait_for_room(lambda: 7)
        server.goes_on.set()
        assert (await reader.read(4096)).startswith(b"HTTP/1.1 200 ")


async def test_those_that_come_at_once_replace_none_that_was_just_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """One silent connection would make room for each of a thousand that are accepted before the first is counted."""
    async with _served(monkeypatch, 20) as server:
        connections = [await server.connect(_SLOW) for _ in range(3)]
        for _ in connections:
            await server.slow.acquire()
        monkeypatch.setattr(connection_limits, "MAX_CONNECTIONS", 4)
        await server.connect(_REQUEST[:4])
        while len(server.limits.by_protocol) < 4:
            await asyncio.sleep(0)
        list(server.limits.by_protocol.values())[-1].heard_at -= 60
        await server.limits.wait_for_room(lambda: 0)
        second = asyncio.create_task(server.limits.wait_for_room(lambda: 1))
        await asyncio.sleep(0)
        assert not second.done()
        server.goes_on.set()
        await second
