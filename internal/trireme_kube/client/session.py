"""The connections that were made with one client certificate, and their end when the certificate is renewed.

client-go closes all connections when it finds a new certificate, and with them the requests under way. Here these may
finish, since a write that is broken off has to be read back; watches are broken off, and continue on new connections.
Source: client-go transport/cert_rotation.go.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp


class Session:
    """A session of aiohttp. Once retired, it closes when the requests under way have ended."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self._http = http
        self._under_way = 0
        self._streams: set[aiohttp.ClientResponse] = set()
        self._retired = False

    @property
    def closed(self) -> bool:
        """Whether it has no connections any more."""
        return self._http.closed

    @asynccontextmanager
    async def in_use(self) -> AsyncIterator[aiohttp.ClientSession]:
        """For one request, to the end of its answer."""
        self._under_way += 1
        try:
            yield self._http
        finally:
            self._under_way -= 1
            if self._retired and not self._under_way:
                await self._http.close()

    @asynccontextmanager
    async def streaming(self, response: aiohttp.ClientResponse) -> AsyncIterator[None]:
        """While an answer without an end is read; it is broken off when the block ends, or this session retires."""
        self._streams.add(response)
        try:
            yield
        finally:
            self._streams.discard(response)
            break_off(response)

    async def retire(self) -> None:
        """There is another session from now on."""
        self._retired = True
        for response in list(self._streams):
            break_off(response)
        if not self._under_way:
            await self._http.close()

    async def close(self) -> None:
        """Close all connections; requests under way fail."""
        await self._http.close()


def break_off(response: aiohttp.ClientResponse) -> None:
    """Drop the connection of an answer, unless it was read to its end."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        # A mere close would wait up to 30 s for the server's part of the TLS farewell, with the socket open.
        connection.transport.abort()
    response.close()
