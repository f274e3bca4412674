"""Pods and nodes whole, as JSON, for extenders: everything else in the scheduler keeps only what its plugins see.

An extender gets the API's own object, and it must be the one that the decision is about; so what the informers read is
kept as bytes, and only of what some extender is sent: pending pods always, nodes and placed pods where an extender has
no cache of its own. Without extenders nothing is kept, and the informers decode as ever.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import orjson

from trireme.cache.pod_projection import ParsedPod
from trireme.v1 import core_pb2
from trireme_kube.client.watch import Event, EventKind

T = TypeVar("T")

Json = Mapping[str, Any]
Decode = Callable[[Json], T]


class ObjectSource(Protocol):
    """What is kept, by UID and by name."""

    def pod(self, uid: str, node_name: str = "") -> bytes | None:
        """The pod as JSON; on the node, where one is given. None: it is gone."""
        ...

    def node(self, name: str) -> bytes | None:
        """The node as JSON; None: it is gone."""
        ...


class ExtenderObjects:
    """Keeps objects as the informers read them. `nodes`, `placed`: whether some extender is sent such."""

    def __init__(self, nodes: bool, placed: bool) -> None:
        self.keeps_nodes = nodes
        self._placed = placed
        self._pods: dict[str, bytes] = {}
        self._nodes: dict[str, bytes] = {}
        self._listed: dict[str, set[str]] = {}

    def pod(self, uid: str, node_name: str = "") -> bytes | None:
        """The pod as JSON. One that is only assumed on the node does not say so by itself."""
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

    # What informers are given instead of their decode functions, and beside their consumers

    def pod_decoder(self, decode: Decode[T]) -> Decode[T]:
        """Decode as `decode` does, and keep the pod."""

        def keeping(raw: Json) -> T:
            decoded = decode(raw)
            if self._placed or not (raw.get("spec") or {}).get("nodeName"):
                self._pods[raw["metadata"].get("uid", "")] = _bytes(raw, "managedFields")
            else:
                self._pods.pop(raw["metadata"].get("uid", ""), None)
            return decoded

        return keeping

    def node_decoder(self, decode: Decode[T]) -> Decode[T]:
        """Decode as `decode` does, and keep the node."""

        def keeping(raw: Json) -> T:
            decoded = decode(raw)
            self._nodes[raw["metadata"]["name"]] = _bytes(raw)
            return decoded

        return keeping

    def on_pods(self, events: Sequence[Event[ParsedPod]]) -> None:
        """Forget the pods that are gone."""
        for kind, parsed in events:
            self._forget("pods", self._pods, kind, None if parsed is None else parsed.uid)

    def on_nodes(self, events: Sequence[Event[core_pb2.Node]]) -> None:
        """Forget the nodes that are gone."""
        for kind, node in events:
            self._forget("nodes", self._nodes, kind, None if node is None else node.metadata.name)

    def _forget(self, what: str, cached: dict[str, bytes], kind: EventKind, key: str | None) -> None:
        if kind == EventKind.LIST_START:
            self._listed[what] = set()
        elif kind == EventKind.LIST_END:
            listed = self._listed.pop(what, set())
            for deleted in [key_ for key_ in cached if key_ not in listed]:
                del cached[deleted]
        elif kind == EventKind.DELETED and key is not None:
            cached.pop(key, None)
        elif kind == EventKind.LISTED and key is not None and what in self._listed:
            self._listed[what].add(key)


def _bytes(raw: Json, excluded: str = "") -> bytes:
    """The object as kube-scheduler has it: without the type, and of pods without who wrote which field."""
    metadata = {key: value for key, value in raw["metadata"].items() if key != excluded}
    whole = {key: value for key, value in raw.items() if key not in ("kind", "apiVersion", "metadata")}
    return orjson.dumps({"metadata": metadata, **whole})
