"""The addresses of a phase's replicas.

Fixed addresses, every address of a DNS name, the EndpointSlices of a Service, or local phases.
"""

import asyncio
import functools
import logging
import socket
from collections.abc import Callable, Sequence

from trireme.frontend.phase_clients import endpoint_slices, failure_log
from trireme_kube.client.rest import client
from trireme_kube.componentbase import supervision

log = logging.getLogger(__name__)

# How often a DNS name is looked up again.
RESOLVE_SECONDS = 5.0

_DNS = "dns:///"

Take = Callable[[Sequence[str]], None]


async def follow_endpoints(endpoints: Sequence[str], local: Sequence[str], take: Take, api: client.ApiClient) -> None:
    """Call `take` with all addresses, and again when they change. Without endpoints: the `local` ones."""
    fixed = [endpoint for endpoint in endpoints if not endpoint.startswith((_DNS, endpoint_slices.SCHEME))]
    found: dict[str, Sequence[str]] = {"": fixed if endpoints else local}
    known: list[str] = []

    def resolved(endpoint: str, addresses: Sequence[str]) -> None:
        nonlocal known
        found[endpoint] = addresses
        union = sorted({address for entry in found.values() for address in entry})
        if union != known:
            known = union
            take(union)

    resolved("", found[""])
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.Event().wait())
        for endpoint in endpoints:
            on_addresses = functools.partial(resolved, endpoint)
            if endpoint.startswith(_DNS):
                group.create_task(supervision.supervise(endpoint, functools.partial(_look_up, endpoint, on_addresses)))
            elif endpoint.startswith(endpoint_slices.SCHEME):
                following = functools.partial(endpoint_slices.follow_endpoint_slices, api, endpoint, on_addresses)
                group.create_task(supervision.supervise(endpoint, following))


async def _look_up(endpoint: str, take: Take) -> None:
    """A name that cannot be looked up, or stands for nothing, keeps the addresses that it had."""
    host, _, port = endpoint.removeprefix(_DNS).rpartition(":")
    failures = failure_log.FailureLog(log)
    while True:
        try:
            entries = await asyncio.get_running_loop().getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
        except OSError as error:
            failures.log_failure(str(error.errno), f"{endpoint}: {error}")
            entries = []
        found = {
            f"[{address[0]}]:{port}" if family == socket.AF_INET6 else f"{address[0]}:{port}"
            for family, _, _, _, address in entries
        }
        if found:
            failures.clear()
            take(sorted(found))
        await asyncio.sleep(RESOLVE_SECONDS)
