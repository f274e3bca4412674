"""The load of a simulation: pods and nodes that come and go, so that the cluster is nearly full most of the time.

It writes straight to the API server's registry, as clients of another API server of the same cluster would.
"""

from __future__ import annotations

import asyncio
import copy
import random
from dataclasses import dataclass
from typing import Any

from trireme_kube.embedded.api import api_errors
from trireme_kube.embedded.api.resources import BY_KEY, NODES, PODS, Object
from trireme_kube.embedded.kubelet.nodes import Shape, node
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.storage.store import Record

PRIORITY_CLASSES = {"low": -100, "high": 1000}
# CPUs in thousandths and MiB of the nodes.
NODE_SIZES = ((4000, 16384), (8000, 32768), (16000, 32768))
MAX_PODS_OF_A_NODE = 30
# The label of pods of which a node may have one for each value.
APART = "example.com/apart"


@dataclass(frozen=True)
class Rates:
    """How often things happen, and how full the cluster is. Units: seconds between two events on average."""

    nodes: int = 100
    # One of these, drawn for each storm.
    creation: tuple[float, ...] = (0.5, 2.0, 4.0, 10.0)
    node_churn: tuple[float, ...] = (10.0, 60.0, 300.0)
    fullness: float = 0.95


class Load:
    """Changes the cluster at random times."""

    def __init__(self, registry: Registry, rates: Rates, seed: int) -> None:
        self._registry = registry
        self._store = registry.store
        self._rates = rates
        self._random = random.Random(f"load {seed}")
        self._numbers = {"pod": 0, "node": 0}

    def prepare(self) -> None:
        """Create the nodes and priority classes."""
        for name, value in PRIORITY_CLASSES.items():
            body: Object = {"metadata": {"name": name}, "value": value}
            self._registry.create(BY_KEY["priorityclasses.scheduling.k8s.io"], "", body)
        for _ in range(self._rates.nodes):
            self.add_node()

    async def run(self) -> None:
        """Change the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._repeat(self._random.choice(self._rates.creation), self._change_pods))
            group.create_task(self._repeat(self._random.choice(self._rates.node_churn), self._change_nodes))

    async def _repeat(self, mean: float, change: Any) -> None:
        while True:
            await asyncio.sleep(self._random.expovariate(1 / mean))
            change()

    # Pods

    def _change_pods(self) -> None:
        count = self._random.choice((1, 1, 1, 2, 3, 8))
        if self._fullness() < self._rates.fullness + self._random.uniform(-0.1, 0.2):
            template = self._template()
            for _ in range(count):
                self._create_pod(template)
        else:
            for _ in range(count):
                self._delete_pod()

    def _fullness(self) -> float:
        """Requested CPUs, those of pending pods included, as a share of what there is."""
        requested = sum(cpu_of(record.object) for record in self._store.scan(PODS))
        capacity = sum(allocatable(record.object)[0] for record in self._store.scan(NODES))
        return requested / max(capacity, 1)

    def _template(self) -> Object:
        """Metadata and spec of some pods."""
        pick = self._random
        requests = {
            "cpu": f"{pick.choice((100, 250, 500, 1000, 2000, 3900))}m",
            "memory": f"{pick.choice((128, 512, 2048, 8192))}Mi",
        }
        spec: Object = {
            "containers": [{"name": "c", "image": "registry.example/app:1", "resources": {"requests": requests}}]
        }
        if pick.random() < 0.3:
            spec["priorityClassName"] = pick.choice(list(PRIORITY_CLASSES))
        if pick.random() < 0.15:
            spec["nodeSelector"] = {"topology.kubernetes.io/zone": f"zone-{pick.randint(1, 3)}"}
        if pick.random() < 0.05:
            spec["schedulingGates"] = [{"name": "example.com/later"}]
        if pick.random() < 0.3:
            spec["terminationGracePeriodSeconds"] = pick.choice((0, 1, 30))
        if pick.random() < 0.1:
            port = pick.choice((8080, 9090))
            spec["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]
        labels = {}
        if pick.random() < 0.1:
            labels[APART] = pick.choice("abcdefgh")
            term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        return {"metadata": {"labels": labels}, "spec": spec}

    def _create_pod(self, template: Object) -> None:
        self._numbers["pod"] += 1
        body = copy.deepcopy(template)
        body["metadata"]["name"] = f"pod-{self._numbers['pod']}"
        self._registry.create(PODS, "default", body)

    def _delete_pod(self) -> None:
        pods = [record for record in self._store.scan(PODS) if "deletionTimestamp" not in record.object["metadata"]]
        if pods:
            self._delete(self._random.choice(pods))

    def _delete(self, record: Record) -> None:
        try:
            self._registry.delete(PODS, record.namespace, record.name, {})
        except api_errors.ApiError:
            return

    def lift_gates(self) -> None:
        """Remove the gates of all pods."""
        for record in self._store.scan(PODS):
            if record.object["spec"].get("schedulingGates"):
                spec = {key: value for key, value in record.object["spec"].items() if key != "schedulingGates"}
                changed = {**record.object, "metadata": dict(record.object["metadata"]), "spec": spec}
                self._registry.store_changed(PODS, record, changed)

    # Nodes

    def add_node(self) -> None:
        """Add a node of some size, ready at once."""
        self._numbers["node"] += 1
        cpu, memory = self._random.choice(NODE_SIZES)
        shape = Shape(cpu=f"{cpu}m", memory=f"{memory}Mi", pods=MAX_PODS_OF_A_NODE)
        record = self._registry.create(NODES, "", node(shape, self._numbers["node"]))
        self._set_spec(record, taints=[])

    def _change_nodes(self) -> None:
        records = self._store.scan(NODES)
        chosen = self._random.choice(records)
        change = self._random.choice(("replace", "cordon", "cordon"))
        if change == "replace":
            self._remove_node(chosen)
            self.add_node()
        else:
            self._set_spec(chosen, unschedulable=not chosen.object["spec"].get("unschedulable", False))

    def _remove_node(self, record: Record) -> None:
        """Remove a node and, as their owners would, its pods."""
        self._registry.delete(NODES, "", record.name, {})
        for pod in self._store.scan(PODS):
            if pod.object["spec"].get("nodeName") == record.name:
                self._delete(pod)

    def _set_spec(self, record: Record, **fields: Any) -> None:
        changed = {**record.object, "metadata": dict(record.object["metadata"])}
        changed["spec"] = {**record.object["spec"], **fields}
        self._registry.store_changed(NODES, record, changed)


def cpu_of(pod: Object) -> int:
    """The CPUs that a pod requests. Units: thousandths."""
    return requests_of(pod)[0]


def requests_of(pod: Object) -> tuple[int, int]:
    """The CPUs in thousandths and the MiB that a pod requests."""
    cpu = memory = 0
    for container in pod["spec"]["containers"]:
        requests = (container.get("resources") or {}).get("requests") or {}
        cpu += _milli(requests.get("cpu", "0"))
        memory += int(str(requests.get("memory", "0Mi")).removesuffix("Mi"))
    return cpu, memory


def exclusions_of(pod: Object) -> frozenset[str]:
    """What no other pod on its node may have, too: host ports, and labels that its anti-affinity names."""
    ports = {
        f"host port {port['hostPort']}"
        for container in pod["spec"]["containers"]
        for port in container.get("ports") or ()
        if "hostPort" in port
    }
    label = (pod["metadata"].get("labels") or {}).get(APART)
    return frozenset(ports if label is None else {*ports, f"label {label}"})


def allocatable(node: Object) -> tuple[int, int, int]:
    """CPUs in thousandths, MiB and number of pods that a node has room for."""
    found = node["status"]["allocatable"]
    return _milli(found["cpu"]), int(found["memory"].removesuffix("Mi")), int(found["pods"])


def _milli(text: str) -> int:
    return int(text.removesuffix("m")) if text.endswith("m") else int(text) * 1000
