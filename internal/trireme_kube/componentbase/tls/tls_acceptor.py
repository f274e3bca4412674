"""Accepts HTTPS connections, with the certificate that is in the files at that moment.

Each connection gets its own TLS context, so a renewed certificate takes effect with the next connection. The first byte
is read before TLS begins: a client that speaks plain HTTP gets an error text, where OpenSSL would only close the
connection.
"""

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections.abc import Callable

log = logging.getLogger(__name__)

MAX_HANDSHAKES = 512
"""At a time; one more ends the oldest, so that callers who never finish theirs keep nobody else out."""
HANDSHAKE_SECONDS = 10.0
#: When there are no more file descriptors, trying again at once would only burn CPU.
EXHAUSTED_SECONDS = 0.5

_TLS_HANDSHAKE = 0x16
_PLAIN = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
_UNREAD_BYTES = 1 << 16
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class TlsAcceptor:
    """Serves `protocol`s on a listening socket until it is closed. `context` is called for each connection."""

    def __init__(
        self,
        listener: socket.socket,
        context: Callable[[], ssl.SSLContext],
        protocol: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        self._listener = listener
        self._context = context
        self._protocol = protocol
        # The oldest first.
        self._handshakes: dict[asyncio.Task[None], None] = {}

    async def run(self) -> None:
        """Accept until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listener)
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                log.error("no connection can be accepted: %s", error)
                await asyncio.sleep(EXHAUSTED_SECONDS)
                continue
            if len(self._handshakes) >= MAX_HANDSHAKES:
                oldest = next(iter(self._handshakes))
                self._handshakes.pop(oldest)
                oldest.cancel()
            task = asyncio.create_task(self._handshake_and_pass_on(connection))
            self._handshakes[task] = None
            task.add_done_callback(lambda done: self._handshakes.pop(done, None))

    async def close(self) -> None:
        """Stop listening; the protocol ends the open connections."""
        self._listener.close()
        for task in self._handshakes:
            task.cancel()
        await asyncio.gather(*self._handshakes, return_exceptions=True)

    async def _handshake_and_pass_on(self, connection: socket.socket) -> None:
        """Pass a TLS connection on to the protocol; plain HTTP gets a reply that says so, and is closed."""
        handed_over = False
        try:
            connection.setblocking(False)
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                first = await _peek_first_byte(connection)
                if first and first[0] != _TLS_HANDSHAKE:
                    await asyncio.get_running_loop().sock_sendall(connection, _PLAIN)
                    # Closing with something unread would reset the connection before the answer is read.
                    connection.shutdown(socket.SHUT_WR)
                    connection.recv(_UNREAD_BYTES)
                elif first:
                    handed_over = True  # the loop closes it from here on, also where the handshake fails
                    await asyncio.get_running_loop().connect_accepted_socket(
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
    loop = asyncio.get_running_loop()
    while True:
        with contextlib.suppress(BlockingIOError):
            return connection.recv(1, socket.MSG_PEEK)
        readable = asyncio.Event()
        loop.add_reader(connection.fileno(), readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(connection.fileno())
