"""When all replicas of a phase are known, by whatever names they are configured."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from tests.helpers import virtual_time
from trireme.frontend.phase_clients import endpoints
from trireme.frontend.phase_clients.endpoints import Discovery
from trireme_kube.client.rest.errors import ApiError


class Names:
    """A DNS server with one name. None: the name cannot be looked up."""

    def __init__(self) -> None:
        self.hosts: Sequence[str] | None = None
        self.failure: OSError = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    async def look_up(self, host: str, port: int, **_: Any) -> list[Any]:
        """As the loop's getaddrinfo."""
        if self.hosts is None:
            raise self.failure
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in self.hosts]


async def _follow(
    configured: Sequence[str], local: Sequence[str], names: Names, story: list[Any]
) -> asyncio.Task[None]:
    loop: Any = asyncio.get_running_loop()
    loop.getaddrinfo = names.look_up
    unused: Any = None  # no EndpointSlices here
    following = endpoints.follow_endpoints(
        configured, local, lambda found: story.append(list(found)), unused, story.append
    )
    task = asyncio.create_task(following)
    await asyncio.sleep(0.1)
    return task


def test_addresses_are_incomplete_until_each_name_has_been_looked_up() -> None:
    """A leader that takes the fixed addresses for all replicas does not wait for those behind names."""
    story: list[Any] = []

    async def main(_: Callable[[], float]) -> None:
        names = Names()
        task = await _follow(["here:1", "dns:///name:2"], (), names, story)
        assert story == [Discovery(complete=False), ["here:1"]]
        names.hosts = ["10.0.0.2"]
        await asyncio.sleep(endpoints.RESOLVE_SECONDS)
        task.cancel()

    virtual_time.run(main)
    assert story[2:] == [Discovery(complete=True), ["10.0.0.2:2", "here:1"]]


def test_fixed_and_local_addresses_are_complete_at_once() -> None:
    for configured, local in ((["here:1"], []), ([], ["unix:/bind-0.sock"])):
        story: list[Any] = []

        async def main(
            _: Callable[[], float], configured: list[str] = configured, local: list[str] = local, story: Any = story
        ) -> None:
            following = await _follow(configured, local, Names(), story)
            assert not following.done(), "its end would be taken for a failure"
            following.cancel()

        virtual_time.run(main)
        assert story == [Discovery(complete=True), configured or local]


def test_an_address_that_a_name_stood_for_is_remembered_as_uncallable_for_a_while() -> None:
    """A replica that terminates leaves its name while it still writes."""
    story: list[Any] = []

    async def main(_: Callable[[], float]) -> None:
        names = Names()
        names.hosts = ["10.0.0.1", "10.0.0.2"]
        task = await _follow(["dns:///name:2"], (), names, story)
        names.hosts = ["10.0.0.2"]
        await asyncio.sleep(endpoints.LINGER_SECONDS + 2 * endpoints.RESOLVE_SECONDS)
        task.cancel()

    virtual_time.run(main)
    assert story[-3:] == [Discovery(True, ("10.0.0.1:2",)), ["10.0.0.2:2"], Discovery(True)]


def test_why_a_name_cannot_be_looked_up_is_known() -> None:
    """A name with a slip in it is nowhere in the status, and the phase runs on what stands in."""
    configured = "dns:///name:2"

    async def main(_: Callable[[], float]) -> None:
        names, lookups = Names(), {}
        loop: Any = asyncio.get_running_loop()
        loop.getaddrinfo = names.look_up
        unused: Any = None
        following = endpoints.follow_endpoints(["here:1", configured], (), lambda _: None, unused, lookups=lookups)
        task = asyncio.create_task(following)
        seen = []
        for hosts in (None, ["10.0.0.2"], None):
            names.hosts = hosts
            await asyncio.sleep(endpoints.RESOLVE_SECONDS + 0.1)
            (lookup,) = lookups.values()
            seen.append((lookup.endpoint, lookup.error(), lookup.addresses, lookup.listed))
        task.cancel()
        failed, found = "Temporary failure in name resolution", ("10.0.0.2:2",)
        assert seen == [
            (configured, failed, (), False),
            (configured, "", found, True),
            (configured, failed, found, True),
        ]

    virtual_time.run(main)


async def test_why_endpoint_slices_cannot_be_listed_is_known() -> None:
    """A frontend whose role lacks EndpointSlices schedules by phases of its own, and nobody knows why."""
    forbidden = ApiError(403, "Forbidden", "endpointslices is forbidden")

    class Api:
        accept = "application/json"

        @contextlib.asynccontextmanager
        async def stream(self, *_: Any, **__: Any) -> AsyncIterator[None]:
            if self.accept:
                raise forbidden
            yield

        async def get(self, *_: Any, **__: Any) -> None:
            raise forbidden

    api: Any = Api()
    lookups: endpoints.Lookups = {}
    configured = "endpointslice:///ns/service:grpc"
    task = asyncio.create_task(endpoints.follow_endpoints([configured], (), lambda _: None, api, lookups=lookups))
    async with asyncio.timeout(20):
        while not lookups or not lookups[configured].error():
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (
        lookups[configured].error()
        == f"{forbidden} (https://trireme.dev/docs/troubleshooting.html#missing-permissions)"
    )
    assert not lookups[configured].listed


def test_a_name_that_cannot_be_looked_up_is_logged_once_until_it_is_found(caplog: pytest.LogCaptureFixture) -> None:
    async def main(_: Callable[[], float]) -> None:
        names = Names()
        task = await _follow(["dns:///name:2"], (), names, [])
        for hosts in (None, ["10.0.0.1"], None, None):
            names.hosts = hosts
            await asyncio.sleep(endpoints.RESOLVE_SECONDS)
        task.cancel()

    virtual_time.run(main)
    texts = [record.getMessage() for record in caplog.records if "it is looked up again" in record.getMessage()]
    assert len(texts) == 2
    assert all("dns:///name:2" in text for text in texts)


def test_each_name_is_looked_up() -> None:
    story: list[Any] = []

    async def main(_: Callable[[], float]) -> None:
        names = Names()
        names.hosts = ["10.0.0.1"]
        task = await _follow([f"dns:///name{number}:{number}" for number in (1, 2, 3)], (), names, story)
        task.cancel()

    virtual_time.run(main)
    assert story[-1] == ["10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3"]


def test_a_failure_that_the_system_has_no_text_for_is_known_by_its_own() -> None:
    lookups: endpoints.Lookups = {}

    async def main(_: Callable[[], float]) -> None:
        names = Names()
        names.failure = OSError("no resolver")
        loop: Any = asyncio.get_running_loop()
        loop.getaddrinfo = names.look_up
        unused: Any = None
        following = endpoints.follow_endpoints(["dns:///n:2"], (), lambda _: None, unused, lookups=lookups)
        task = asyncio.create_task(following)
        await asyncio.sleep(0.1)
        task.cancel()

    virtual_time.run(main)
    assert lookups["dns:///n:2"].error() == "no resolver"
