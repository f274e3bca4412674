"""A relay between two processes that sees what is under way, so that a test can strike exactly then.

It copies bytes both ways and knows two things of them. Of gRPC: which calls were asked and not yet answered, read off
the frame headers of HTTP/2 without decoding anything else. And, whatever the protocol, it can hold back replies
(`hold`), so that a request has had its effect and the caller does not know.

It runs in the test's own event loop: between seeing a call and killing its receiver nothing else happens.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Self

_PREFACE = len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
_DATA, _HEADERS, _RST_STREAM = 0, 1, 3
_END_STREAM = 1
_HEADER = 9


class Frames:
    """One direction of an HTTP/2 connection: reports of each stream when it ended, and when it was reset."""

    def __init__(self, skip: int, ended: Callable[[int], None], reset: Callable[[int], None]) -> None:
        """`skip` bytes come before the first frame."""
        self._skip = skip
        self._ended = ended
        self._reset = reset
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        """The next bytes."""
        data = self._rest + chunk
        at = min(self._skip, len(data))
        self._skip -= at
        while at + _HEADER <= len(data):
            length = int.from_bytes(data[at : at + 3], "big")
            if at + _HEADER + length > len(data):
                break
            kind, flags, stream = data[at + 3], data[at + 4], int.from_bytes(data[at + 5 : at + 9], "big")
            if kind == _RST_STREAM:
                self._reset(stream)
            elif kind in (_DATA, _HEADERS) and flags & _END_STREAM:
                self._ended(stream)
            at += _HEADER + length
        self._rest = data[at:]


class Relay:
    """Listens on one address and passes everything on to another; as a context manager."""

    def __init__(self, target: str, listen: str = "", grpc: bool = False) -> None:
        """Addresses are `unix:/path` or `host:port`; without `listen` it takes a free port of loopback."""
        self._target = target
        self._listen = listen
        self._grpc = grpc
        self._server: asyncio.Server
        self._connections: set[asyncio.Task[None]] = set()
        self._passing = asyncio.Event()
        self._passing.set()
        self._asked: set[tuple[int, int]] = set()
        self._seen = asyncio.Event()
        self.held_bytes = 0
        """Bytes of replies that are held back."""

    @property
    def address(self) -> str:
        """Where it listens."""
        return self._listen

    @property
    def under_way(self) -> int:
        """Calls asked and not yet answered."""
        return len(self._asked)

    async def __aenter__(self) -> Self:
        if self._listen:
            self._server = await asyncio.start_unix_server(self._accept, self._listen.removeprefix("unix:"))
        else:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1")
            host, port = self._server.sockets[0].getsockname()
            self._listen = f"{host}:{port}"
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        self.cut()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def hold(self) -> None:
        """From now on requests pass and replies wait."""
        self._passing.clear()

    def cut(self) -> None:
        """Drop every connection, with the replies that it holds, and pass on those of the connections to come."""
        for connection in self._connections:
            connection.cancel()
        self._passing.set()
        self.held_bytes = 0

    async def struck(self, strike: Callable[[], None], seconds: float, after: float = 0.001) -> None:
        """Call `strike` while a call is under way, and return.

        `after` is how long that call should have been under way, in seconds. Calls that end sooner are let go by, and
        the wait is halved each time, so that short ones are met too.
        """
        async with asyncio.timeout(seconds):
            while True:
                while not self._asked:
                    self._seen.clear()
                    await self._seen.wait()
                meant = set(self._asked)
                if after > 0.0001:
                    await asyncio.sleep(after)
                    after /= 2
                if meant & self._asked:
                    strike()
                    return

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._serve(id(task), reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # either end went away, which is what these tests do to them
        except asyncio.CancelledError:
            pass  # cut; the server that made this task takes a cancelled one for an error
        finally:
            self._connections.discard(task)
            self._asked = {call for call in self._asked if call[0] != id(task)}
            writer.close()

    async def _serve(self, connection: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._target.startswith("unix:"):
            opening = asyncio.open_unix_connection(self._target.removeprefix("unix:"))
        else:
            host, _, port = self._target.rpartition(":")
            opening = asyncio.open_connection(host, int(port))
        far_reader, far_writer = await opening

        def asked(stream: int) -> None:
            self._asked.add((connection, stream))
            self._seen.set()

        def answered(stream: int) -> None:
            self._asked.discard((connection, stream))

        # A call is asked once the caller has said all; the snapshot stream, which goes on talking, is none.
        requests, replies = Frames(_PREFACE, asked, answered), Frames(0, answered, answered)
        there = asyncio.create_task(self._pump(reader, far_writer, requests, held=False))
        back = asyncio.create_task(self._pump(far_reader, writer, replies, held=True))
        try:
            # One end closed is the end of both: HTTP has no half-closed connections worth keeping.
            await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in (there, back):
                pump.cancel()
            await asyncio.gather(there, back, return_exceptions=True)
            far_writer.close()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frames: Frames, held: bool
    ) -> None:
        while chunk := await reader.read(1 << 16):
            if held and not self._passing.is_set():
                self.held_bytes += len(chunk)
                await self._passing.wait()
            if self._grpc:
                frames.feed(chunk)
            writer.write(chunk)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
