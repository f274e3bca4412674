"""Where the replicas of a phase are: fixed addresses, every address of a DNS name, or children of our own."""

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence

log = logging.getLogger(__name__)

# How often a DNS name is looked up again.
RESOLVE_SECONDS = 5.0

_DNS = "dns:///"


async def follow(endpoints: Sequence[str], local: Sequence[str], take: Callable[[Sequence[str]], None]) -> None:
    """Tell `take` all addresses, and again when they change. Without endpoints: the `local` ones."""
    known: list[str] | None = None
    while True:
        addresses = sorted(await _resolved(endpoints)) if endpoints else list(local)
        if addresses != known and (addresses or known is None):
            known = addresses
            take(addresses)
        if not any(endpoint.startswith(_DNS) for endpoint in endpoints):
            await asyncio.Event().wait()
        await asyncio.sleep(RESOLVE_SECONDS)


async def _resolved(endpoints: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for endpoint in endpoints:
        if not endpoint.startswith(_DNS):
            found.add(endpoint)
            continue
        host, _, port = endpoint.removeprefix(_DNS).rpartition(":")
        try:
            loop = asyncio.get_running_loop()
            entries = await loop.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
        except OSError as error:
            log.warning("%s: %s", endpoint, error)
            continue
        for family, _, _, _, address in entries:
            text = f"[{address[0]}]" if family == socket.AF_INET6 else str(address[0])
            found.add(f"{text}:{port}")
    return found
