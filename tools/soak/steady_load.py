"""A load that is the same at any time by construction: each pod and node that goes is replaced by one like it.

Also change: tools/soak/soak_load.py (the load).
"""

from __future__ import annotations

import collections
import copy
import random
from collections.abc import Iterator

from tests.simulation.pod_demands import APART, DEVICE_RESOURCE, GUARDED
from tests.simulation.simulated_workloads import NAMESPACE, Workloads
from trireme_kube.embedded.api.resources import BY_KEY, NODES, PODS, Object
from trireme_kube.embedded.kubelet.simulated_nodes import NodeShape, node
from trireme_kube.embedded.registry.registry import Registry

PRIORITY_CLASSES = BY_KEY["priorityclasses.scheduling.k8s.io"]
EVENTS = BY_KEY["events"]
PODS_OF_A_NODE = 30
_EVENTS = 150
_SIZES = ("100m", "250m", "500m")
_PODS_OF_AN_APP = 10
_SHAPES = 20
"""Different pods: so many requests, labels and constraints, over and over again."""


class SteadyLoad:
    """Always as many pods of each shape, and as many nodes."""

    def __init__(self, registry: Registry, nodes: int, pods: int) -> None:
        self._registry = registry
        self._workloads = Workloads(registry, random.Random("steady load"))
        self._nodes = nodes
        self._pods = pods
        self._created: collections.deque[tuple[str, int]] = collections.deque()
        self._number = self._node_number = 0
        self._node_names: collections.deque[str] = collections.deque()
        self.replacements = 0

    def prepare(self) -> None:
        """Create all nodes and pods."""
        self._workloads.prepare()
        for name, value in (("low", -100), ("high", 1000)):
            body: Object = {"metadata": {"name": name}, "value": value}
            self._registry.create(PRIORITY_CLASSES, "", body)
        for _ in range(self._nodes):
            self._add_node()
        for number in range(self._pods):
            self._create_pod(number % _SHAPES)

    def replace_pod(self) -> None:
        """Delete the oldest pod, and create one of its shape."""
        name, shape = self._created.popleft()
        if self._registry.store.get(PODS, NAMESPACE, name) is not None:
            self._registry.delete(PODS, NAMESPACE, name, {})
        self._workloads.tidy()
        self._create_pod(shape)
        self._forget_events()

    def _forget_events(self) -> None:
        """As etcd forgets them after an hour, but by their number, so that it stays the same."""
        events = sorted(self._registry.store.scan(EVENTS), key=lambda record: record.revision)
        for record in events[: max(len(events) - _EVENTS, 0)]:
            self._registry.store.remove(EVENTS, record.namespace, record.name)

    def replace_node(self) -> None:
        """Remove the oldest node with its pods, which are replaced, and add one."""
        self.replacements += 1
        name = self._node_names.popleft()
        self._registry.delete(NODES, "", name, {})
        self._workloads.strip(name)
        store = self._registry.store
        gone = {record.name for record in store.scan(PODS) if record.object["spec"].get("nodeName") == name}
        for pod in sorted(gone):
            self._registry.delete(PODS, NAMESPACE, pod, {"gracePeriodSeconds": 0})
        self._add_node()
        left = collections.deque(each for each in self._created if each[0] not in gone)
        shapes = [shape for pod, shape in self._created if pod in gone]
        self._created = left
        self._workloads.tidy()
        for shape in shapes:
            self._create_pod(shape)

    def _add_node(self) -> None:
        self._node_number += 1
        shape = NodeShape(cpu="8000m", memory="32768Mi", pods=PODS_OF_A_NODE)
        record = self._registry.create(NODES, "", node(shape, self._node_number))
        self._workloads.equip(record.name)
        spec = {**record.object["spec"], "taints": []}
        self._registry.update_fields(NODES, record, spec=spec)
        self._node_names.append(record.name)

    def _create_pod(self, shape: int) -> None:
        self._number += 1
        name = f"pod-{self._number}"
        body = {"metadata": {"name": name, "labels": dict(_labels(shape, self._app))}, "spec": self._spec(shape)}
        self._registry.create(PODS, NAMESPACE, copy.deepcopy(body))
        self._created.append((name, shape))

    @property
    def _app(self) -> str:
        """What pods are told apart by: a new one every few pods, so that classes of pods come and go."""
        return f"app-{self._number // _PODS_OF_AN_APP}"

    def _spec(self, shape: int) -> Object:
        """One of the shapes: most are of a size alone, some have a constraint, a claim, or no node that they fit."""
        requests = {"cpu": _SIZES[shape % len(_SIZES)], "memory": "128Mi"}
        container = {"name": "c", "image": "registry.example/app:1", "resources": {"requests": requests}}
        spec: Object = {"containers": [container]}
        match shape:
            case 0:
                spec["nodeSelector"] = {"no-node": "has-this"}
            case 1:
                spec["nodeSelector"] = {"topology.kubernetes.io/zone": "zone-1"}
            case 2:
                term = {"labelSelector": {"matchLabels": {APART: "a"}}, "topologyKey": "kubernetes.io/hostname"}
                required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
                spec["affinity"] = {"podAntiAffinity": required}
            case 3:
                claim = self._workloads.device_claim()
                spec["resourceClaims"] = [{"name": "devices", "resourceClaimName": claim}]
            case 4:
                spec["containers"][0]["resources"] = {
                    "requests": {**requests, DEVICE_RESOURCE: "1"},
                    "limits": {DEVICE_RESOURCE: "1"},
                }
            case 5:
                source = {"claimName": self._workloads.volume_claim()}
                spec["volumes"] = [{"name": "disk", "persistentVolumeClaim": source}]
            case 6:
                spec["schedulingGroup"] = {"podGroupName": self._workloads.group(1, {"spec": spec})}
            case _:
                spec.update(_constraints(shape, self._app))
        return spec


def _constraints(shape: int, app: str) -> Object:
    """The fields of further shapes; of some there are none."""
    match shape:
        case 7:
            return {"priorityClassName": "high"}
        case 8:
            return {"terminationGracePeriodSeconds": 1}
        case 10 | 11 | 12 | 13:
            return {"affinity": {"podAntiAffinity": _preferred_terms(app)}}
        case 14:
            return {"topologySpreadConstraints": [_spread_constraint(app)]}
        case _:
            return {}


def _preferred_terms(app: str) -> Object:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}


def _spread_constraint(app: str) -> Object:
    return {
        "maxSkew": 50,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }


def _labels(shape: int, app: str) -> Iterator[tuple[str, str]]:
    yield "app", app
    if shape == 2:
        yield APART, "a"
    if shape == 9:
        yield GUARDED, "yes"
