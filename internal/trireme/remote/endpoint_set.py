"""The replicas of a plugin: those that its addresses name, and each address that a DNS name stands for.

gRPC would use one address of a name until it fails. Here each is an endpoint of its own, so that calls spread over all
of them; a name is looked up again while calls are made, and an address that is gone gets no new calls.

Also change: internal/trireme/config/addresses.py,
internal/trireme/frontend/phase_clients/endpoints.py (the form of addresses).

Tests: tests/unit/remote/test_endpoint_set.py, tests/contract/test_plugin_replicas.py,
tests/unit/remote/test_hedging.py.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Sequence

from trireme.remote import remote_endpoint
from trireme.rpc import dialing

# How often a name is looked up again, at most, and how long that may take.
RESOLVE_SECONDS = 5.0
LOOKUP_SECONDS = 5.0

DNS = "dns:///"

#: Returns the addresses that a name (`name:port`) stands for, as gRPC targets. Raises: OSError.
Resolve = Callable[[str], Awaitable[Sequence[str]]]


async def resolve(name: str) -> Sequence[str]:
    """The addresses of a name, sorted. Raises: OSError: it cannot be looked up."""
    host, _, port = name.rpartition(":")
    found = await asyncio.get_running_loop().getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    hosts = {str(address[0]) for *_, address in found}
    return sorted(f"[{each}]:{port}" if ":" in each else f"{each}:{port}" for each in hosts)


class EndpointSet:
    """The endpoints of one plugin. It is made on the running loop."""

    def __init__(
        self,
        targets: Sequence[str],
        dialer: dialing.Dialer,
        max_calls: int,
        clock: Callable[[], float],
        *,
        expands: bool = True,
        find: Resolve = resolve,
    ) -> None:
        """`expands`: a DNS name stands for all of its addresses, else gRPC chooses one of them."""
        self._dialer = dialer
        self._max_calls = max_calls
        self._clock = clock
        self._find = find
        self._by_target = {target: [target] for target in targets}
        self._names = [target for target in targets if expands and target.startswith(DNS)]
        self._endpoints = {target: self._make(target) for target in targets}
        self._due = 0.0
        self._lookup: asyncio.Task[None] | None = None
        self._retiring: set[asyncio.Task[None]] = set()

    @property
    def current(self) -> list[remote_endpoint.Endpoint]:
        """The endpoints now. If there is a name to be looked up again, that begins in the background."""
        if self._names and self._lookup is None and self._clock() >= self._due:
            self._due = self._clock() + RESOLVE_SECONDS
            self._lookup = asyncio.create_task(self._look_up_names())
        return list(self._endpoints.values())

    async def close(self) -> None:
        """Abort the calls in flight and disconnect."""
        tasks = [task for task in (self._lookup, *self._retiring) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for endpoint in self._endpoints.values():
            await endpoint.close()

    async def _look_up_names(self) -> None:
        """Look all names up; one that cannot be looked up keeps its endpoints."""
        try:
            for name in self._names:
                with contextlib.suppress(OSError, TimeoutError):
                    async with asyncio.timeout(LOOKUP_SECONDS):
                        found = list(await self._find(name.removeprefix(DNS)))
                    if found:
                        self._by_target[name] = found
            self._follow()
        finally:
            self._lookup = None

    def _follow(self) -> None:
        """Have an endpoint for each address, and no other."""
        wanted = dict.fromkeys(address for addresses in self._by_target.values() for address in addresses)
        for gone in self._endpoints.keys() - wanted.keys():
            endpoint = self._endpoints.pop(gone)
            task = asyncio.create_task(endpoint.retire())
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)
        for address in wanted:
            if address not in self._endpoints:
                self._endpoints[address] = self._make(address)

    def _make(self, target: str) -> remote_endpoint.Endpoint:
        return remote_endpoint.Endpoint(target, self._dialer, self._max_calls)
