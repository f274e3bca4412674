"""Accepts HTTPS connections, with the certificate that is in the files at that moment.

Each connection gets its own TLS context, so a renewed certificate takes effect with the next connection. The first byte
is read before TLS begins: a client that speaks plain HTTP gets an error text, where OpenSSL would only close the
connection.

Tests: tests/unit/componentbase/tls/test_tls_acceptor.py, tests/unit/componentbase/server/test_connection_limits.py,
tests/security/test_insight_http.py.
"""

import asyncio
import contextlib
import errno
import functools
import logging
import select
import socket
import ssl
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

MAX_HANDSHAKES = 512
"""At a time; one more ends the oldest, so that callers who never finish theirs keep nobody else out."""
HANDSHAKE_SECONDS = 10.0
#: When there are no more file descriptors, trying again at once would only burn CPU.
EXHAUSTED_SECONDS = 0.5

_TLS_HANDSHAKE = 0x16
_PLAIN = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
_UNREAD_BYTES = 1 << 16
# The socket does not listen.
_NO_LISTENER = frozenset({errno.EBADF, errno.EINVAL, errno.ENOTSOCK})
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


async def _no_wait(_: Callable[[], int]) -> None:
    """There is always room."""


class TlsAcceptor:
    """Serves `protocol`s on a listening socket until it is closed."""

    def __init__(
        self,
        listener: socket.socket,
        context: Callable[[], ssl.SSLContext] | None,
        protocol: Callable[[], asyncio.BaseProtocol],
        room: Callable[[Callable[[], int]], Awaitable[None]] = _no_wait,
        patience: float = 0.0,
    ) -> None:
        """`context` is called for each connection; None: they are without TLS.

        `room` returns when a connection may be accepted beside so many that the protocol has yet to get; the others
        wait in the socket's backlog. So they do while the oldest handshake has taken less than `patience` seconds.
        """
        self._listener = listener
        self._context = context
        self._protocol = protocol
        self._room = room
        self._patience = patience
        # When each began, by the loop's clock; the oldest first.
        self._handshakes: dict[asyncio.Task[None], float] = {}
        # Connections whose tasks have not run yet: a task that is ended before closes nothing.
        self._unbegun: set[socket.socket] = set()

    async def run(self) -> None:
        """Accept until cancelled."""
        loop, waiting = asyncio.get_running_loop(), select.poll()
        waiting.register(self._listener, select.POLLIN)
        while True:
            # Others make room for a caller who is there, not for one who may come.
            if self._patience and not waiting.poll(0):
                await _wait_until_readable(self._listener)
            await self._wait_for_place()
            try:
                connection, _ = await loop.sock_accept(self._listener)
            except OSError as error:
                if error.errno in _NO_LISTENER:
                    raise
                # accept() also returns what went wrong with the connection itself, as where its client has reset it.
                if error.errno in _EXHAUSTED:
                    log.error("no connection can be accepted: %s; it is tried again", error)
                    await asyncio.sleep(EXHAUSTED_SECONDS)
                continue
            if len(self._handshakes) >= MAX_HANDSHAKES:
                oldest = next(iter(self._handshakes))
                self._handshakes.pop(oldest)
                oldest.cancel()
            task = asyncio.create_task(self._handshake_and_pass_on(connection))
            self._handshakes[task] = loop.time()
            self._unbegun.add(connection)
            task.add_done_callback(functools.partial(self._forget_handshake, connection))

    async def _wait_for_place(self) -> None:
        """Wait until a connection can be accepted without ending one that has just begun."""
        clock = asyncio.get_running_loop().time
        while len(self._handshakes) >= MAX_HANDSHAKES:
            left = next(iter(self._handshakes.values())) + self._patience - clock()
            if left <= 0:
                break
            await asyncio.wait(self._handshakes, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        await self._room(lambda: len(self._handshakes))

    def _forget_handshake(self, connection: socket.socket, task: asyncio.Task[None]) -> None:
        """Count a handshake that has ended no longer."""
        self._handshakes.pop(task, None)
        if connection in self._unbegun:
            self._unbegun.discard(connection)
            connection.close()

    async def close(self) -> None:
        """Stop listening; the protocol ends the open connections."""
        self._listener.close()
        for task in self._handshakes:
            task.cancel()
        await asyncio.gather(*self._handshakes, return_exceptions=True)

    async def _handshake_and_pass_on(self, connection: socket.socket) -> None:
        """Pass a connection on to the protocol; plain HTTP instead of TLS gets a reply that says so, and is closed."""
        handed_over, loop = False, asyncio.get_running_loop()
        try:
            self._unbegun.discard(connection)
            connection.setblocking(False)
            if self._context is None:
                handed_over = True
                await loop.connect_accepted_socket(self._protocol, connection)
                return
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                first = await _peek_first_byte(connection)
                if first and first[0] != _TLS_HANDSHAKE:
                    await loop.sock_sendall(connection, _PLAIN)
                    # Closing with something unread would reset the connection before the answer is read.
                    connection.shutdown(socket.SHUT_WR)
                    connection.recv(_UNREAD_BYTES)
                elif first:
                    handed_over = True  # the loop closes it from here on, also where the handshake fails
                    await loop.connect_accepted_socket(
                        self._protocol,
                        connection,
                        ssl=self._context(),
                        ssl_handshake_timeout=HANDSHAKE_SECONDS,
                    )
        except (OSError, TimeoutError) as error:  # ssl.SSLError is one
            log.debug("TLS handshake error: %s", error)
        finally:
            if not handed_over:
                connection.close()


async def _peek_first_byte(connection: socket.socket) -> bytes:
    """The first byte, left unread; empty if the client closed the connection."""
    while True:
        with contextlib.suppress(BlockingIOError):
            return connection.recv(1, socket.MSG_PEEK)
        await _wait_until_readable(connection)


async def _wait_until_readable(sock: socket.socket) -> None:
    """Wait for something to read on a connection, or to accept on a socket that listens."""
    loop, descriptor = asyncio.get_running_loop(), sock.fileno()
    readable = asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)
