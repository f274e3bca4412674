"""The addresses of a phase's replicas.

Fixed addresses, every address of a DNS name, the EndpointSlices of a Service, or local phases.

Also change: internal/trireme/config/addresses.py, internal/trireme/remote/endpoint_set.py (the form of addresses).
"""

import asyncio
import functools
import logging
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trireme.frontend.phase_clients import endpoint_slices
from trireme_kube.client.rest import client
from trireme_kube.componentbase import supervision
from trireme_kube.componentbase.logs import failure_log

log = logging.getLogger(__name__)

# How often a DNS name is looked up again.
RESOLVE_SECONDS = 5.0

_DNS = "dns:///"

# How long an address that a DNS name stood for may still be that of a replica that works. A name need not stand for
# what is terminating. No leader waits longer for its predecessor's work (`lease.MAX_TRUST_SECONDS`).
LINGER_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Discovery:
    """What is known of the replicas beside the addresses that may be called."""

    complete: bool  # whether every source of addresses has been read
    uncallable: tuple[str, ...] = ()  # replicas that get no calls, not ready or terminating, but may still work


@dataclass(slots=True)
class EndpointLookup:
    """The look-up of a configured endpoint that stands for others: a DNS name, or the EndpointSlices of a Service."""

    endpoint: str
    addresses: Sequence[str] = ()  # as they were found last
    listed: bool = False  # whether it has been looked up with success
    missing: str = ""  # why it stands for no address, as it was found last
    error: Callable[[], str] = str  # returns why it cannot be looked up now; empty: it can, or was not tried yet


Lookups = dict[str, EndpointLookup]
Take = Callable[[Sequence[str]], None]
Observe = Callable[[Discovery], None]


def _ignore_discovery(_: Discovery) -> None:
    """Do nothing: nobody waits for replicas of this phase that may not be called."""


async def follow_endpoints(
    endpoints: Sequence[str],
    local: Sequence[str],
    take: Take,
    api: client.ApiClient,
    observe: Observe = _ignore_discovery,
    lookups: Lookups | None = None,
) -> None:
    """Call `take` with the addresses of all `endpoints` (without any: the `local` ones), and again when they change.

    Plain addresses are taken as they are; `dns:` names are looked up again and again, and Services are watched. It runs
    until cancelled. `observe` is called before `take`: a replica that may not be called any more is named there first.
    `lookups` gets the look-up of each name and Service, by endpoint.
    """
    resolving = [endpoint for endpoint in endpoints if endpoint.startswith((_DNS, endpoint_slices.SCHEME))]
    fixed = [endpoint for endpoint in endpoints if endpoint not in resolving] if endpoints else local
    found = {"": endpoint_slices.ServiceReplicas(fixed, (), True)}
    lookups = {} if lookups is None else lookups
    lookups.update({endpoint: EndpointLookup(endpoint) for endpoint in resolving})
    known: list[str] = []
    observed: Discovery | None = None

    def take_replicas(endpoint: str, replicas: endpoint_slices.ServiceReplicas) -> None:
        """Take what an endpoint stands for now, and pass on what is new for all of them together."""
        nonlocal known, observed
        found[endpoint] = replicas
        if endpoint in lookups:
            lookup = lookups[endpoint]
            lookup.addresses, lookup.listed = tuple(replicas.addresses), replicas.listed
            lookup.missing = replicas.missing
        addresses = {address for entry in found.values() for address in entry.addresses}
        uncallable = {address for entry in found.values() for address in entry.uncallable}
        complete = all(each in found and found[each].listed for each in resolving)
        discovery = Discovery(complete, tuple(sorted(uncallable - addresses)))
        if discovery != observed:
            observed = discovery
            observe(discovery)
        if sorted(addresses) != known:
            known = sorted(addresses)
            take(known)

    take_replicas("", found[""])
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.Event().wait())
        for endpoint in resolving:
            on_replicas = functools.partial(take_replicas, endpoint)
            lookup = lookups[endpoint]
            if endpoint.startswith(_DNS):
                following = functools.partial(_follow_dns_name, lookup, on_replicas)
            else:
                following = functools.partial(_follow_service, api, lookup, on_replicas)
            group.create_task(supervision.supervise(endpoint, following))


async def _follow_service(
    api: client.ApiClient, lookup: EndpointLookup, take: Callable[[endpoint_slices.ServiceReplicas], None]
) -> None:
    """Follow the EndpointSlices of an `endpointslice:` endpoint, until cancelled."""
    following = endpoint_slices.make_informer(api, lookup.endpoint, take)
    lookup.error = lambda: following.statistics().last_error
    await following.run()


async def _follow_dns_name(lookup: EndpointLookup, take: Callable[[endpoint_slices.ServiceReplicas], None]) -> None:
    """Look a `dns:` endpoint up every few seconds, and report its addresses to `take`, until cancelled.

    If the look-up fails or finds nothing, nothing is reported: the present addresses stay. One that is found no more
    is reported as uncallable for `LINGER_SECONDS`, since an answer may leave out replicas that still run.
    """
    host, _, port = lookup.endpoint.removeprefix(_DNS).rpartition(":")
    problem = ""
    lookup.error = lambda: problem
    failures = failure_log.FailureLog(log)
    loop = asyncio.get_running_loop()
    last_seen: dict[str, float] = {}
    while True:
        try:
            entries = await loop.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
        except OSError as error:
            failures.log_failure(str(error.errno), f"{lookup.endpoint}: {error}; it is looked up again")
            problem = error.strerror or str(error)
            entries = []
        else:
            problem = "" if entries else "the name has no address"
        found = {
            f"[{address[0]}]:{port}" if family == socket.AF_INET6 else f"{address[0]}:{port}"
            for family, _, _, _, address in entries
        }
        if found:
            failures.clear()
            now = loop.time()
            last_seen = {address: seen for address, seen in last_seen.items() if now - seen < LINGER_SECONDS}
            last_seen.update(dict.fromkeys(found, now))
            uncallable = sorted(last_seen.keys() - found)
            take(endpoint_slices.ServiceReplicas(sorted(found), uncallable, listed=True))
        await asyncio.sleep(RESOLVE_SECONDS)
