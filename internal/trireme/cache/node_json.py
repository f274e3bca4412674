"""Nodes as JSON, for plugins with NODE_DATA_JSON; disabled while there is no such plugin.

An informer decodes an object before it delivers the event, so this holds the JSON until the event is handled; then the
cluster cache stores it.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import orjson

from trireme.v1 import core_pb2

Json = Mapping[str, Any]
NodeT = TypeVar("NodeT", bound=core_pb2.Node)


class NodeJson:
    """The JSON of nodes whose events are being delivered. `enabled`: whether some plugin needs it."""

    def __init__(self, enabled: bool = False) -> None:
        self.enabled = enabled
        self._by_version: dict[tuple[str, str], bytes] = {}

    def decoder(self, decode: Callable[[Json], NodeT]) -> Callable[[Json], NodeT]:
        """Wrap `decode` to hold the node's JSON until `take`."""

        def decode_and_store(raw: Json) -> NodeT:
            node = decode(raw)
            if self.enabled:
                # Objects of a list come without these two, objects of a watch with them.
                whole = {"kind": "Node", "apiVersion": "v1", **raw}
                self._by_version[_name_and_version(node)] = orjson.dumps(whole)
            return node

        return decode_and_store

    def take(self, node: core_pb2.Node) -> bytes:
        """Return and drop the JSON of this version of the node; empty if disabled."""
        return self._by_version.pop(_name_and_version(node), b"") if self._by_version else b""


def _name_and_version(node: core_pb2.Node) -> tuple[str, str]:
    """The key of the JSON: name and resourceVersion of the node."""
    return node.metadata.name, node.metadata.resource_version
