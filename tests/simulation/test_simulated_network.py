"""The network of the simulator, and real sockets beside it: the same program sees the same of both."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.simulation import virtual_loop
from tests.simulation.virtual_loop import VirtualLoop, in_simulation

Run = Callable[[Callable[[], Any]], Any]


def _real(main: Callable[[], Any]) -> Any:
    return asyncio.run(main())


def _simulated(main: Callable[[], Any]) -> Any:
    return virtual_loop.run(lambda loop: main())


BOTH = pytest.mark.parametrize("run", [_real, _simulated], ids=["real", "simulated"])


@contextlib.asynccontextmanager
async def _serving(
    handle: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any],
) -> AsyncIterator[tuple[str, int]]:
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()
    finally:
        server.close()


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()


@BOTH
def test_bytes_arrive_in_order(run: Run) -> None:
    """However they were written."""

    async def main() -> bytes:
        async with _serving(_echo) as (host, port):
            reader, writer = await asyncio.open_connection(host, port)
            for number in range(100):
                writer.write(b"%d," % number)
                await writer.drain()
            writer.write_eof()
            found = await reader.read()
            writer.close()
            return found

    assert run(main) == b"".join(b"%d," % number for number in range(100))


@BOTH
def test_nobody_listens(run: Run) -> None:
    """A connection is refused."""

    async def main() -> None:
        async with _serving(_echo) as (host, port):
            pass
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(host, port)

    run(main)


@BOTH
def test_a_reset_is_an_error_for_the_reader(run: Run) -> None:
    """And not the end of the stream."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        # Linux resets a connection that is closed with unread bytes; asyncio's abort alone does not.
        _linger(writer)
        writer.transport.abort()

    async def main() -> None:
        async with _serving(handle) as (host, port):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"xy")
            with pytest.raises(ConnectionResetError):
                await reader.read()
            writer.close()

    run(main)


def _linger(writer: asyncio.StreamWriter) -> None:
    sock = writer.transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@BOTH
def test_the_end_of_the_stream_is_seen_after_the_bytes_before_it(run: Run) -> None:
    """What was written before a close arrives."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"x" * 100_000)
        writer.close()

    async def main() -> int:
        async with _serving(handle) as (host, port):
            reader, writer = await asyncio.open_connection(host, port)
            found = await reader.read()
            writer.close()
            return len(found)

    assert run(main) == 100_000


@BOTH
def test_a_busy_port_is_refused(run: Run) -> None:
    """Two servers cannot share one."""

    async def main() -> None:
        async with _serving(_echo) as (host, port):
            with pytest.raises(OSError, match="ddress already in use"):
                await asyncio.start_server(_echo, host, port)

    run(main)


# Faults, which only the simulated network has


class _Echo(asyncio.Protocol):
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


async def _serve_echo() -> None:
    await asyncio.get_running_loop().create_server(_Echo, "127.0.1.1", 80)


@in_simulation
async def test_a_cut_delays_and_loses_nothing(loop: VirtualLoop) -> None:
    """What was sent meanwhile arrives, in order, once the edge has healed."""
    server = loop.process("server", "127.0.1.1")
    client = loop.process("client", "127.0.1.2")
    found: list[tuple[float, bytes]] = []

    async def call() -> None:
        reader, writer = await asyncio.open_connection("127.0.1.1", 80)
        for text in (b"a", b"b"):
            await asyncio.sleep(1)
            writer.write(text)
        found.append((loop.now, await reader.readexactly(2)))
        writer.close()

    server.start(loop, _serve_echo)
    await asyncio.sleep(0.1)
    client.start(loop, call)
    await asyncio.sleep(0.5)
    loop.network.set_cut("127.0.1.1", "127.0.1.2", True)
    await asyncio.sleep(60)
    assert loop.now > 60
    loop.network.set_cut("127.0.1.1", "127.0.1.2", False)
    await asyncio.sleep(1)
    ((_, text),) = found
    assert text == b"ab"


@in_simulation
async def test_connections_of_a_killed_process_are_reset(loop: VirtualLoop) -> None:
    """And further ones refused."""
    server = loop.process("server", "127.0.1.1")

    server.start(loop, _serve_echo)
    await asyncio.sleep(0.1)
    reader, writer = await asyncio.open_connection("127.0.1.1", 80)
    loop.kill(server)
    with pytest.raises(ConnectionResetError):
        await reader.read()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.1.1", 80)
    writer.close()


@in_simulation
async def test_a_paused_process_accepts_and_does_not_answer(loop: VirtualLoop) -> None:
    """Its kernel does; the bytes wait for it."""
    server = loop.process("server", "127.0.1.1")

    server.start(loop, _serve_echo)
    await asyncio.sleep(0.1)
    loop.pause(server)
    reader, writer = await asyncio.open_connection("127.0.1.1", 80)
    writer.write(b"x")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(30):
            await reader.readexactly(1)
    loop.resume(server)
    assert await reader.readexactly(1) == b"x"
    writer.close()
