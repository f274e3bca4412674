"""Sends writes over a pool of persistent HTTP/1.1 connections, one POST, PUT, PATCH or DELETE at a time on each.

Every pod needs two writes, its binding and its event, and nothing else in a pod's path costs as much as a general HTTP
client's 110 µs a request, spent on sessions, redirects, cookies, timers and response streams that a small write to a
known server does not need. Here a write takes 50 µs, most of it TLS. The parser is httptools', the connection
asyncio's, TLS settings and credentials are the client's. Reads and watches, and all requests through a proxy, use the
aiohttp session.

Invariants: a connection has at most one request in flight; it is closed and not reused if its request was cancelled or
its response was not read to the end; no request is sent twice, and nothing of one that was given up is sent later.
Errors tell whether the server may have received the request (see `errors.ApiUnreachable`).

Also change: internal/trireme_kube/componentbase/server/connection_limits.py (idle connections).

Tests: tests/contract/test_kube_write_pool.py.
"""

from __future__ import annotations

import asyncio
import collections
import socket
import ssl
import struct
from collections.abc import Mapping
from typing import NamedTuple, cast
from urllib.parse import urlsplit

import httptools
import multidict

from trireme_kube.client.rest.errors import ApiUnreachable, is_connection_refused

# The response to a write is at most one object, and etcd refuses objects over 1.5 MiB.
MAX_ANSWER_BYTES = 32 << 20
# Connections opened at a time. Opening one costs both sides as much as two writes, mostly for TLS: in a burst of a
# hundred writes the first would wait for a hundred connections, most of them useless ten writes later.
MAX_OPENING = 4
# A connection without a request for so long is closed, as client-go does: after a burst the pool shrinks again.
# Source: net/http DefaultTransport.IdleConnTimeout.
IDLE_SECONDS = 90.0
# Of SO_LINGER: once the connection is closed, the process having ended included, the system sends nothing more. It
# would go on for minutes where the network is broken, and a binding that was given up would arrive when the next leader
# has given the room to another pod.
_DISCARD_UNSENT = struct.pack("ii", 1, 0)
# Cached encoded headers: one set for each content type, until the credentials change.
MAX_HEADS = 8


class Answer(NamedTuple):
    """The server's response."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes


class WritePool:
    """Connections to one server. Belongs to the running event loop."""

    def __init__(self, host: str, tls: ssl.SSLContext | None, server_name: str | None, limit: int) -> None:
        """A pool that opens connections as they are needed.

        `host` is the server's URL; `server_name` the name in its certificate if that is not the URL's; `limit` the
        greatest number of connections: further requests wait for one.
        """
        parts = urlsplit(host)
        self._host = host
        self._prefix = parts.path
        self._address = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        self._authority = parts.netloc.rpartition("@")[2]
        self._tls = tls if parts.scheme == "https" else None
        self._server_name = (server_name or parts.hostname) if self._tls else None
        self._limit = limit
        self._open = self._opening = 0
        self._idle: collections.deque[_PooledConnection] = collections.deque()  # that used last is the last
        self._close_unused_timer: asyncio.TimerHandle | None = None
        self._waiting: collections.deque[asyncio.Future[None]] = collections.deque()
        # By the id() of the headers; the value holds a reference to them so that the id is not reused.
        self._heads: dict[int, tuple[Mapping[str, str], bytes]] = {}

    def close(self) -> None:
        """Close idle connections now, and the others after their request."""
        self._limit = 0
        if self._close_unused_timer is not None:
            self._close_unused_timer.cancel()
        while self._idle:
            self._idle.pop().transport.abort()

    async def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes, seconds: float) -> Answer:
        """Send one request and wait up to `seconds` for the whole response. `path` includes the query, encoded.

        Raises:
          ApiUnreachable: no complete response came in time.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        connection = await self._take_connection(end)
        try:
            connection.begin(
                b"%s%s%d\r\n\r\n%s" % (self._request_line(method, path), self._header_bytes(headers), len(body), body),
                end,
            )
            return await connection.answer
        except (OSError, TimeoutError, httptools.HttpParserError) as error:
            raise self._unreachable(error) from error
        finally:
            self._take_back_after_request(connection)

    def _request_line(self, method: str, path: str) -> bytes:
        """Return the first line of a request."""
        return f"{method} {self._prefix}{path} HTTP/1.1\r\n".encode("ascii")

    def _header_bytes(self, headers: Mapping[str, str]) -> bytes:
        """Return the header lines up to the value of Content-Length; encoded once per set of headers."""
        cached = self._heads.get(id(headers))
        if cached is not None:
            return cached[1]
        lines = [("Host", self._authority), *headers.items()]
        for name, value in lines:
            if "\r" in value or "\n" in value or "\0" in value:
                raise ApiUnreachable(f"{self._host}: the header {name} holds a line break", sent=False)
        encoded = "".join(f"{name}: {value}\r\n" for name, value in lines).encode("utf-8") + b"Content-Length: "
        if len(self._heads) >= MAX_HEADS:
            self._heads.clear()
        self._heads[id(headers)] = (headers, encoded)
        return encoded

    async def _take_connection(self, end: float) -> _PooledConnection:
        """Return an idle connection, or a new one if there is room; else wait for one. Raises: ApiUnreachable."""
        while True:
            while self._idle:
                connection = self._idle.pop()
                if not connection.transport.is_closing():
                    return connection
                self._open -= 1
            if self._open < max(self._limit, 1) and self._opening < MAX_OPENING:
                return await self._open_connection(end)
            await self._wait_for_turn(end)

    async def _wait_for_turn(self, end: float) -> None:
        """Wait until a connection may be free."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout_at(end):
                await turn
        except BaseException as error:
            if not turn.cancelled():
                self._wake_longest_waiter()  # our turn came as we were cancelled: pass it on
            if isinstance(error, TimeoutError):
                raise ApiUnreachable(f"{self._host}: no connection was free in time", sent=False) from error
            raise

    async def _open_connection(self, end: float) -> _PooledConnection:
        """Open a connection; one that fails gives its place to the next in line. Raises: ApiUnreachable."""
        loop = asyncio.get_running_loop()
        self._open += 1
        self._opening += 1
        try:
            async with asyncio.timeout_at(end):
                host, port = self._address
                _, connection = await loop.create_connection(
                    lambda: _PooledConnection(loop), host, port, ssl=self._tls, server_hostname=self._server_name
                )
        except (OSError, TimeoutError) as error:
            self._note_connection_gone()
            text = "no connection in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
            raise ApiUnreachable(f"{self._host}: {text}", sent=False, refused=is_connection_refused(error)) from error
        except BaseException:
            self._note_connection_gone()
            raise
        finally:
            self._opening -= 1
        if self._open < self._limit:
            self._wake_longest_waiter()  # the next may open one
        return connection

    def _take_back_after_request(self, connection: _PooledConnection) -> None:
        """Take a connection back after its request; it is closed if it cannot be used again."""
        if connection.reusable and self._limit:
            connection.idle_since = connection.loop.time()
            self._idle.append(connection)
            if self._close_unused_timer is None:
                self._close_unused_timer = connection.loop.call_later(IDLE_SECONDS, self._close_unused)
            self._wake_longest_waiter()
        else:
            connection.transport.abort()
            self._note_connection_gone()

    def _close_unused(self) -> None:
        """Close the connections that were idle for long, and come back when the next may have been."""
        self._close_unused_timer = None
        loop = asyncio.get_running_loop()
        while self._idle:
            end = self._idle[0].idle_since + IDLE_SECONDS
            if end > loop.time():
                self._close_unused_timer = loop.call_at(end, self._close_unused)
                return
            self._idle.popleft().transport.abort()
            self._note_connection_gone()

    def _note_connection_gone(self) -> None:
        """Note that a connection is gone, so that the next waiter may open one."""
        self._open -= 1
        self._wake_longest_waiter()

    def _wake_longest_waiter(self) -> None:
        """Let the request that has waited longest look for a connection."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def _unreachable(self, error: Exception) -> ApiUnreachable:
        """Return the error of a request that got no complete response, by what went wrong."""
        if isinstance(error, TimeoutError):
            return ApiUnreachable(f"{self._host}: no answer in time", sent=True)
        if isinstance(error, httptools.HttpParserError):
            return ApiUnreachable(f"{self._host}: the answer is not HTTP: {error}", sent=True)
        return ApiUnreachable(f"{self._host}: {error or 'the server closed the connection'}", sent=True, dropped=True)


class _PooledConnection(asyncio.Protocol):
    """One connection and its pending response."""

    transport: asyncio.Transport

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.reusable = False
        self.idle_since = 0.0
        self._parser: httptools.HttpResponseParser | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, request: bytes, end: float) -> None:
        """Send a request; `answer` is done by `end`."""
        self.answer: asyncio.Future[Answer] = self.loop.create_future()
        self.reusable = False
        self._reason = ""
        self._headers: list[tuple[str, str]] = []
        self._body: list[bytes] = []
        self._size = 0
        self._parser = httptools.HttpResponseParser(self)
        self._timer = self.loop.call_at(end, self._fail_answer_by_timeout)
        self.transport.write(request)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DISCARD_UNSENT)

    def data_received(self, data: bytes) -> None:
        if self._parser is None:
            # Unsolicited data: the connection is unusable.
            self.transport.abort()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._finish_answer(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self.reusable = False
        self._finish_answer(
            exc if isinstance(exc, OSError) else ConnectionResetError("the server closed the connection")
        )

    # Callbacks of the parser

    def on_status(self, reason: bytes) -> None:
        self._reason += reason.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > MAX_ANSWER_BYTES:
            self._finish_answer(httptools.HttpParserError(f"more than {MAX_ANSWER_BYTES} bytes"))
            return
        self._body.append(body)

    def on_message_complete(self) -> None:
        parser = self._parser
        if parser is None:
            return
        status = parser.get_status_code()
        if status < 200:  # an informational response precedes the real one
            self._headers.clear()
            self._reason = ""
            return
        self.reusable = parser.should_keep_alive() and not self.transport.is_closing()
        headers: multidict.CIMultiDict[str] = multidict.CIMultiDict(self._headers)
        self._finish_answer(Answer(status, self._reason, headers, b"".join(self._body)))

    def _fail_answer_by_timeout(self) -> None:
        self._finish_answer(TimeoutError())

    def _finish_answer(self, outcome: Answer | Exception) -> None:
        """End the pending response, with an answer or an error; later calls change nothing."""
        self._parser = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            if self.answer.done():
                return
            if isinstance(outcome, Answer):
                self.answer.set_result(outcome)
            else:
                self.answer.set_exception(outcome)
