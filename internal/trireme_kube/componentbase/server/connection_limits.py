"""Bounds what the callers of an HTTP server can hold: the number of connections, and how long one may be silent.

A connection costs a file descriptor, which watches and calls need too. When all places are taken, a new connection
replaces the one that has been silent longest: a caller that holds many connections can thus not keep a probe from its
answer, as it could if new connections were refused. A connection whose request is being answered is not silent. With
patience, new ones wait in the socket's backlog while all have been heard of just now (`wait_for_room`): so of ten
thousand requests that come at once, each on a connection of its own, all are answered. Whoever opens connections all
the time delays others then, so a site with probes has none.

Source: IdleTimeout in k8s.io/apiserver/pkg/server/secure_serving.go; Go's server has no limit of connections.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import cast

from aiohttp import web

MAX_CONNECTIONS = 512
IDLE_SECONDS = 90.0
"""Within this time the headers of a connection's next request must be complete."""
CHECK_SECONDS = 0.1
_UNREAD_BODY_SECONDS = 2.0
"""How long the rest of a refused request's body is read, so that the caller sees the answer."""


def make_runner(application: web.Application, shutdown_seconds: float) -> web.AppRunner:
    """Make the runner that serves an application, and closes connections that are silent for too long."""
    application[_CONNECTIONS] = {}
    application.middlewares.append(_note_answer)
    return web.AppRunner(
        application,
        access_log=None,
        shutdown_timeout=shutdown_seconds,
        keepalive_timeout=IDLE_SECONDS,
        lingering_time=_UNREAD_BODY_SECONDS,
    )


@web.middleware
async def _note_answer(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Answer a request, during which its connection is not silent; with the answer it ends where room is scarce."""
    connection = request.app[_CONNECTIONS].get(request.protocol)
    if connection is None:  # it is not counted
        return await handler(request)
    connection.answering = True
    try:
        response = await handler(request)
        if connection.makes_room:
            response.force_close()
        return response
    finally:
        connection.answering = False
        connection.note_activity()


class ConnectionLimits:
    """Makes the protocols of a server's connections, and closes the most silent one when there are too many.

    `runner` has been set up. A connection that was silent for less than `patience` seconds is not replaced by one that
    can wait.
    """

    def __init__(self, runner: web.AppRunner, patience: float = 0.0) -> None:
        assert runner.server is not None  # setup made it
        self._protocol: Callable[[], asyncio.Protocol] = runner.server
        self.by_protocol = runner.app[_CONNECTIONS]
        # The one that has been silent longest first.
        self._open: OrderedDict[_CountedConnection, None] = OrderedDict()
        self._closed = asyncio.Event()
        self._patience = patience

    def __call__(self) -> asyncio.Protocol:
        """The protocol for a new connection."""
        return _CountedConnection(self, self._protocol())

    @property
    def is_room_scarce(self) -> bool:
        """Whether so many are open that others will soon wait for those that stay open without a request."""
        return self._patience > 0 and len(self._open) >= MAX_CONNECTIONS // 2

    async def wait_for_room(self, coming: Callable[[], int]) -> None:
        """Return when there is room for one more beside those `coming`, without closing one that was just heard of."""
        clock = asyncio.get_running_loop().time
        while self._open and len(self._open) + coming() >= MAX_CONNECTIONS:
            silent = self._most_silent()
            left = self._patience if silent.answering else silent.heard_at + self._patience - clock()
            if left <= 0:
                break
            self._closed.clear()
            with contextlib.suppress(TimeoutError):
                # One that was coming may have failed meanwhile, which is no event here.
                async with asyncio.timeout(min(left, CHECK_SECONDS)):
                    await self._closed.wait()

    def add(self, connection: "_CountedConnection") -> None:
        """Count a connection, and close another one if there are too many."""
        if len(self._open) >= MAX_CONNECTIONS:
            silent = self._most_silent()
            del self._open[silent]
            silent.abort()
        self._open[connection] = None

    def _most_silent(self) -> "_CountedConnection":
        """The connection that has been silent longest; of those that are being answered only if all are."""
        return next((each for each in self._open if not each.answering), next(iter(self._open)))

    def move_to_end(self, connection: "_CountedConnection") -> None:
        """Note that something has come on a connection."""
        if connection in self._open:
            self._open.move_to_end(connection)

    def remove(self, connection: "_CountedConnection") -> None:
        """Count a connection no longer."""
        self._open.pop(connection, None)
        self._closed.set()


class _CountedConnection(asyncio.Protocol):
    """Passes everything on to the protocol that serves the connection."""

    def __init__(self, limits: ConnectionLimits, served: asyncio.Protocol) -> None:
        self._limits = limits
        self._served = served
        self._transport: asyncio.Transport | None = None
        #: Whether a request is being answered.
        self.answering = False
        #: When something came last, or was answered, by the loop's clock.
        self.heard_at = 0.0

    @property
    def makes_room(self) -> bool:
        """Whether it is to end with the next answer: others may wait until it does."""
        return self._limits.is_room_scarce

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def note_activity(self) -> None:
        """Note that something came, or was answered."""
        self.heard_at = asyncio.get_running_loop().time()
        self._limits.move_to_end(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not by isinstance: uvloop's transports do not subclass asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._limits.add(self)
        self._limits.by_protocol[self._served] = self
        self.note_activity()
        self._served.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self.note_activity()
        self._served.data_received(data)

    def eof_received(self) -> bool | None:
        return self._served.eof_received()

    def pause_writing(self) -> None:
        self._served.pause_writing()

    def resume_writing(self) -> None:
        self._served.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._limits.remove(self)
        self._limits.by_protocol.pop(self._served, None)
        self._served.connection_lost(exc)


# By the protocol that serves it, each connection that is counted.
_CONNECTIONS = web.AppKey("connections", dict[asyncio.BaseProtocol, _CountedConnection])
