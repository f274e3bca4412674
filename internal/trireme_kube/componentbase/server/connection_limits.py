"""Bounds what the callers of an HTTP server can hold: the number of connections, and how long one may be silent.

A connection costs a file descriptor, which watches and calls need too. When all places are taken, a new connection
replaces the one that has been silent longest: a caller that holds many connections can thus not keep a probe from its
answer, as it could if new connections were refused. Silent is a connection between two requests, and one whose request
head is incomplete: sending a head byte by byte keeps no place. One whose request is being answered is replaced last.

With patience, new ones wait in the socket's backlog for those that were opened or answered just now (`wait_for_room`):
so of ten thousand requests that come at once, each on a connection of its own, all are answered. They wait for no
longer than the patience, whatever the callers of the others do. A caller that opens connections all the time delays
others then, so a site with probes has none.

Source: IdleTimeout in k8s.io/apiserver/pkg/server/secure_serving.go; Go's server has no limit of connections.

Also change: internal/trireme_kube/client/rest/write_pool.py (idle connections).
"""

import asyncio
import contextlib
import itertools
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import cast

from aiohttp import web

from trireme_kube.componentbase.server import status_documents

MAX_CONNECTIONS = 512
IDLE_SECONDS = 90.0
"""Within this time the headers of a connection's next request must be complete."""
CHECK_SECONDS = 0.1
_UNREAD_BODY_SECONDS = 2.0
"""How long the rest of a refused request's body is read, so that the caller sees the answer."""
# Within this time a request that is refused for others must have ended, else its connection is closed.
_REFUSAL_SECONDS = 1.0


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
    """Answer a request, or refuse it for others that wait; with the answer its connection ends where room is scarce."""
    connection = request.app[_CONNECTIONS].get(request.protocol)
    if connection is None:  # it is not counted
        return await handler(request)
    limit = asyncio.timeout(None)
    try:
        async with limit:
            connection.begin_answer(limit)
            response = await handler(request)
    except TimeoutError:
        if not limit.expired():
            raise
        response = _refusal()
    finally:
        connection.end_answer()
    if connection.makes_room:
        response.force_close()
    return response


def _refusal() -> web.Response:
    """The answer to a request that took long while others waited for its place."""
    text = f"{MAX_CONNECTIONS} connections are open, and others wait for this one: try again after 1 s"
    document = status_documents.failure(429, "TooManyRequests", text)
    return web.Response(
        text=document.body, status=document.status, content_type=document.content_type, headers={"Retry-After": "1"}
    )


class ConnectionLimits:
    """Makes the protocols of a server's connections, and closes the most silent one when there are too many.

    `runner` has been set up. One that can wait for a place does so for `patience` seconds at most, and replaces none
    before that was silent, or answered, for less than these.
    """

    def __init__(self, runner: web.AppRunner, patience: float = 0.0) -> None:
        assert runner.server is not None  # setup made it
        self._protocol: Callable[[], asyncio.Protocol] = runner.server
        self.by_protocol = runner.app[_CONNECTIONS]
        # The one with the oldest note first.
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
        """Return when one more may be accepted beside those `coming`; after `patience` seconds it may in any case."""
        clock = asyncio.get_running_loop().time
        latest = clock() + self._patience
        while self._open and (beyond := len(self._open) + coming() + 1 - MAX_CONNECTIONS) > 0:
            last = self._replaced(min(beyond, len(self._open)))
            left = min(latest, last.heard_at + self._patience) - clock()
            if left <= 0:
                # Handshakes alone, which may never end, cost nobody an answer.
                if not last.is_answering or not self.is_room_scarce:
                    break
                last.refuse()
                latest = clock() + _REFUSAL_SECONDS
                continue
            self._closed.clear()
            with contextlib.suppress(TimeoutError):
                # One that was coming may have failed meanwhile, which is no event here.
                async with asyncio.timeout(min(left, CHECK_SECONDS)):
                    await self._closed.wait()

    def add(self, connection: "_CountedConnection") -> None:
        """Count a connection, and close another one if there are too many."""
        if len(self._open) >= MAX_CONNECTIONS:
            silent = self._replaced(1)
            del self._open[silent]
            silent.abort()
        self._open[connection] = None

    def _replaced(self, nth: int) -> "_CountedConnection":
        """The connection that the `nth` new one replaces: of those silent the longest, then of those being answered."""
        silent = (each for each in self._open if not each.is_answering)
        answered = (each for each in self._open if each.is_answering)
        return next(itertools.islice(itertools.chain(silent, answered), nth - 1, None))

    def move_to_end(self, connection: "_CountedConnection") -> None:
        """Note that something is to be noted of a connection just now."""
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
        # The time limit of the request that is being answered; None: none is.
        self._limit: asyncio.Timeout | None = None
        # Whether the next byte begins the head of another request.
        self._is_between_requests = False
        #: When it was opened or answered last, or a head behind an answer began or was complete, by the loop's clock.
        self.heard_at = 0.0

    @property
    def is_answering(self) -> bool:
        """Whether a request is being answered, and is not refused yet."""
        return self._limit is not None

    @property
    def makes_room(self) -> bool:
        """Whether it is to end with the next answer: others may wait until it does."""
        return self._limits.is_room_scarce

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def begin_answer(self, limit: asyncio.Timeout) -> None:
        """Note that a request is being answered, within this limit."""
        self._limit = limit
        self.note_activity()

    def refuse(self) -> None:
        """End the request that is being answered by a refusal."""
        assert self._limit is not None
        self._limit.reschedule(asyncio.get_running_loop().time())
        self._limit = None
        self.note_activity()

    def end_answer(self) -> None:
        """Note that no request is being answered any more."""
        self._limit = None
        self._is_between_requests = True
        self.note_activity()

    def note_activity(self) -> None:
        """Note that something happened that bytes alone do not bring about."""
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
        if self._is_between_requests:
            self._is_between_requests = False
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
