"""The connections made with one client certificate, and their retirement when it is renewed.

client-go closes all connections, with the requests in flight, when it finds a new certificate. Here requests may
finish, since an aborted write has to be read back; watches are aborted, and continue on new connections.
Source: client-go transport/cert_rotation.go.

Tests: tests/contract/test_kube_client.py.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp


class Session:
    """An aiohttp session. Once retired, it closes after its last request."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self._http = http
        self._under_way = 0
        self._streams: dict[aiohttp.ClientResponse, None] = {}
        self._retired = False

    @property
    def closed(self) -> bool:
        """Whether all connections are closed."""
        return self._http.closed

    @asynccontextmanager
    async def in_use(self) -> AsyncIterator[aiohttp.ClientSession]:
        """Hold the session open for one request, to the end of its response."""
        self._under_way += 1
        try:
            yield self._http
        finally:
            self._under_way -= 1
            if self._retired and not self._under_way:
                await self._http.close()

    @asynccontextmanager
    async def streaming(self, response: aiohttp.ClientResponse) -> AsyncIterator[None]:
        """Read an endless response within the block; it is aborted when the block ends or the session retires."""
        self._streams[response] = None
        try:
            yield
        finally:
            self._streams.pop(response, None)
            abort(response)

    async def retire(self) -> None:
        """Abort watches, and close once the requests in flight have ended."""
        self._retired = True
        for response in list(self._streams):
            abort(response)
        if not self._under_way:
            await self._http.close()

    async def close(self) -> None:
        """Close all connections; requests in flight fail."""
        await self._http.close()


def abort(response: aiohttp.ClientResponse) -> None:
    """Drop the connection of a response, unless it was read to its end."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        # A plain close would wait up to 30 s for the server's TLS close_notify, with the socket open.
        connection.transport.abort()
    response.close()
