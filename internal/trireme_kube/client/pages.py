"""A list in pages, asked for ahead of whoever reads it: the server makes the next page while one is worked in.

It may begin before its reader is there. What an API server lists of a large cluster takes it most of a second, and a
scheduler that starts has its own modules to load meanwhile; both end sooner side by side.

A page costs the server some milliseconds besides its objects, and the reader a turn that grows with its bytes. So the
first is short, to have something soon, and the others are as long as what the first weighed allows. Invariants: one
request at a time, in order; no more than AHEAD_BYTES of what was sent wait to be read, a page apart; nothing is sent
twice, and nothing after a page that failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from trireme_kube.client import client, content_types, protobuf, resources
from trireme_kube.client.errors import ApiError
from trireme_kube.client.watch import Raw

DEADLINE_SECONDS = 60.0
# Reading this much in one go takes some 5 ms in protobuf, and 20 in JSON.
PAGE_BYTES = 2 << 20
MAX_PAGE_OBJECTS = 2000
# Pods of a cluster with a few thousand nodes; more would be kept twice for little.
AHEAD_BYTES = 32 << 20

Page = tuple[Sequence[Raw], Mapping[str, Any]]


class Pages:
    """One list, begun at once."""

    def __init__(self, api: client.ApiClient, resource: resources.Resource, accept: str, limit: int) -> None:
        """`accept` names encodings, best first; `limit` is how many objects the first page may have, 0: all in one."""
        self._api = api
        self._resource = resource
        self._accept = accept
        self._limit = limit
        self._bytes = 0
        # Bounded by their bytes; an error is the last.
        self._responses: asyncio.Queue[tuple[Page, int] | Exception] = asyncio.Queue()
        self._space_available = asyncio.Event()
        self._task = asyncio.create_task(self._read_ahead(), name=f"list {resource.name}")

    async def next(self) -> Page:
        """The next page: its objects, and the list's metadata. To be asked once for each, until one fails.

        Raises:
          ApiError, ApiUnreachable: there will be no more of them.
        """
        response = await self._responses.get()
        if isinstance(response, Exception):
            raise response
        page, size = response
        self._bytes -= size
        self._space_available.set()
        return page

    async def close(self) -> None:
        """Ask for nothing more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _read_ahead(self) -> None:
        token = ""
        try:
            while True:
                response = await self._request(token)
                items, metadata = list_of(response)
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

    async def _request(self, token: str) -> client.ApiResponse:
        params = self._resource.selectors()
        if self._limit:
            params["limit"] = self._limit
        if token:
            params["continue"] = token
        return await self._api.get(self._resource.path, params, accept=self._accept, deadline=DEADLINE_SECONDS)


def list_of(response: client.ApiResponse) -> Page:
    """Items and metadata of a list's answer.

    Raises:
      ApiError: it is no list.
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
