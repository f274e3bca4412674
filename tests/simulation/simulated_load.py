"""The load of a simulation: pods and nodes that come and go, so that the cluster is nearly full most of the time.

It writes straight to the API server's registry, as clients of another API server of the same cluster would.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.simulation.pod_demands import (
    APART,
    DEVICE_RESOURCE,
    GUARDED,
    LICENSE_RESOURCE,
    allocatable,
    cpu_of,
    group_of,
    is_closed,
)
from tests.simulation.simulated_configuration import SECOND_PROFILE
from tests.simulation.simulated_quotas import LimitedWorkloads
from tests.simulation.simulated_workloads import NAMESPACE, Workloads, ZonedWorkloads
from tests.simulation.simulation_plan import PlannedEvent
from trireme_kube.embedded.api import api_errors
from trireme_kube.embedded.api.resources import BY_KEY, NODES, PODS, Object, Resource
from trireme_kube.embedded.kubelet.simulated_nodes import NodeShape, node
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.storage.store import ADDED, DELETED, MODIFIED, Event, Record

PRIORITY_CLASSES = {"low": -100, "high": 1000}
# CPUs in thousandths and MiB of the nodes.
NODE_SIZES = ((4000, 16384), (8000, 32768), (16000, 32768))
# Amounts of each: MiB of ephemeral storage, and licenses.
STORAGE_OF_A_NODE, LICENSES_OF_A_NODE = 40960, 4
MAX_PODS_OF_A_NODE = 30
# How much of a node its first pod takes, where it has one from the beginning.
_RESIDENT_SHARE = (0.5, 0.95)


@dataclass(frozen=True)
class Rates:
    """How often things happen, and how full the cluster is. Units: seconds between two events on average."""

    # One of these, drawn for each storm.
    creation: tuple[float, ...] = (0.5, 2.0, 4.0, 10.0)
    node_churn: tuple[float, ...] = (10.0, 60.0, 300.0)
    lifted_gates: float = 20.0
    fullness: float = 0.95
    # Whether each node has a pod from the beginning that leaves little room, so that few pods make the cluster full.
    residents: bool = False


# By name. `busy` has six times as many pods in a second as `light`, and with many nodes takes as long to fill them.
LOADS: Mapping[str, Rates] = {
    "busy": Rates(),
    "light": Rates(creation=(3.0, 8.0, 20.0, 40.0), residents=True),
}


class _Totals:
    """The CPUs that pods of the namespace request, pending ones included, and that nodes have. Units: thousandths."""

    def __init__(self) -> None:
        self.requested = self.allocatable = 0

    def on_write(self, resource: Resource, event: Event) -> None:
        """A write at the API server."""
        if resource is PODS and event.type != MODIFIED:  # what a pod requests does not change
            if event.record.namespace != NAMESPACE:
                return
            self.requested += cpu_of(event.record.object) * (1 if event.type == ADDED else -1)
        elif resource is NODES:
            after = 0 if event.type == DELETED else _allocatable_cpu(event.record.object)
            self.allocatable += after - (_allocatable_cpu(event.before.object) if event.before else 0)


class Load:
    """Changes the cluster at random times."""

    #: What makes the objects that pods need.
    workloads: type[Workloads] = Workloads
    #: How often pods are like those that were created last, as when something is scaled up.
    repeats = 0.0

    def __init__(self, registry: Registry, rates: Rates, nodes: int, seed: int) -> None:
        """`nodes`: how many there are at any time."""
        self._registry = registry
        self._store = registry.store
        self._rates = rates
        self._nodes = nodes
        self._seed = seed
        self._random = random.Random(f"load {seed}")
        self._totals = _Totals()
        registry.store.listen_to_all(self._totals.on_write)
        self._numbers = {"pod": 0, "node": 0}
        self._last: Object = {}
        self._workloads = self.workloads(registry, self._random)
        self.limited = LimitedWorkloads(registry)

    def prepare(self) -> None:
        """Create the nodes, and what every cluster has."""
        self._workloads.prepare()
        for name, value in PRIORITY_CLASSES.items():
            body: Object = {"metadata": {"name": name}, "value": value}
            self._registry.create(BY_KEY["priorityclasses.scheduling.k8s.io"], "", body)
        self.limited.prepare()
        for _ in range(self._nodes):
            node = self.add_node()
            if self._rates.residents and not is_closed(node.name):
                self._create_resident(node)

    @property
    def intervals(self) -> Mapping[str, tuple[float, ...]]:
        """The changes, and the seconds between two of a kind on average; a storm has one."""
        return {"pods": self._rates.creation, "nodes": self._rates.node_churn, "gates": (self._rates.lifted_gates,)}

    def change(self, event: PlannedEvent) -> None:
        """Make a change of a plan."""
        self._random.seed(event.source(self._seed))
        changes = {"pods": self._change_pods, "nodes": self._change_nodes, "gates": self._lift_gate}
        changes[event.name]()

    # Pods

    def _change_pods(self) -> None:
        self._workloads.tidy()
        count = self._random.choice((1, 1, 1, 2, 3, 8))
        if self._fullness() < self._rates.fullness + self._random.uniform(-0.1, 0.2):
            if self._last and self.repeats and self._random.random() < self.repeats:
                self._create_pods(copy.deepcopy(self._last), 1)
                return  # nothing else changes, so what was found for one more such pod holds
            self._last = self._template()
            self._create_pods(copy.deepcopy(self._last), count)
        else:
            for _ in range(count):
                self._delete_pod()
        self.limited.change(self._random)

    def _fullness(self) -> float:
        """Requested CPUs, those of pending pods included, as a share of what there is."""
        return self._totals.requested / max(self._totals.allocatable, 1)

    def _template(self) -> Object:
        """Metadata and spec of some pods."""
        pick = self._random
        spec = self._containers()
        if pick.random() < 0.3:
            spec["priorityClassName"] = pick.choice(list(PRIORITY_CLASSES))
        if pick.random() < 0.15:
            spec["schedulerName"] = SECOND_PROFILE
        if pick.random() < 0.15:
            spec["nodeSelector"] = {"topology.kubernetes.io/zone": f"zone-{pick.randint(1, 3)}"}
        if pick.random() < 0.05:
            spec["schedulingGates"] = [{"name": "example.com/later"}]
        if pick.random() < 0.3:
            spec["terminationGracePeriodSeconds"] = pick.choice((0, 1, 30))
        labels = {}
        if pick.random() < 0.15:
            labels[GUARDED] = "yes"
        if pick.random() < 0.1:
            labels[APART] = pick.choice("abcdefgh")
            term = {"labelSelector": {"matchLabels": {APART: labels[APART]}}, "topologyKey": "kubernetes.io/hostname"}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        return {"metadata": {"labels": labels}, "spec": spec}

    def _containers(self) -> Object:
        """The containers of some pods, and what they request."""
        pick = self._random
        requests = {
            "cpu": f"{pick.choice((100, 250, 500, 1000, 2000, 3900))}m",
            "memory": f"{pick.choice((128, 512, 2048, 8192))}Mi",
        }
        limits = {}
        if pick.random() < 0.15:
            requests["ephemeral-storage"] = f"{pick.choice((2048, 10240, 20480))}Mi"
        if pick.random() < 0.1:
            requests[LICENSE_RESOURCE] = limits[LICENSE_RESOURCE] = str(pick.choice((1, 1, 2)))
        resources = {"requests": requests, "limits": limits}
        container: Object = {"name": "c", "image": "registry.example/app:1", "resources": resources}
        if pick.random() < 0.1:
            port = pick.choice((8080, 9090))
            container["ports"] = [{"containerPort": port, "hostPort": port}]
        spec: Object = {"containers": [container]}
        if pick.random() < 0.1:
            more = {"requests": {"cpu": f"{pick.choice((500, 3000))}m", "memory": "1024Mi"}}
            spec["initContainers"] = [{"name": "i", "image": "registry.example/init:1", "resources": more}]
        return spec

    def _create_pods(self, template: Object, count: int) -> None:
        """Create some pods alike, perhaps as a group, with devices and volumes if they have some."""
        pick = self._random
        if pick.random() < 0.15:
            count = pick.randint(2, 5)
            template["spec"]["schedulingGroup"] = {"podGroupName": self._workloads.group(count, template)}
        devices, volumes, shared = pick.random() < 0.12, pick.random() < 0.1, pick.random() < 0.2
        grouped = "schedulingGroup" in template["spec"]
        extended = devices and pick.random() < 0.4
        if extended:
            resources = template["spec"]["containers"][0]["resources"]
            amount = {DEVICE_RESOURCE: str(pick.choice((1, 1, 2)))}
            template["spec"]["containers"][0]["resources"] = {
                "requests": {**resources["requests"], **amount},
                "limits": {**resources["limits"], **amount},
            }
            devices = False
        claim = self._workloads.device_claim() if devices and shared and not grouped else ""
        for _ in range(count):
            body = copy.deepcopy(template)
            if devices:
                claimed = claim or self._workloads.device_claim()
                body["spec"]["resourceClaims"] = [{"name": "devices", "resourceClaimName": claimed}]
            if volumes:
                source = {"claimName": self._workloads.volume_claim()}
                body["spec"]["volumes"] = [{"name": "disk", "persistentVolumeClaim": source}]
            self._create_pod(body)

    def _create_pod(self, body: Object) -> None:
        self._numbers["pod"] += 1
        body["metadata"]["name"] = f"pod-{self._numbers['pod']}"
        self._registry.create(PODS, NAMESPACE, body)

    def _create_resident(self, node: Record) -> None:
        """Create a pod that is on its node already, as one of an earlier scheduler is, and leaves little room there."""
        pick, (cpu, memory, *_) = self._random, allocatable(node.object)
        share = pick.uniform(*_RESIDENT_SHARE)
        requests = {"cpu": f"{int(cpu * share)}m", "memory": f"{int(memory * share)}Mi"}
        container = {"name": "c", "image": "registry.example/app:1", "resources": {"requests": requests}}
        spec: Object = {"containers": [container], "nodeName": node.name}
        if pick.random() < 0.5:
            spec["priorityClassName"] = pick.choice(list(PRIORITY_CLASSES))
        labels = {GUARDED: "yes"} if pick.random() < 0.15 else {}
        self._create_pod({"metadata": {"labels": labels}, "spec": spec})

    def _delete_pod(self) -> None:
        records = self._store.scan(PODS, NAMESPACE)
        pods = [record for record in records if "deletionTimestamp" not in record.object["metadata"]]
        if pods:
            chosen = self._random.choice(pods)
            group = group_of(chosen.object)
            for record in pods if group else [chosen]:
                if group_of(record.object) == group:
                    self._delete(record)

    def _delete(self, record: Record) -> None:
        try:
            self._registry.delete(PODS, record.namespace, record.name, {})
        except api_errors.ApiError:
            return

    def _gated(self) -> list[Record]:
        return [record for record in self._store.scan(PODS) if record.object["spec"].get("schedulingGates")]

    def _lift_gate(self) -> None:
        gated = self._gated()
        if gated:
            self._remove_gates(self._random.choice(gated))

    def lift_gates(self) -> None:
        """Remove the gates of all pods."""
        self._workloads.tidy()
        for record in self._gated():
            self._remove_gates(record)

    def _remove_gates(self, record: Record) -> None:
        spec = {key: value for key, value in record.object["spec"].items() if key != "schedulingGates"}
        self._registry.update_fields(PODS, record, spec=spec)

    # Nodes

    def add_node(self) -> Record:
        """Add a node of some size, ready at once."""
        self._numbers["node"] += 1
        cpu, memory = self._random.choice(NODE_SIZES)
        shape = NodeShape(
            cpu=f"{cpu}m",
            memory=f"{memory}Mi",
            pods=MAX_PODS_OF_A_NODE,
            ephemeral_storage=f"{STORAGE_OF_A_NODE}Mi",
            extended={LICENSE_RESOURCE: str(LICENSES_OF_A_NODE)},
        )
        record = self._registry.create(NODES, "", node(shape, self._numbers["node"]))
        self._workloads.equip(record.name)
        return self._set_spec(record, taints=[])

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
        self._workloads.strip(record.name)
        for pod in self._store.scan(PODS):
            if pod.object["spec"].get("nodeName") == record.name:
                self._delete(pod)

    def _set_spec(self, record: Record, **fields: Any) -> Record:
        return self._registry.update_fields(NODES, record, spec={**record.object["spec"], **fields})


class ZonedLoad(Load):
    """The same with groups, some of which have to be in one zone."""

    workloads = ZonedWorkloads


def _allocatable_cpu(node: Object) -> int:
    return allocatable(node)[0] if "allocatable" in node.get("status", {}) else 0
