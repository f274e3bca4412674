"""The driver's own client of the API server: as little work a request as possible, because it shares the machine.

Bodies come ready encoded and answers are not parsed; one watch, narrowed by the API server to pods that have a node,
tells when each pod was bound.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import orjson
import yaml

REQUEST_DEADLINE = aiohttp.ClientTimeout(total=120)
WATCH_SECONDS = 1800
# A list of pods comes in pages of this size; one answer with 20,000 pods would stop the API server for a second.
PAGE = 2000

# The rows of the API server's counter of requests that only a scheduler writes here.
_SCHEDULERS_WRITE = re.compile(
    r'resource="(events|resourceclaims|persistentvolume(claim)?s)",.*verb="(POST|PUT|PATCH)"'
    r'|resource="pods",.*subresource="(binding|status)",verb="(POST|PUT|PATCH)"'
)


class ApiError(Exception):
    """The API server refused a request, or answered something unexpected."""

    def __init__(self, method: str, path: str, status: int, answer: str) -> None:
        super().__init__(f"{method} {path}: {status} {answer[:300]}")
        self.status = status


class Api:
    """A session with one API server."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(cls, kubeconfig: Path, connections: int = 64) -> AsyncIterator[Api]:
        """Opens a session with the cluster of a kubeconfig that has a token and a certificate authority's file."""
        parsed = yaml.safe_load(kubeconfig.read_text())
        cluster, user = parsed["clusters"][0]["cluster"], parsed["users"][0]["user"]
        context = ssl.create_default_context(cafile=cluster["certificate-authority"])
        try:
            async with aiohttp.ClientSession(
                cluster["server"],
                connector=aiohttp.TCPConnector(limit=connections, ssl=context),
                headers={"Authorization": f"Bearer {user['token']}", "Accept-Encoding": "identity"},
                timeout=REQUEST_DEADLINE,
                read_bufsize=1 << 20,
            ) as session:
                yield cls(session)
        finally:
            # Connections that were closed still take leave of the server: a loop that ends meanwhile fails (EBUSY).
            await asyncio.sleep(0.25)

    async def create(self, path: str, body: bytes) -> None:
        """Creates an object; the answer is read, as a keep-alive connection needs, and thrown away."""
        headers = {"Content-Type": "application/json"}
        async with self._session.post(path, data=body, headers=headers) as response:
            answer = await response.read()
        if response.status >= 300:
            raise ApiError("POST", path, response.status, answer.decode(errors="replace"))

    async def patch(self, path: str, body: bytes) -> None:
        """Patches an object strategically."""
        headers = {"Content-Type": "application/strategic-merge-patch+json"}
        async with self._session.patch(path, data=body, headers=headers) as response:
            answer = await response.read()
        if response.status >= 300:
            raise ApiError("PATCH", path, response.status, answer.decode(errors="replace"))

    async def delete(self, path: str) -> None:
        """Deletes an object; one that is gone already is fine."""
        async with self._session.delete(path) as response:
            answer = await response.read()
        if response.status >= 300 and response.status != 404:
            raise ApiError("DELETE", path, response.status, answer.decode(errors="replace"))

    async def get(self, path: str, **query: str | int) -> Any:
        """Reads an object or one page of a list."""
        where = f"{path}?{urlencode(query)}" if query else path
        async with self._session.get(where) as response:
            answer = await response.read()
        if response.status != 200:
            raise ApiError("GET", where, response.status, answer.decode(errors="replace"))
        return orjson.loads(answer)

    async def pages(self, path: str, **query: str | int) -> AsyncIterator[Any]:
        """A whole list, page by page."""
        following = ""
        while True:
            page = await self.get(path, **query, limit=PAGE, **({"continue": following} if following else {}))
            yield page
            following = page["metadata"].get("continue", "")
            if not following:
                return

    async def writes(self) -> int:
        """How many writes of a scheduler the API server has answered: bindings, status, claims, volumes and events."""
        async with self._session.get("/metrics") as response:
            text = await response.text()
        return sum(
            int(float(line.rpartition(" ")[2]))
            for line in text.splitlines()
            if line.startswith("apiserver_request_total{") and _SCHEDULERS_WRITE.search(line)
        )

    async def watch(self, path: str, **query: str | int) -> AsyncIterator[bytes]:
        """The lines of one watch request, until the API server ends it."""
        where = f"{path}?{urlencode({**query, 'watch': '1', 'timeoutSeconds': WATCH_SECONDS})}"
        patience = aiohttp.ClientTimeout(total=WATCH_SECONDS + 60)
        async with self._session.get(where, timeout=patience) as response:
            if response.status != 200:
                raise ApiError("GET", where, response.status, (await response.read()).decode(errors="replace"))
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield line


async def follow(api: Api, path: str, take: Callable[[bytes], str], **query: str) -> None:
    """Watches until cancelled; `take` gets each line, some of them twice, and answers its version."""
    version: dict[str, str] = {}
    while True:
        # The first watch has no version and begins with all there is. One that the API server closed, as it does on a
        # busy machine, goes on where it ended: to begin again with everything takes seconds there, in which it would
        # look as if nothing were bound.
        try:
            async for line in api.watch(path, **query, **version):
                version = {"resourceVersion": take(line)}
        except aiohttp.ClientPayloadError:
            pass
        except ApiError as error:
            # 504: on a busy machine the API server's own watch of etcd is late, and it says so.
            if error.status not in (410, 504):
                raise
            version = {}


def event_of_watch(path: str, line: bytes) -> tuple[str, Any]:
    """The version of an event, and its object (None: it was deleted). Raises ApiError for an error sent instead."""
    event = orjson.loads(line)
    if event["type"] == "ERROR":
        raise ApiError("WATCH", path, int(event["object"].get("code", 0)), str(event["object"]))
    version = str(event["object"]["metadata"]["resourceVersion"])
    return version, None if event["type"] == "DELETED" else event["object"]


class Sightings:
    """When the API server first showed something about each pod, and who is waiting for that."""

    def __init__(
        self,
        path: str,
        selector: str,
        pod_of: Callable[[Any], Any],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`path` and field `selector` are watched; `pod_of` gives the part of an object with a pod's name."""
        self._path = path
        self._selector = selector
        self._pod_of = pod_of
        self._clock = clock
        self.seen_at: dict[str, float] = {}
        """`namespace/name` of the pod to the moment."""
        self._awaited: dict[str, Awaited] = {}

    def expect(self, keys: Iterable[str]) -> Awaited:
        """Something to wait on until all these pods were seen."""
        awaited = Awaited()
        for key in keys:
            if key not in self.seen_at:
                awaited.left.add(key)
                self._awaited[key] = awaited
        awaited.settle()
        return awaited

    def seen(self, key: str) -> None:
        """Notes a pod."""
        if key in self.seen_at:
            return
        self.seen_at[key] = self._clock()
        awaited = self._awaited.pop(key, None)
        if awaited is not None:
            awaited.left.discard(key)
            awaited.settle()

    async def follow(self, api: Api) -> None:
        """Watches every namespace until cancelled."""
        await follow(api, self._path, self.take, fieldSelector=self._selector)

    def take(self, line: bytes) -> str:
        """Notes one event of the watch; answers its version. Raises ApiError for an error sent instead of one."""
        version, changed = event_of_watch(self._path, line)
        if changed is not None:
            pod = self._pod_of(changed)
            self.seen(f"{pod['namespace']}/{pod['name']}")
        return version


def bound_pods(clock: Callable[[], float] = time.perf_counter) -> Sightings:
    """When each pod was first seen with a node."""
    return Sightings("/api/v1/pods", "spec.nodeName!=", lambda pod: pod["metadata"], clock)


def scheduled_events(clock: Callable[[], float] = time.perf_counter) -> Sightings:
    """When the event that a pod was scheduled was first seen."""
    return Sightings("/apis/events.k8s.io/v1/events", "reason=Scheduled", lambda event: event["regarding"], clock)


class Awaited:
    """A set of pods that is waited for."""

    def __init__(self) -> None:
        self.left: set[str] = set()
        """Pods not yet seen."""
        self._done = asyncio.Event()

    def settle(self) -> None:
        """Wakes who waits, where nothing is left."""
        if not self.left:
            self._done.set()

    async def wait(self, patience: float) -> None:
        """Returns when every pod was seen. Raises TimeoutError where not a single one was for `patience` seconds."""
        while not self._done.is_set():
            before = len(self.left)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._done.wait(), patience)
                return
            if len(self.left) == before:
                raise TimeoutError(f"{before} pods still wait for a node, and none got one for {patience:.0f} s")
