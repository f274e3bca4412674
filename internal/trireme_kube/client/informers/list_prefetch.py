"""Prefetches a list before its informer runs: opens a streaming list and buffers its bytes in memory.

Listing a large cluster takes an API server most of a second, and a starting scheduler spends as long importing
modules; doing both at once shortens the start. Where the server refuses the stream, pages are requested instead, except
after a 404 or 429: paging would not help there, and the informer lists by itself.

The prefetch decodes nothing and buffers at most AHEAD_BYTES; beyond that, back-pressure stops the server. Once the
informer takes over, it reads the buffer first and then the stream itself.

Also change: internal/trireme/shadow/interruptions.py (how long a silent watch may be alive).

Tests: tests/contract/test_kube_informer.py.
"""

import asyncio
import collections
import contextlib
import types
from typing import Self

from trireme_kube.client.informers import pages, resources
from trireme_kube.client.rest import client, transport
from trireme_kube.client.rest.errors import TOO_MANY_REQUESTS, ApiError, ApiUnreachable

# A watch that is silent for longer may be dead and is reopened. It may also be healthy: bookmarks come about once a
# minute, but none while the collection has nothing newer than the watch's own version.
IDLE_SECONDS = 90.0
# How long the server may take to close a watch after its timeout.
GRACE_SECONDS = 30.0


def stream_parameters(resource: resources.Resource, version: str, seconds: int) -> client.Params:
    """The parameters of a streaming list no older than `version`; "" means the newest."""
    return {
        **resource.selectors(),
        "watch": "true",
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "timeoutSeconds": seconds,
        **({"resourceVersion": version} if version else {}),
    }


class ListPrefetch:
    """One list, requested on construction. Its reader enters it as an async context manager, once or never."""

    def __init__(self, api: client.ApiClient, resource: resources.Resource, accept: str, seconds: int) -> None:
        """`accept` names encodings, best first; `seconds` is how long the watch may last."""
        self._api = api
        self._resource = resource
        #: The requested encodings.
        self.accept = accept
        self._seconds = seconds
        self._chunks: collections.deque[bytes] = collections.deque()
        self._stack = contextlib.AsyncExitStack()
        self._opened: asyncio.Future[transport.ByteStream] = asyncio.get_running_loop().create_future()
        self._failed: Exception | None = None  # raised once the buffered chunks are read
        self._reading = asyncio.create_task(self._read_ahead(), name=f"list {resource.name}")
        #: The list in pages, set if the server refused the stream.
        self.pages: pages.Pages | None = None

    async def __aenter__(self) -> Self:
        """Take over the stream, with the chunks buffered so far.

        Raises:
          ApiError, ApiUnreachable: the stream could not be opened.
        """
        await asyncio.shield(self._opened)
        await self._stop_reading()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @property
    def content_type(self) -> str:
        """The encoding of the stream."""
        return self._opened.result().content_type

    async def chunk(self) -> bytes:
        """Return the next chunk, as `ByteStream.chunk` does."""
        if self._chunks:
            return self._chunks.popleft()
        if self._failed is not None:
            raise self._failed
        return await self._opened.result().chunk()

    def close(self) -> None:
        """Abort the stream: a pending `chunk` raises."""
        self._opened.result().close()

    async def end(self) -> None:
        """Release the stream and the pages of a prefetch that nobody will read."""
        await self._stop_reading()
        await self._stack.aclose()
        if self.pages is not None:
            await self.pages.close()
        if self._opened.done() and not self._opened.cancelled():
            self._opened.exception()  # marks it as retrieved; the reader may never have come

    async def _stop_reading(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def _read_ahead(self) -> None:
        """Open the stream and buffer up to AHEAD_BYTES of it; where it is refused, begin to read the list in pages."""
        opening = self._api.stream(
            self._resource.path,
            stream_parameters(self._resource, "", self._seconds),
            total=self._seconds + GRACE_SECONDS,
            idle=IDLE_SECONDS,
            accept=self.accept,
        )
        try:
            stream = await self._stack.enter_async_context(opening)
        except (ApiError, ApiUnreachable) as error:
            if isinstance(error, ApiError) and not (error.not_found or error.status == TOO_MANY_REQUESTS):
                self.pages = pages.Pages(self._api, self._resource, self.accept, self._resource.page)
            self._opened.set_exception(error)
            return
        self._opened.set_result(stream)
        size = 0
        try:
            while size < pages.AHEAD_BYTES:
                chunk = await stream.chunk()
                self._chunks.append(chunk)
                size += len(chunk)
                if not chunk:
                    return
        except ApiUnreachable as error:
            self._failed = error
