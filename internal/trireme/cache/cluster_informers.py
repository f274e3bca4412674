"""The informers of the cluster: which collections they follow, their decoders and their consumers.

Objects are read in the encodings that `clientConnection` names, protobuf by default: parsing an object's bytes then
takes one call, where JSON takes a step of Python per field. Only objects that extenders and plugins get whole are read
in JSON, because that is the form they get.

Tests: tests/unit/cache/test_cluster_informers.py, tests/unit/frontend/test_extenders_after_a_list.py.
"""

import functools
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Protocol, TypeVar

from google.protobuf.message import Message

from trireme.cache import extender_objects, node_json, object_kinds, pod_projection
from trireme.framework import canaries
from trireme.v1 import core_pb2
from trireme_kube.apimachinery import decode
from trireme_kube.client.informers import informer, list_prefetch, listwatch, protobuf, resources
from trireme_kube.client.rest import client

M = TypeVar("M", bound=Message)
OnEvents = Callable[[Sequence[Any]], None]
# The decoders of an object, for JSON and for protobuf; None: it must come in JSON.
Decoders = tuple[Callable[[Any], Any], Callable[[bytes], Any] | None]


class EventHandlers(Protocol):
    """Where informers deliver the events of pods, of nodes, and of other kinds.

    Implementers: trireme.frontend.inbox.Inbox, trireme.shadow.inbox.Inbox.
    """

    def on_pods(self, batch: Sequence[Any]) -> None:
        """Pods were added, changed or deleted."""
        ...

    def on_nodes(self, batch: Sequence[Any]) -> None:
        """Nodes were added, changed or deleted."""
        ...

    def on_objects(self, kind: object_kinds.ObjectKind, batch: Sequence[Any]) -> None:
        """Objects of this kind were added, changed or deleted."""
        ...


def make_informers(
    api: client.ApiClient,
    prefetched: Mapping[resources.Resource, list_prefetch.ListPrefetch],
    gate: Callable[[str], bool],
    paths: Set[str],
    extender_cache: extender_objects.ExtenderObjects | None,
    handlers: EventHandlers,
    *,
    json: node_json.NodeJson,
    shares: canaries.Shares,
) -> list[informer.Informer[Any]]:
    """Make the informers of pods, of nodes and of each kind whose feature gates are on, in this order.

    `prefetched` are lists that were requested already, as streams: none while the gate for streaming lists is off.
    `paths` are the fields of pods that plugins read in addition, which may grow; `extender_cache` stores objects for
    extenders, and `json` the JSON of nodes for plugins. `shares` are those of the plugins' canaries.
    """
    pods: Decoders = (
        functools.partial(pod_projection.parse, extra=paths, shares=shares),
        functools.partial(pod_projection.parse_protobuf, extra=paths, shares=shares),
    )
    nodes = _decoders_for(core_pb2.Node)
    pod_consumers: list[OnEvents] = [handlers.on_pods]
    node_consumers: list[OnEvents] = [handlers.on_nodes]
    if extender_cache is not None:
        pods = extender_cache.pod_decoder(pods[0]), None
        # Last, so that the other consumers still find deleted objects.
        pod_consumers.append(extender_cache.on_pods)
    if extender_cache is not None and extender_cache.keeps_nodes:
        nodes = extender_cache.node_decoder(nodes[0]), None
        node_consumers.append(extender_cache.on_nodes)
    nodes = json.decoder(nodes[0]), nodes[1]
    make_one = functools.partial(_make_informer, api, prefetched, gate(listwatch.STREAMS_GATE))
    informers = [make_one(resources.PODS, pods, pod_consumers), make_one(resources.NODES, nodes, node_consumers)]
    for kind in object_kinds.KINDS:
        if all(gate(name) for name in kind.gates):
            consume = functools.partial(handlers.on_objects, kind)
            informers.append(make_one(kind.watched, _decoders_for(kind.message), [consume]))
    if json.enabled:
        informers[1].request_json()
    return informers


def _decoders_for(message: type[M]) -> Decoders:
    """The decoders of a kind, from JSON and from protobuf."""
    return (
        functools.partial(decode.decode, message_class=message),
        functools.partial(protobuf.decode, message_class=message),
    )


def _make_informer(
    api: client.ApiClient,
    prefetched: Mapping[resources.Resource, list_prefetch.ListPrefetch],
    streams: bool,
    watched: resources.Resource,
    decoders: Decoders,
    consumers: Sequence[OnEvents],
) -> informer.Informer[Any]:
    """Make the informer of one kind; `streams`: whether it may ask for its list as a watch."""
    read, read_protobuf = decoders
    return informer.Informer(
        api, watched, read, consumers, decode_protobuf=read_protobuf, prefetch=prefetched.get(watched), streams=streams
    )
