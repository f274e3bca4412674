"""A small cluster whose events a test delivers to shadow: nodes, and pods as a watch would show them."""

from typing import Any

from trireme.cache import pod_projection
from trireme.shadow import settings
from trireme.v1 import core_pb2
from trireme_kube.apimachinery import decode
from trireme_kube.client.informers.watch import Event, EventKind

Json = dict[str, Any]

CONFIGURED = settings.load("", [], "https://cluster.example:6443")
ZONE = "topology.kubernetes.io/zone"


class ManualClock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def node_event(name: str, cpu: str = "4", *, kind: EventKind = EventKind.ADDED, **labels: str) -> Event[core_pb2.Node]:
    """A node; of a zone if `zone` is among the labels."""
    zone = labels.pop("zone", "")
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **({ZONE: zone} if zone else {}), **labels}}
    resources = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    status = {"allocatable": resources, "capacity": resources}
    return Event(kind, decode.decode({"metadata": metadata, "status": status}, core_pb2.Node))


class Pods:
    """Pods of the cluster; each event has a newer version."""

    def __init__(self) -> None:
        self._version = 0

    def event(
        self,
        name: str,
        node: str = "",
        *,
        cpu: str = "1",
        kind: EventKind = EventKind.MODIFIED,
        metadata: Json | None = None,
        status: Json | None = None,
        **spec: Any,
    ) -> Event[pod_projection.ParsedPod]:
        """A pod as it is now; on a node if one is named."""
        self._version += 1
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
        raw = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{name}",
                "resourceVersion": str(self._version),
                "ownerReferences": [owner],
                **(metadata or {}),
            },
            "spec": {
                "schedulerName": "default-scheduler",
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
                **spec,
                **({"nodeName": node} if node else {}),
            },
            "status": status or {},
        }
        return Event(kind, pod_projection.parse(raw))

    def added(self, name: str, node: str = "", **more: Any) -> Event[pod_projection.ParsedPod]:
        """A pod that is new."""
        return self.event(name, node, kind=EventKind.ADDED, **more)

    def deleted(self, name: str, node: str = "", **more: Any) -> Event[pod_projection.ParsedPod]:
        """A pod that is gone."""
        return self.event(name, node, kind=EventKind.DELETED, **more)
