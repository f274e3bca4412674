"""Reads a list in pages with read-ahead: the server prepares the next page while the reader processes one.

A page costs the server some milliseconds besides its objects, and the reader a pause of the event loop that grows with
its bytes. So the first page is short, and its size decides how many objects the others get. Invariants: one request at
a time, in order; at most AHEAD_BYTES, plus one page, wait for the reader; no page is requested twice, and none after a
page that failed.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from trireme_kube.client.informers import protobuf, resources
from trireme_kube.client.informers.watch import Raw
from trireme_kube.client.rest import client, content_types
from trireme_kube.client.rest.errors import ApiError

DEADLINE_SECONDS = 60.0
# Decoding this much takes some 5 ms from protobuf, and 20 from JSON.
PAGE_BYTES = 2 << 20
MAX_PAGE_OBJECTS = 2000
# Holds the pods of a cluster with a few thousand nodes; more would hold them in memory twice for little gain.
AHEAD_BYTES = 32 << 20

Page = tuple[Sequence[Raw], Mapping[str, Any]]


class Pages:
    """One list, requested on construction."""

    def __init__(self, api: client.ApiClient, resource: resources.Resource, accept: str, limit: int) -> None:
        """`accept` lists encodings, best first; `limit` is the most objects in the first page (0: all in one)."""
        self._api = api
        self._resource = resource
        self._accept = accept
        self._limit = limit
        self._bytes = 0
        # Bounded by their bytes; an error is the last entry.
        self._responses: asyncio.Queue[tuple[Page, int] | Exception] = asyncio.Queue()
        self._space_available = asyncio.Event()
        self._task = asyncio.create_task(self._read_ahead(), name=f"list {resource.name}")

    async def next(self) -> Page:
        """Return the next page: its objects, and the list's metadata. Do not call it after the last page or an error.

        Raises:
          ApiError, ApiUnreachable: there are no more pages.
        """
        response = await self._responses.get()
        if isinstance(response, Exception):
            raise response
        page, size = response
        self._bytes -= size
        self._space_available.set()
        return page

    async def close(self) -> None:
        """Stop reading ahead."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _read_ahead(self) -> None:
        """Read all pages, ahead of their use by up to AHEAD_BYTES.

        An error takes the place of a page: the reader meets it after the pages before it. Pages grow to about
        PAGE_BYTES.
        """
        token = ""
        try:
            while True:
                response = await self._request_page(token)
                items, metadata = decode_page(response)
                size = len(response.body)
                self._bytes += size
                self._responses.put_nowait(((items, metadata), size))
                token = str(metadata.get("continue") or "")
                if not token:
                    return
                objects_per_page = min(len(items) * PAGE_BYTES // max(size, 1), MAX_PAGE_OBJECTS)
                self._limit = max(self._limit, objects_per_page)
                while self._bytes > AHEAD_BYTES:
                    self._space_available.clear()
                    await self._space_available.wait()
        except Exception as error:
            self._responses.put_nowait(error)

    async def _request_page(self, token: str) -> client.ApiResponse:
        """Request one page; `token` is the continue token of the page before it."""
        params = self._resource.selectors()
        if self._limit:
            params["limit"] = self._limit
        if token:
            params["continue"] = token
        return await self._api.get(self._resource.path, params, accept=self._accept, deadline=DEADLINE_SECONDS)


def decode_page(response: client.ApiResponse) -> Page:
    """Return items and metadata of a list response.

    Raises:
      ApiError: the response is not a list.
    """
    if content_types.is_protobuf(response.headers.get("Content-Type")):
        return protobuf.page_of(response.body)
    document = response.json()
    if isinstance(document, dict) and isinstance(document.get("metadata"), dict):
        items = document.get("items")
        if items is None:  # Go writes an empty list as null
            items = []
        if isinstance(items, list) and all(isinstance(item, dict) for item in items):
            return items, document["metadata"]
    raise ApiError(502, "", "the answer is not a list of objects")
