"""A watch of all pods from a test's start, which remembers what a list at the end could not show.

A pod bound to one node and then to another looks, afterwards, like a pod bound once. So the witness follows every
change: a pod (by its uid) whose `spec.nodeName` changes once it is set was bound twice, whatever came after. It also
knows at any moment how many pods there are and how many of them have a node, for the price of reading the watch.
"""

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
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
        self.nominated: dict[str, str] = {}
        """The node that each pod was last nominated for before it had one."""
        self.denied: list[str] = []
        """Pods whose status said, when they had a node, that they have none."""
        self.names: dict[str, str] = {}
        """The names of the pods that exist."""
        self.failure = ""
        """Why it does not watch any more."""
        self._version = "0"
        self._began = asyncio.Event()

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
        status = pod.get("status", {})
        if not node and status.get("nominatedNodeName"):
            self.nominated[uid] = status["nominatedNodeName"]
        conditions = status.get("conditions", ())
        if node and any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions):
            self.denied.append(name)
        if event["type"] == "DELETED":
            self.names.pop(uid, None)
        else:
            self.names[uid] = name

    async def follow(self, watch: Callable[[str], AbstractAsyncContextManager[aiohttp.ClientResponse]]) -> None:
        """Watch until cancelled. An API server ends the watch of a reader that falls behind: it goes on from there."""
        while not self.failure:
            async with watch(self._version) as response:
                if response.status != 200:
                    self.failure = await response.text()
                    return
                self._began.set()
                await self._read(response)

    async def began(self) -> None:
        """Return once it watches."""
        await self._began.wait()

    async def _read(self, response: aiohttp.ClientResponse) -> None:
        rest = b""
        async for chunk in response.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                event = orjson.loads(line)
                if event["type"] == "ERROR":  # versions that are gone: what happened meanwhile nobody can tell
                    self.failure = str(event["object"])
                    return
                self._version = event["object"]["metadata"]["resourceVersion"]
                self.take(event)


@contextlib.asynccontextmanager
async def watching(
    session: aiohttp.ClientSession, url: str, headers: Mapping[str, str], tls: ssl.SSLContext | bool
) -> AsyncIterator[Witness]:
    """A witness that has begun to watch, until the block ends."""
    witness = Witness()

    def watch(version: str) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        path = f"{url}/api/v1/pods?watch=1&resourceVersion={version}"
        return session.get(path, headers=headers, ssl=tls, timeout=_FOREVER)

    following = asyncio.create_task(witness.follow(watch))
    try:
        async with asyncio.timeout(10):
            await witness.began()
        yield witness
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
