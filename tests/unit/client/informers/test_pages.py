"""Lists in pages: asked for ahead of who reads them, as long as what they weigh allows, and no further than that."""

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from trireme_kube.client.informers import pages, resources
from trireme_kube.client.rest import client, content_types
from trireme_kube.client.rest.errors import ApiError

THINGS = resources.Resource("Thing", "/api/v1/things", label_selector="a=b", page=4)


class Server:
    """A collection of so many objects of so many bytes; keeps the limits and tokens that it was asked with."""

    def __init__(self, count: int, size: int, fails_at: int | None = None) -> None:
        self._count = count
        self._size = size
        self._fails_at = fails_at
        self.asked: list[tuple[int, str]] = []

    async def get(self, path: str, params: Mapping[str, Any], **_: object) -> client.ApiResponse:
        """One page."""
        assert (path, params["labelSelector"]) == (THINGS.path, THINGS.label_selector)
        limit, token = int(params.get("limit", 0)), str(params.get("continue", ""))
        self.asked.append((limit, token))
        if len(self.asked) == self._fails_at:
            raise ApiError(410, "Expired", "")
        start = int(token or 0)
        end = min(start + (limit or self._count), self._count)
        items = [{"number": number, "fill": "x" * self._size} for number in range(start, end)]
        metadata = {"resourceVersion": "7"} | ({"continue": str(end)} if end < self._count else {})
        return client.ApiResponse(200, {}, orjson.dumps({"metadata": metadata, "items": items}))


def _list(server: Server, limit: int = THINGS.page) -> pages.Pages:
    api: Any = server
    return pages.Pages(api, THINGS, content_types.JSON, limit)


async def _read(listed: pages.Pages) -> list[int]:
    numbers: list[int] = []
    while True:
        items, metadata = await listed.next()
        numbers += [item["number"] for item in items if not isinstance(item, bytes)]
        if "continue" not in metadata:
            return numbers


@pytest.mark.parametrize(
    ("size", "limit", "limits"),
    [
        (10, 4, [4, pages.MAX_PAGE_OBJECTS]),
        (pages.PAGE_BYTES // 8, 4, [4, 7, 7]),
        (pages.PAGE_BYTES, 4, [4, 4, 4, 4, 4]),
        (10, 0, [0]),
    ],
    ids=["small-objects", "larger-ones", "large-ones", "all-in-one"],
)
async def test_pages_are_as_long_as_their_objects_allow(size: int, limit: int, limits: list[int]) -> None:
    """If this fails, a list costs the server more requests than it need, or one of them holds the reader up."""
    server = Server(18, size)
    listed = _list(server, limit)
    assert await _read(listed) == list(range(18))
    assert [asked for asked, _ in server.asked] == limits
    await listed.close()


async def test_read_ahead_of_pages_is_bounded() -> None:
    """If this fails, a large cluster's lists are in memory as they were sent, all at once."""
    server = Server(400, pages.PAGE_BYTES // 4)
    listed = _list(server)
    for _ in range(200):
        await asyncio.sleep(0)
    ahead = len(server.asked)
    assert pages.AHEAD_BYTES // pages.PAGE_BYTES <= ahead <= pages.AHEAD_BYTES // pages.PAGE_BYTES + 1
    await listed.next()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(server.asked) == ahead + 1
    assert len(await _read(listed)) == 396
    await listed.close()


async def test_a_page_that_fails_comes_in_its_turn_and_is_the_last() -> None:
    """If this fails, pages that came are lost with the one that did not, or a failed list goes on or hangs."""
    server = Server(18, pages.PAGE_BYTES, fails_at=3)
    listed = _list(server)
    for start in (0, 4):
        items, _ = await listed.next()
        assert [item["number"] for item in items if not isinstance(item, bytes)] == list(range(start, start + 4))
    with pytest.raises(ApiError):
        await listed.next()
    assert len(server.asked) == 3
    await listed.close()
