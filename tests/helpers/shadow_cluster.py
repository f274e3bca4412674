"""A small cluster whose events a test delivers to shadow: nodes, and pods as a watch would show them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from trireme.cache import pod_projection
from trireme.shadow import settings, simulated_cluster
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


def node_event(
    name: str,
    cpu: str = "4",
    *,
    kind: EventKind = EventKind.ADDED,
    uid: str = "",
    spec: Json | None = None,
    **labels: str,
) -> Event[core_pb2.Node]:
    """A node; of a zone if `zone` is among the labels."""
    zone = labels.pop("zone", "")
    metadata = {
        "name": name,
        "uid": uid,
        "labels": {"kubernetes.io/hostname": name, **({ZONE: zone} if zone else {}), **labels},
    }
    resources = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    status = {"allocatable": resources, "capacity": resources}
    return Event(kind, decode.decode({"metadata": metadata, "spec": spec or {}, "status": status}, core_pb2.Node))


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


class Own:
    """Trireme's simulated cluster beside the cluster."""

    def __init__(self, *nodes: str, cpu: str = "4", configured: settings.ShadowConfiguration = CONFIGURED) -> None:
        self.clock, self.pods = ManualClock(), Pods()
        self.own = simulated_cluster.SimulatedCluster(configured.completed, self.clock)
        self.own.on_nodes([node_event(name, cpu) for name in nodes])

    def show(self, *events: Event[pod_projection.ParsedPod]) -> None:
        self.own.on_pods(events)

    def node_of(self, name: str) -> str:
        """The pod's node here, also after evictions; empty: it has none."""
        found = [pod for pod in self.own.model.cache.pods() if pod.key == f"default/{name}" and not pod.assumed]
        return found[0].node_name if found else ""

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return once it holds: scheduling takes some turns of the loop. A hang is the test's timeout."""
        while not holds():
            await asyncio.sleep(0)

    @contextlib.asynccontextmanager
    async def scheduling(self) -> AsyncIterator[None]:
        """The scheduler of the simulated cluster runs until the block ends."""
        running = asyncio.create_task(self.own.model.run_scheduler())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
