"""A watch of all pods from a test's start, which remembers what a list at the end could not show.

A pod bound to one node and then to another looks, afterwards, like a pod bound once. So the witness follows every
change: a pod (by its uid) whose `spec.nodeName` changes once it is set was bound twice, whatever came after. It also
knows at any moment how many pods there are and how many of them have a node, for the price of reading the watch.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import orjson

# Without an end of its own: it lasts as long as the test, which has one.
_FOREVER = aiohttp.ClientTimeout(total=None, connect=10)


class Witness:
    """What happened to each pod, by uid."""

    def __init__(self) -> None:
        self.node_of: dict[str, str] = {}
        """The node of every pod that was ever bound."""
        self.bound_at: dict[str, float] = {}
        """When the binding was seen, by the monotonic clock."""
        self.moved: list[str] = []
        """Every change of a node once set, in words."""
        self.names: dict[str, str] = {}
        """The names of the pods that exist."""
        self.failure = ""
        """Why it does not watch any more."""

    @property
    def bound(self) -> int:
        """How many of the pods that exist have a node."""
        return sum(1 for uid in self.names if uid in self.node_of)

    @property
    def unbound(self) -> int:
        """How many of the pods that exist have none."""
        return len(self.names) - self.bound

    def take(self, event: Mapping[str, Any]) -> None:
        """Remember one event of the watch."""
        pod = event["object"]
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        node, known = pod["spec"].get("nodeName", ""), self.node_of.get(uid, "")
        if known and node != known:
            self.moved.append(f"{name} went from {known} to {node or 'no node'}")
        if node and not known:
            self.node_of[uid] = node
            self.bound_at[uid] = time.monotonic()
        if event["type"] == "DELETED":
            self.names.pop(uid, None)
        else:
            self.names[uid] = name

    async def _read(self, response: aiohttp.ClientResponse) -> None:
        rest = b""
        async for chunk in response.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                event = orjson.loads(line)
                if event["type"] == "ERROR":
                    self.failure = str(event["object"])
                    return
                self.take(event)
        self.failure = "the API server ended the watch"


@contextlib.asynccontextmanager
async def watching(
    session: aiohttp.ClientSession, url: str, headers: Mapping[str, str], tls: Any
) -> AsyncIterator[Witness]:
    """A witness that has begun to watch, until the block ends."""
    witness = Witness()
    path = f"{url}/api/v1/pods?watch=1&resourceVersion=0"
    async with session.get(path, headers=headers, ssl=tls, timeout=_FOREVER) as response:
        assert response.status == 200, await response.text()
        reading = asyncio.create_task(witness._read(response))
        try:
            yield witness
        finally:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading
