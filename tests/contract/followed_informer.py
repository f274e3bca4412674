"""An informer that follows a scripted API server, and a consumer that writes down what it gets."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from aiohttp import web

from tests.contract.kube_fake_server import (
    FakeServer,
    Script,
    Seen,
    serving,
    stream,
    without_streams,
)
from trireme_kube.client.informers import informer, resources
from trireme_kube.client.informers.watch import Event
from trireme_kube.client.rest import client, content_types, credentials

ACCEPT = content_types.accept_header("", content_types.PROTOBUF)
THINGS = resources.Resource("Thing", "/api/v1/things", field_selector="a!=b", page=2)


class Log:
    """A consumer that writes down what it gets, batch by batch."""

    def __init__(self) -> None:
        self.batches: list[list[tuple[str, str | None]]] = []
        self._changed = asyncio.Event()

    def on_events(self, events: Sequence[Event[str]]) -> None:
        self.batches.append([(event.kind.name, event.object) for event in events])
        self._changed.set()

    @property
    def all(self) -> list[tuple[str, str | None]]:
        return [entry for batch in self.batches for entry in batch]

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.all]

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


def name_of(raw: Mapping[str, Any]) -> str:
    name = raw["metadata"]["name"]
    if name == "odd":
        raise ValueError("odd")
    return str(name)


@contextlib.asynccontextmanager
async def following(
    script: Script, resource: resources.Resource = THINGS, *, streams: bool = False, **more: Any
) -> AsyncIterator[tuple[FakeServer, informer.Informer[str], Log]]:
    """`streams`: the server does not refuse to stream lists, as an older one would."""
    async with serving(script if streams else without_streams(script)) as server:
        settings = client.ClientSettings(credentials.Source(master=server.url), qps=-1.0, accept=ACCEPT)
        async with await client.connect(settings) as api:
            log = Log()
            followed = informer.Informer(api, resource, name_of, [log.on_events], rng=lambda: 0.0, **more)
            task = asyncio.create_task(followed.run())
            try:
                yield server, followed, log
            finally:
                task.cancel()
                await asyncio.wait([task], timeout=20)
                assert task.cancelled()


async def open_for_ever(request: web.Request, *lines: bytes) -> web.StreamResponse:
    response = await stream(request)
    for part in lines:
        await response.write(part)
    await asyncio.Event().wait()
    return response


def is_watch(seen: Seen) -> bool:
    return "watch" in seen.query and "sendInitialEvents" not in seen.query
