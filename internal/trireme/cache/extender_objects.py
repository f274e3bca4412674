"""Complete pods and nodes as JSON, for extenders; the rest of the scheduler stores only the fields that plugins read.

An extender gets the API object in the version that the decision is about, so this stores what the informers read, as
bytes. It stores only what some extender is sent: pending pods always, nodes and placed pods if an extender has no cache
of its own. Without extenders nothing is stored.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import orjson

from trireme.cache.pod_projection import ParsedPod
from trireme.v1 import core_pb2
from trireme_kube.client.informers.watch import Event, EventKind

T = TypeVar("T")

Json = Mapping[str, Any]
Decode = Callable[[Json], T]


class ObjectSource(Protocol):
    """Stored pods by UID and nodes by name.

    Implementers: trireme.cache.extender_objects.ExtenderObjects, tests.helpers.frontend_world_services.ObjectsOfPods.
    """

    def pod(self, uid: str, node_name: str = "") -> bytes | None:
        """The pod as JSON, on the node if one is given; None if it was deleted."""
        ...

    def node(self, name: str) -> bytes | None:
        """The node as JSON; None if it was deleted."""
        ...


class ExtenderObjects:
    """Pods and nodes in JSON, as the informers read them, for extenders; `nodes`, `placed`: whether one needs them."""

    def __init__(self, nodes: bool, placed: bool) -> None:
        self.keeps_nodes = nodes
        self._placed = placed
        self._pods: dict[str, bytes] = {}
        self._nodes: dict[str, bytes] = {}
        self._listed: dict[str, set[str]] = {}

    def pod(self, uid: str, node_name: str = "") -> bytes | None:
        """The pod as JSON, with `nodeName` set: an assumed pod's object does not have it yet."""
        cached = self._pods.get(uid)
        if cached is None or not node_name:
            return cached
        raw = orjson.loads(cached)
        if raw["spec"].get("nodeName") == node_name:
            return cached
        raw["spec"]["nodeName"] = node_name
        return orjson.dumps(raw)

    def node(self, name: str) -> bytes | None:
        """The node as JSON."""
        return self._nodes.get(name)

    # Decoders and consumers for the informers

    def pod_decoder(self, decode: Decode[T]) -> Decode[T]:
        """Wrap `decode` to store the pod as well."""

        def decode_and_store(raw: Json) -> T:
            decoded = decode(raw)
            if self._placed or not (raw.get("spec") or {}).get("nodeName"):
                self._pods[raw["metadata"].get("uid", "")] = _encode_for_extenders(raw, "managedFields")
            else:
                self._pods.pop(raw["metadata"].get("uid", ""), None)
            return decoded

        return decode_and_store

    def node_decoder(self, decode: Decode[T]) -> Decode[T]:
        """Wrap `decode` to store the node as well."""

        def decode_and_store(raw: Json) -> T:
            decoded = decode(raw)
            self._nodes[raw["metadata"]["name"]] = _encode_for_extenders(raw)
            return decoded

        return decode_and_store

    def on_pods(self, events: Sequence[Event[ParsedPod]]) -> None:
        """Drop deleted pods."""
        self._forget_deleted("pods", self._pods, [(kind, "" if pod is None else pod.uid) for kind, pod in events])

    def on_nodes(self, events: Sequence[Event[core_pb2.Node]]) -> None:
        """Drop deleted nodes."""
        self._forget_deleted(
            "nodes", self._nodes, [(kind, "" if node is None else node.metadata.name) for kind, node in events]
        )

    def _forget_deleted(self, what: str, cached: dict[str, bytes], events: Sequence[tuple[EventKind, str]]) -> None:
        """Drop what a batch of events, by kind and key, leaves deleted.

        The whole batch was decoded, hence stored, before: what comes after a deletion, or after the end of a list that
        does not have it, must stay.
        """
        deleted: set[str] = set()
        for kind, key in events:
            if kind is EventKind.LIST_START:
                self._listed[what] = set()
            elif kind is EventKind.LIST_END:
                deleted |= cached.keys() - self._listed.pop(what, set())
            elif kind is EventKind.DELETED:
                deleted.add(key)
            else:
                deleted.discard(key)
                if kind is EventKind.LISTED and what in self._listed:
                    self._listed[what].add(key)
        for key in deleted:
            cached.pop(key, None)


def _encode_for_extenders(raw: Json, excluded: str = "") -> bytes:
    """Encode the object as kube-scheduler sends it: without its type, and pods without managedFields."""
    metadata = {key: value for key, value in raw["metadata"].items() if key != excluded}
    whole = {key: value for key, value in raw.items() if key not in ("kind", "apiVersion", "metadata")}
    return orjson.dumps({"metadata": metadata, **whole})
