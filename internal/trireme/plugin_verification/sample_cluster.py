"""The nodes and pods that a plugin is called about, and what a user adds to them.

They differ in what plugins commonly read: zones, sizes, labels, taints, conditions.

Tests: tests/unit/cli/test_plugin_command.py.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import yaml

from trireme.v1 import core_pb2
from trireme_kube.apimachinery import decode, field_error

_ZONES = ("zone-a", "zone-b", "zone-c")
_NODES = 6


@dataclass(frozen=True, slots=True)
class SampleNode:
    """A node as a message, and as the API server's JSON."""

    message: core_pb2.Node
    json: bytes

    @property
    def name(self) -> str:
        """Its name."""
        return self.message.metadata.name


@dataclass(frozen=True, slots=True)
class SampleCluster:
    """Nodes and pods, at least two of each; each pod stands for a class of its own."""

    nodes: Sequence[SampleNode]
    pods: Sequence[core_pb2.Pod]


def sample_cluster(documents: Iterable[Mapping[str, Any]] = ()) -> SampleCluster:
    """The built-in nodes and pods, and those of a user's documents.

    Raises: ValueError: a document is neither a Node nor a Pod, or has a wrong field.
    """
    nodes = [_node_document(at) for at in range(_NODES)]
    pods = [
        _pod_document("web", {}),
        _pod_document("batch", {"priority": 1000, "tolerations": [{"operator": "Exists"}]}),
    ]
    for at, document in enumerate(documents):
        kind = document.get("kind") if isinstance(document, Mapping) else None
        if kind not in ("Node", "Pod"):
            raise ValueError(f"object {at + 1}: kind: {kind!r} is neither Node nor Pod")
        (nodes if kind == "Node" else pods).append(dict(document))
    try:
        return SampleCluster([make_node(each) for each in nodes], [decode.decode(each, core_pb2.Pod) for each in pods])
    except field_error.FieldError as error:
        raise ValueError(str(error)) from error


def read_objects(text: str) -> list[Mapping[str, Any]]:
    """The documents of a YAML or JSON text; those of a List one by one. Raises: ValueError."""
    try:
        documents = [each for each in yaml.safe_load_all(text) if each is not None]
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    out: list[Mapping[str, Any]] = []
    for each in documents:
        out += each.get("items") or () if isinstance(each, Mapping) and each.get("kind") == "List" else (each,)
    return out


def make_node(document: Mapping[str, Any]) -> SampleNode:
    """The node of a document. Raises: FieldError."""
    return SampleNode(decode.decode(document, core_pb2.Node), orjson.dumps(document, default=str))


def many_nodes(count: int) -> Sequence[SampleNode]:
    """So many nodes."""
    return [make_node(_node_document(at)) for at in range(count)]


def _node_document(at: int) -> dict[str, Any]:
    name = f"verify-{at}"
    amounts = {"cpu": str(4 + 4 * (at % 3)), "memory": f"{16 + 16 * (at % 3)}Gi", "pods": "110"}
    taints = [{"key": "example.com/dedicated", "value": "batch", "effect": "NoSchedule"}] if at % 6 == 4 else []
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"00000000-0000-4000-8000-{at:012d}",
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "arm64" if at % 2 else "amd64",
                "topology.kubernetes.io/zone": _ZONES[at % 3],
                "topology.kubernetes.io/region": "region-1",
            },
        },
        "spec": {"taints": taints, "unschedulable": at % 6 == 5},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _pod_document(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    requests = {"cpu": "500m", "memory": "256Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "verify", "uid": f"uid-of-{name}", "labels": {"app": name}},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "main", "image": "example.com/image:1", "resources": {"requests": requests}}],
            **spec,
        },
    }
