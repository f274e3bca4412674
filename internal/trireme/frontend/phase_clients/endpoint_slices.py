"""The replicas of a phase as the EndpointSlices of its Service tell them.

The Service is headless and publishes addresses that are not ready: a replica of filter or score becomes ready by being
followed, so it must be found before. What is terminating is left alone at once, as it takes no new calls.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trireme_kube.client.informers import informer, resources, store
from trireme_kube.client.rest import client

SCHEME = "endpointslice:///"


@dataclass(frozen=True, slots=True)
class EndpointSlice:
    """One EndpointSlice: its key, the addresses that may be called, and its ports by name and by number."""

    key: str
    addresses: tuple[str, ...]
    ports: Mapping[str, int]


def parse(raw: Mapping[str, Any]) -> EndpointSlice:
    """An EndpointSlice as the API sends it."""
    metadata = raw.get("metadata") or {}
    ipv6 = raw.get("addressType") == "IPv6"
    addresses: list[str] = []
    for endpoint in raw.get("endpoints") or ():
        conditions = endpoint.get("conditions") or {}
        # What is unset means ready, and not terminating.
        if conditions.get("ready") is False or conditions.get("terminating"):
            continue
        addresses.extend(f"[{address}]" if ipv6 else address for address in endpoint.get("addresses") or ())
    ports: dict[str, int] = {}
    for port in raw.get("ports") or ():
        if port.get("port"):
            ports[str(port["port"])] = port["port"]
            ports[port.get("name") or ""] = port["port"]
    return EndpointSlice(f"{metadata.get('namespace')}/{metadata.get('name')}", tuple(addresses), ports)


def addresses_of(slices: Iterable[EndpointSlice], port: str) -> list[str]:
    """`host:port` of everything that may be called, each once; a slice without the port has none."""
    return sorted({f"{host}:{each.ports[port]}" for each in slices for host in each.addresses if port in each.ports})


async def follow_endpoint_slices(api: client.ApiClient, endpoint: str, take: Callable[[Sequence[str]], None]) -> None:
    """Call `take` with the addresses that `endpointslice:///namespace/service:port` stands for, until cancelled."""
    path, _, port = endpoint.removeprefix(SCHEME).rpartition(":")
    namespace, _, service = path.partition("/")
    watched = resources.Resource(
        "EndpointSlice",
        f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices",
        label_selector=f"kubernetes.io/service-name={service}",
    )

    def changed(_: Sequence[store.Change[EndpointSlice]]) -> None:
        take(addresses_of(slices, port))

    slices: store.Store[EndpointSlice] = store.Store(lambda entry: entry.key, changed)
    await informer.Informer(api, watched, parse, [slices]).run()
