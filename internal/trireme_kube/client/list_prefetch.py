"""A list that was begun ahead of whoever reads it: a watch that begins with all objects, read into memory meanwhile.

What an API server lists of a large cluster takes it most of a second, and a scheduler that starts has its own modules
to load in that time; both end sooner side by side. Where the server refuses the stream, pages are begun in its place.

Nothing is decoded before the reader comes, and at most AHEAD_BYTES are read: then the server waits, until there is one.
From then on the reader reads by itself, after what was read before.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import types
from typing import Self

from trireme_kube.client import client, pages, resources
from trireme_kube.client.errors import TOO_MANY_REQUESTS, ApiError, ApiUnreachable

# A watch that is silent for longer than this may be dead, and is opened anew. It need not be: a bookmark comes about
# once a minute, but none where the API server knows of nothing newer in the collection than the watch's own version.
IDLE_SECONDS = 90.0
# How long after its own end the server may take to close a watch.
GRACE_SECONDS = 30.0
# Pods of a cluster with a few thousand nodes; more would be kept twice for little.
AHEAD_BYTES = 32 << 20


def stream_parameters(resource: resources.Resource, version: str, seconds: int) -> client.Params:
    """The parameters of a watch that begins with all objects, at no older a version. Empty: at the newest."""
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
    """One list, begun at once. An asynchronous context manager for its reader, who enters it once or never."""

    def __init__(self, api: client.ApiClient, resource: resources.Resource, accept: str, seconds: int) -> None:
        """`accept` names encodings, best first; `seconds` is how long the watch may last."""
        self._api = api
        self._resource = resource
        #: The encodings that were asked for.
        self.accept = accept
        self._seconds = seconds
        self._chunks: collections.deque[bytes] = collections.deque()
        self._stack = contextlib.AsyncExitStack()
        self._opened: asyncio.Future[client.ByteStream] = asyncio.get_running_loop().create_future()
        self._failed: Exception | None = None  # after what was read
        self._reading = asyncio.create_task(self._read(), name=f"list {resource.name}")
        #: The list in pages, where the stream was refused.
        self.pages: pages.Pages | None = None

    async def __aenter__(self) -> Self:
        """Take over the stream.

        Raises:
          ApiError, ApiUnreachable: it could not be opened.
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
        """The encoding it comes in."""
        return self._opened.result().content_type

    async def chunk(self) -> bytes:
        """As ByteStream.chunk."""
        if self._chunks:
            return self._chunks.popleft()
        if self._failed is not None:
            raise self._failed
        return await self._opened.result().chunk()

    def close(self) -> None:
        """Breaks it off: a `chunk` under way raises."""
        self._opened.result().close()

    async def end(self) -> None:
        """Nobody reads it any more."""
        await self._stop_reading()
        await self._stack.aclose()
        if self.pages is not None:
            await self.pages.close()
        if self._opened.done() and not self._opened.cancelled():
            self._opened.exception()  # nobody may have asked

    async def _stop_reading(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self) -> None:
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
            while size < AHEAD_BYTES:
                chunk = await stream.chunk()
                self._chunks.append(chunk)
                size += len(chunk)
                if not chunk:
                    return
        except ApiUnreachable as error:
            self._failed = error
