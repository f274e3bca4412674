"""The replicas of a phase as the EndpointSlices of its Service tell them.

The Service is headless and publishes addresses that are not ready: a replica of filter or score becomes ready by being
followed, so it must be found before. What is terminating gets no calls from then on, as it takes no new ones; until it
is gone it is reported apart, because it may still work for an earlier leader.

Tests: tests/unit/frontend/test_endpoint_slices.py, tests/unit/frontend/test_endpoints.py.
"""

import functools
import ipaddress
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trireme.config import addresses
from trireme_kube.client.informers import informer, resources, small_collection, watch
from trireme_kube.client.rest import client

log = logging.getLogger(__name__)

SCHEME = addresses.SCHEME
_DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class EndpointSlice:
    """One EndpointSlice: its key, the addresses that may be called and those that may not, and its ports.

    The ports are there by name and by number. `terminating` counts those of `uncallable` that are terminating.
    """

    key: str
    addresses: tuple[str, ...]
    uncallable: tuple[str, ...]
    terminating: int
    ports: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ServiceReplicas:
    """The replicas of a Service, as `host:port`."""

    addresses: Sequence[str]  # of those that may be called
    uncallable: Sequence[str]  # of those that are not ready or terminating
    listed: bool  # whether all EndpointSlices have been read
    missing: str = ""  # why none may be called; empty: some may


def parse(raw: Mapping[str, Any]) -> EndpointSlice:
    """Read an EndpointSlice as the API sends it.

    An endpoint that is not ready, or is terminating, is in `uncallable`; an unset condition means ready. Ports are
    found by name and by number. What is no address of the slice's type, or no port, is left out: somebody may have
    written the slice by hand.
    """
    metadata = raw.get("metadata") or {}
    key = f"{metadata.get('namespace')}/{metadata.get('name')}"
    host_of = _HOSTS.get(raw.get("addressType") or "IPv4", _host_of_name)
    addresses: list[str] = []
    uncallable: list[str] = []
    terminating = 0
    for endpoint in raw.get("endpoints") or ():
        conditions = endpoint.get("conditions") or {}
        # What is unset means ready, and not terminating.
        idle = conditions.get("ready") is False or conditions.get("terminating")
        hosts = uncallable if idle else addresses
        for address in endpoint.get("addresses") or ():
            host = host_of(address)
            if host:
                hosts.append(host)
                terminating += bool(conditions.get("terminating"))
            else:
                text = "EndpointSlice %s: %r is no %s address; it is left out until it is one"
                log.warning(text, key, address, raw.get("addressType"))
    ports: dict[str, int] = {}
    for port in raw.get("ports") or ():
        number = port.get("port")
        if isinstance(number, int) and 0 < number < 65536:
            ports[str(number)] = number
            ports[port.get("name") or ""] = number
    return EndpointSlice(key, tuple(addresses), tuple(uncallable), terminating, ports)


def _host_of_ip(version: int, address: str) -> str:
    """The IP address as the host of a gRPC target; empty if it is none of that version, or has a zone."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return ""
    if parsed.version != version or "%" in address:
        return ""
    return address if version == 4 else f"[{address}]"


def _host_of_name(address: str) -> str:
    """The DNS name as the host of a gRPC target; empty if it is none."""
    return address if _DNS_NAME.fullmatch(address) else ""


_HOSTS: Mapping[str, Callable[[str], str]] = {
    "IPv4": functools.partial(_host_of_ip, 4),
    "IPv6": functools.partial(_host_of_ip, 6),
}


def replicas_of(slices: Iterable[EndpointSlice], port: str, *, listed: bool = True) -> ServiceReplicas:
    """All replicas, each once; a slice without the port has none. What may be called by one slice may be called."""
    slices = list(slices)
    with_port = [each for each in slices if port in each.ports]
    addresses = {f"{host}:{each.ports[port]}" for each in with_port for host in each.addresses}
    uncallable = {f"{host}:{each.ports[port]}" for each in with_port for host in each.uncallable}
    missing = "" if addresses else _why_none(slices, port)
    return ServiceReplicas(sorted(addresses), sorted(uncallable - addresses), listed, missing)


def _why_none(slices: Sequence[EndpointSlice], port: str) -> str:
    """Why no replica of the slices may be called."""
    running = [each for each in slices if each.addresses or each.uncallable]
    if not running:
        return "none of its pods runs"
    with_port = [each for each in running if port in each.ports]
    if not with_port:
        known = ", ".join(sorted({name for each in running for name in each.ports if name}))
        return f"its pods have no port {port}, only {known or 'none'}"
    terminating = sum(each.terminating for each in with_port)
    counts = {"not ready": sum(len(each.uncallable) for each in with_port) - terminating, "terminating": terminating}
    return "of its pods " + ", ".join(f"{count} {_is_or_are(count)} {what}" for what, count in counts.items() if count)


def _is_or_are(count: int) -> str:
    return "is" if count == 1 else "are"


class _SliceStore:
    """Stores EndpointSlices, and reports the replicas after each batch of events."""

    def __init__(self, port: str, take: Callable[[ServiceReplicas], None]) -> None:
        self._port = port
        self._take = take
        self._slices: small_collection.SmallCollection[EndpointSlice] = small_collection.SmallCollection(
            lambda entry: entry.key
        )
        self._listed = False

    def on_events(self, events: Sequence[watch.Event[EndpointSlice]]) -> None:
        """Apply an informer's events."""
        self._slices.on_events(events)
        self._listed = self._listed or any(kind is watch.EventKind.LIST_END for kind, _ in events)
        self._take(replicas_of(self._slices, self._port, listed=self._listed))


def make_informer(
    api: client.ApiClient, endpoint: str, take: Callable[[ServiceReplicas], None]
) -> informer.Informer[EndpointSlice]:
    """An informer that calls `take` with the replicas that `endpointslice:///namespace/service:port` stands for."""
    path, _, port = endpoint.removeprefix(SCHEME).rpartition(":")
    namespace, _, service = path.partition("/")
    watched = resources.Resource(
        "EndpointSlice",
        f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices",
        label_selector=f"kubernetes.io/service-name={service}",
    )
    return informer.Informer(api, watched, parse, [_SliceStore(port, take).on_events])
