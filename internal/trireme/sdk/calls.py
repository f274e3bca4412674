"""The arguments of a plugin's methods.

Also change: sdk/go/nodeinfo.go, sdk/java/src/main/java/dev/trireme/sdk/Call.java,
sdk/java/src/main/java/dev/trireme/sdk/Node.java, sdk/rust/src/call.rs,
sdk/typescript/src/calls.ts (the same in the other languages' SDKs).
Also change: protos/trireme/v1/cycle.proto (the messages).

Tests: tests/contract/test_plugin_sdk.py.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from trireme.sdk import cluster_state, state
from trireme.v1 import bind_pb2, core_pb2, cycle_pb2, filter_pb2

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """One call about one class of pods.

    `pod` has the fields that the plugin's `pod_fields` name. `state` is what the plugin returned earlier in the cycle,
    which `read_state` makes a value of. `deadline` is when the caller gives up, as `time.monotonic()` counts, and an
    async method is cancelled (None: it did not say).
    `count` is how many pods of the class are pending: a filter need not count copies beyond it. `config` is what the
    plugin's `configure` returned for the profile. A dry run assumes that the pods in `removed_pods` are gone from the
    node and those in `added_pods` are on it; `node.pods` is unchanged. Score gets copies of the pod in `added_pods` if
    `Info.score_copies` says that it counts them; with SNAPSHOT they are in `node.pods` instead, and nowhere else.
    `cluster` is the whole cluster, with SNAPSHOT; it never has the copies.
    """

    pod: core_pb2.Pod
    profile: str
    state: bytes = b""
    count: int = 1
    config: Any = None
    removed_pods: Sequence[core_pb2.Pod] = ()
    added_pods: Sequence[core_pb2.Pod] = ()
    cluster: cluster_state.ClusterState | None = None
    deadline: float | None = None

    def read_state(self, kind: type[T]) -> T | None:
        """The state as a value of this type: of dataclasses and what JSON has. None: there is none.

        Raises:
            ValueError: it is not of this type.
        """
        return state.decode(self.state, kind)


def read_state(item: bind_pb2.BindItem, kind: type[T]) -> T | None:
    """The state that reserve returned for the pod, as `Call.read_state`."""
    return state.decode(item.state, kind)


@dataclass(frozen=True, slots=True)
class Node:
    """One node. `message`, `json()` and `pods` are filled as the plugin's `node_data` requests."""

    name: str
    message: core_pb2.Node
    raw_json: bytes = b""
    pods: Collection[cluster_state.PlacedPod] = ()

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels, with MESSAGES and SNAPSHOT."""
        return self.message.metadata.labels

    def json(self) -> Any:
        """The object as the API server sent it, with JSON."""
        return orjson.loads(self.raw_json)


def from_cycle(cycle: cycle_pb2.Cycle, count: int = 1) -> Call:
    """Make the call of a cycle."""
    return Call(cycle.pod, cycle.profile, cycle.state, count or 1)


def from_selection(selection: filter_pb2.NodeSelection, cluster: cluster_state.ClusterState | None) -> list[Node]:
    """The nodes of a call; with a cluster the selection lists slots."""
    if cluster is None:
        return from_views(selection.nodes)
    return [from_slot(slot, cluster) for slot in selection.slots]


def from_slot(slot: int, cluster: cluster_state.ClusterState) -> Node:
    """The node at the slot; empty if it was deleted since the call was made."""
    message = cluster.nodes.get(slot, core_pb2.Node())
    return Node(message.metadata.name, message, b"", cluster.pods_on(slot))


def from_views(views: Sequence[filter_pb2.NodeView]) -> list[Node]:
    """The nodes of a call."""
    return [Node(view.name, view.node, view.json) for view in views]
