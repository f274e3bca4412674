"""The connections of writes, against servers that answer byte by byte as the tests say."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvloop

from trireme_kube.client.rest import write_pool
from trireme_kube.client.rest.errors import ApiUnreachable

OK = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Counts connections."""

    def __init__(self) -> None:
        self.url = ""
        self.connections = 0
        self.closed = 0


@asynccontextmanager
async def serving(script: Script) -> AsyncIterator[Server]:
    """A server that runs the script on each connection."""
    seen = Server()
    open_writers: list[asyncio.StreamWriter] = []

    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.connections += 1
        open_writers.append(writer)
        try:
            await script(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            seen.closed += 1
            writer.close()

    server = await asyncio.start_server(on_connection, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    seen.url = f"http://127.0.0.1:{port}"
    try:
        yield seen
    finally:
        for writer in open_writers:
            writer.close()
        server.close()
        await server.wait_closed()


async def _request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    return head + await reader.readexactly(length)


def _answers(*answers: bytes, then_close: bool = False) -> Script:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await _request(reader)
            writer.write(answer)
            await writer.drain()
        if not then_close:
            await reader.read()

    return script


def _pool(server: Server, limit: int = 4) -> write_pool.WritePool:
    return write_pool.WritePool(server.url, None, None, limit)


async def _send(pool: write_pool.WritePool, seconds: float = 20.0, body: bytes = b"{}") -> write_pool.Answer:
    return await pool.send("POST", "/x", {"Accept": "application/json"}, body, seconds)


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        pytest.param(OK, b"{}", id="with-a-length"),
        pytest.param(
            b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
            b"{}",
            id="chunked",
        ),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"{}", id="after-a-provisional-one"),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", b"", id="without-a-body"),
    ],
)
async def test_responses_of_every_form_are_read_and_the_connection_is_reused(answer: bytes, body: bytes) -> None:
    """If this fails, an answer is misread, or the next one on the connection is taken for this one."""
    async with serving(_answers(answer, OK)) as server:
        pool = _pool(server)
        assert (await _send(pool)).body == body
        assert (await _send(pool)).status == 201
        assert server.connections == 1
        pool.close()


async def test_a_connection_that_the_server_ends_is_not_used_again() -> None:
    """If this fails, each write after an answer with Connection: close is lost."""
    last = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    async with serving(_answers(last, then_close=True)) as server:
        pool = _pool(server)
        for _ in range(3):
            assert (await _send(pool)).status == 201
        assert server.connections == 3
        pool.close()


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(b"SSH-2.0-OpenSSH\r\n", "not HTTP", id="another-protocol"),
        pytest.param(b"HTTP/1.1 201 Created\r\nContent-Length: 10\r\n\r\n{", "closed the connection", id="cut-short"),
    ],
)
async def test_an_answer_that_is_none_may_follow_a_write_that_happened(answer: bytes, text: str) -> None:
    """If this fails, bind takes a binding that may exist for one that does not."""
    async with serving(_answers(answer, then_close=True)) as server:
        pool = _pool(server)
        with pytest.raises(ApiUnreachable, match=text) as caught:
            await _send(pool)
        assert caught.value.sent
        pool.close()


async def test_no_more_connections_than_allowed() -> None:
    """If this fails, a burst of bindings opens as many connections as there are pods, or waits forever."""
    async with serving(_answers(*[OK] * 20)) as server:
        pool = _pool(server, limit=2)
        await asyncio.gather(*(_send(pool) for _ in range(20)))
        assert server.connections == 2
        pool.close()


async def test_after_a_burst_unused_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a process keeps the connections of its busiest moment forever, and the API server its own."""
    monkeypatch.setattr(write_pool, "IDLE_SECONDS", 0.4)
    async with serving(_answers(*[OK] * 100)) as server:
        pool = _pool(server)
        await asyncio.gather(*(_send(pool) for _ in range(8)))
        opened = server.connections
        assert opened == 4
        async with asyncio.timeout(20):
            while server.closed < opened - 1:
                await _send(pool)
                await asyncio.sleep(0.05)
            assert server.connections == opened, "the connection in use is kept"
            while server.closed < opened:
                await asyncio.sleep(0.05)
        await _send(pool)
        assert server.connections == opened + 1
        pool.close()


async def test_a_cancelled_waiter_passes_its_turn_on() -> None:
    """If this fails, one cancelled write leaves a connection idle while others wait for it until their deadline."""

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await _request(reader)
            await asyncio.sleep(0.05)
            writer.write(OK)

    async with serving(slow) as server:
        pool = _pool(server, limit=1)
        first, second, third = (asyncio.create_task(_send(pool)) for _ in range(3))
        await asyncio.sleep(0.02)
        second.cancel()
        assert (await first).status == (await third).status == 201
        with pytest.raises(ApiUnreachable, match="no connection was free") as caught:
            await asyncio.gather(_send(pool), _send(pool, seconds=0.01))
        assert not caught.value.sent
        pool.close()


async def test_a_cancelled_write_closes_its_connection() -> None:
    """If this fails, the late answer to one write is taken for the answer to the next."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await _request(reader)
        if request.endswith(b"slow"):
            await asyncio.sleep(0.2)
        writer.write(OK.replace(b"{}", request[-2:]))
        await reader.read()

    async with serving(script) as server:
        pool = _pool(server, limit=1)
        with pytest.raises(ApiUnreachable, match="no answer in time") as caught:
            await _send(pool, seconds=0.05, body=b"slow")
        assert caught.value.sent
        task = asyncio.create_task(_send(pool, body=b"slow"))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert (await _send(pool, body=b"ok")).body == b"ok"
        assert server.connections == 3
        pool.close()


async def _received(sock: socket.socket) -> None:
    """Read to the end."""
    while await asyncio.get_running_loop().sock_recv(sock, 1 << 20):
        pass


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_what_was_not_sent_of_a_write_is_never_sent(loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """If this fails, the system goes on sending a write that was given up.

    A binding may then arrive when the next leader has given the room to another pod.
    """

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            pool = write_pool.WritePool(f"http://127.0.0.1:{listener.getsockname()[1]}", None, None, 1)
            # What the server does not read for now stays on the client's side.
            writing = asyncio.create_task(_send(pool, seconds=0.5, body=b"x" * (6 << 20)))
            accepted, _ = await loop.sock_accept(listener)
            with accepted:
                with pytest.raises(ApiUnreachable, match="no answer in time"):
                    await writing
                with pytest.raises(ConnectionResetError):
                    await _received(accepted)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main())


async def test_a_header_cannot_smuggle_another_request() -> None:
    """If this fails, a token file with a line break in it writes requests of its own."""
    async with serving(_answers(OK)) as server:
        pool = _pool(server)
        with pytest.raises(ApiUnreachable, match="the header Authorization holds a line break") as caught:
            await pool.send("POST", "/x", {"Authorization": "Bearer a\r\nX: y"}, b"{}", 5.0)
        assert not caught.value.sent
        pool.close()
