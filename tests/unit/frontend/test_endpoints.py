"""When all replicas of a phase are known, by whatever names they are configured."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Any

import virtual_time

from trireme.frontend.phase_clients import endpoints
from trireme.frontend.phase_clients.endpoints import Discovery


class Names:
    """A DNS server with one name. None: the name cannot be looked up."""

    def __init__(self) -> None:
        self.hosts: Sequence[str] | None = None

    async def look_up(self, host: str, port: int, **_: Any) -> list[Any]:
        """As the loop's getaddrinfo."""
        if self.hosts is None:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
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
    """Else a leader waits for replicas that nothing names."""
    for configured, local in ((["here:1"], []), ([], ["unix:/bind-0.sock"])):
        story: list[Any] = []

        async def main(
            _: Callable[[], float], configured: list[str] = configured, local: list[str] = local, story: Any = story
        ) -> None:
            (await _follow(configured, local, Names(), story)).cancel()

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
