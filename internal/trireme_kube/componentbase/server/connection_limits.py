"""Bounds what the callers of an HTTP server can hold: the number of connections, and how long one may be silent.

A connection costs a file descriptor, which watches and calls need too. When all places are taken, a new connection
replaces the one that has been silent longest: a caller that holds many connections can thus not keep a probe from its
answer, as it could if new connections were refused.

Source: IdleTimeout in k8s.io/apiserver/pkg/server/secure_serving.go; Go's server has no limit of connections.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import cast

from aiohttp import web

MAX_CONNECTIONS = 512
IDLE_SECONDS = 90.0
"""Within this time the headers of a connection's next request must be complete."""
_UNREAD_BODY_SECONDS = 2.0
"""How long the rest of a refused request's body is read, so that the caller sees the answer."""


def make_runner(application: web.Application, shutdown_seconds: float) -> web.AppRunner:
    """Make the runner that serves an application, and closes connections that are silent for too long."""
    return web.AppRunner(
        application,
        access_log=None,
        shutdown_timeout=shutdown_seconds,
        keepalive_timeout=IDLE_SECONDS,
        lingering_time=_UNREAD_BODY_SECONDS,
    )


class ConnectionLimits:
    """Makes the protocols of a server's connections, and closes the most silent one when there are too many.

    `protocol` makes the protocol that serves one connection.
    """

    def __init__(self, protocol: Callable[[], asyncio.Protocol]) -> None:
        self._protocol = protocol
        # The one that has been silent longest first.
        self._open: OrderedDict[_CountedConnection, None] = OrderedDict()

    def __call__(self) -> asyncio.Protocol:
        """The protocol for a new connection."""
        return _CountedConnection(self, self._protocol())

    def add(self, connection: "_CountedConnection") -> None:
        """Count a connection, and close another one if there are too many."""
        if len(self._open) >= MAX_CONNECTIONS:
            silent, _ = self._open.popitem(last=False)
            silent.abort()
        self._open[connection] = None

    def move_to_end(self, connection: "_CountedConnection") -> None:
        """Note that something has come on a connection."""
        if connection in self._open:
            self._open.move_to_end(connection)

    def remove(self, connection: "_CountedConnection") -> None:
        """Count a connection no longer."""
        self._open.pop(connection, None)


class _CountedConnection(asyncio.Protocol):
    """Passes everything on to the protocol that serves the connection."""

    def __init__(self, limits: ConnectionLimits, served: asyncio.Protocol) -> None:
        self._limits = limits
        self._served = served
        self._transport: asyncio.Transport | None = None

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not by isinstance: uvloop's transports do not subclass asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._limits.add(self)
        self._served.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._limits.move_to_end(self)
        self._served.data_received(data)

    def eof_received(self) -> bool | None:
        return self._served.eof_received()

    def pause_writing(self) -> None:
        self._served.pause_writing()

    def resume_writing(self) -> None:
        self._served.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._limits.remove(self)
        self._served.connection_lost(exc)
