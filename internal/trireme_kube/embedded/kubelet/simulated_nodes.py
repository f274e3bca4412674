"""The shape of the simulated nodes, and the Node objects made from it.

Tests: tests/unit/embedded/test_parts.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from trireme_kube.componentbase.cli import versions
from trireme_kube.embedded.api.resources import Object


@dataclass(frozen=True, slots=True)
class NodeShape:
    """The properties of every simulated node."""

    cpu: str = "8"
    memory: str = "32Gi"
    pods: int = 110
    ephemeral_storage: str = "100Gi"
    zones: int = 3
    """Nodes are dealt out to this many zones in turn."""
    region: str = "region-1"
    prefix: str = "node-"
    labels: Mapping[str, str] = field(default_factory=dict)
    """More labels, on every node."""
    extended: Mapping[str, str] = field(default_factory=dict)
    """More resources, such as example.com/gpu, with their amounts."""


def node(shape: NodeShape, index: int) -> Object:
    """The Node with that number, ready except for what the kubelet adds when it registers."""
    name = f"{shape.prefix}{index}"
    capacity = {
        "cpu": shape.cpu,
        "memory": shape.memory,
        "pods": str(shape.pods),
        "ephemeral-storage": shape.ephemeral_storage,
        **shape.extended,
    }
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/region": shape.region,
        "topology.kubernetes.io/zone": f"zone-{index % max(shape.zones, 1) + 1}",
        **shape.labels,
    }
    info = {
        "machineID": name,
        "systemUUID": name,
        "bootID": name,
        "kernelVersion": "6.1.0-simulated",
        "osImage": "Simulated Linux",
        "containerRuntimeVersion": "simulated://1.0",
        "kubeletVersion": versions.KUBERNETES,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {"capacity": capacity, "allocatable": dict(capacity), "nodeInfo": info},
    }
