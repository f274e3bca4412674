"""What a plugin's methods are called with."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from trireme.sdk import cluster_state
from trireme.v1 import core_pb2, cycle_pb2, filter_pb2


@dataclass(frozen=True, slots=True)
class Call:
    """One question about one class of pods.

    `pod` has the fields that the plugin's `pod_fields` name. `state` is what the plugin answered earlier in the cycle.
    `count` is how many pods of the class wait: copies need not be counted beyond it. `config` is what the plugin's
    `configure` answered for the profile. In a dry run the pods in `removed_pods` are to be taken as gone from the node,
    those in `added_pods` as there; `node.pods` has them as they are. `cluster` is the whole cluster, with SNAPSHOT.
    """

    pod: core_pb2.Pod
    profile: str
    attempt: int = 0
    state: bytes = b""
    count: int = 1
    config: Any = None
    removed_pods: Sequence[core_pb2.Pod] = ()
    added_pods: Sequence[core_pb2.Pod] = ()
    cluster: cluster_state.ClusterState | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One node. `message`, `json()` and `pods` hold what the plugin's `node_data` asked for, else nothing."""

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
    """The call of a cycle."""
    return Call(cycle.pod, cycle.profile, cycle.attempt, cycle.state, count or 1)


def from_selection(selection: filter_pb2.NodeSelection, cluster: cluster_state.ClusterState | None) -> list[Node]:
    """The nodes of a call; with a cluster they are named by slot."""
    if cluster is None:
        return from_views(selection.nodes)
    return [from_slot(slot, cluster) for slot in selection.slots]


def from_slot(slot: int, cluster: cluster_state.ClusterState) -> Node:
    """The node at the slot; one that is gone since the call was made is empty."""
    message = cluster.nodes.get(slot, core_pb2.Node())
    return Node(message.metadata.name, message, b"", cluster.pods_on(slot))


def from_views(views: Sequence[filter_pb2.NodeView]) -> list[Node]:
    """The nodes of a call."""
    return [Node(view.name, view.node, view.json) for view in views]
