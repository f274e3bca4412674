"""An embedded cluster without network, event loop or real time, for unit tests: time passes when a test says so."""

from __future__ import annotations

import random
from typing import Any

from trireme_kube.embedded.api.resources import BY_KEY, NAMESPACES, NODES, PODS
from trireme_kube.embedded.clock_and_ids import ClockAndIds
from trireme_kube.embedded.controllers.controller_manager import ControllerManager
from trireme_kube.embedded.endpoints import patches
from trireme_kube.embedded.kubelet import simulated_nodes
from trireme_kube.embedded.kubelet.kubelets import KubeletPace, Kubelets
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.registry.subresources import bind
from trireme_kube.embedded.serializer import type_checking
from trireme_kube.embedded.storage.store import ADDED, Event, Store

START = 1_767_225_600.0  # 2026-01-01T00:00:00Z
Object = dict[str, Any]


class FakeTime:
    """Seconds since an arbitrary moment, moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def clock(self) -> float:
        return START + self.now


def numbered(prefix: str) -> Any:
    """A source of uids that a reader can tell apart."""
    count = 0

    def make() -> str:
        nonlocal count
        count += 1
        return f"{prefix}-{count}"

    return make


def make_registry(time: FakeTime | None = None, *, history: int = 1000) -> Registry:
    """A registry with the namespaces and nothing else, on fake time."""
    time = time or FakeTime()
    clock_and_ids = ClockAndIds(clock=time.clock, uid=numbered("uid"), random=random.Random(7))
    registry = Registry(Store(history=history), clock_and_ids)
    for name in ("default", "kube-node-lease"):
        registry.create(NAMESPACES, "", {"metadata": {"name": name}})
    return registry


def pod(name: str = "", *, namespace: str = "default", **spec: Any) -> Object:
    """A pod of one container; `spec` adds to its spec."""
    metadata = {"name": name, "namespace": namespace} if name else {"generateName": "pod-", "namespace": namespace}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def create(registry: Registry, key: str, body: Object, namespace: str = "default") -> Object:
    """Creates through the same checks as a request, and answers the stored object."""
    resource = BY_KEY[key]
    cleaned = type_checking.conform_to_type(resource, body, strict=True)
    return registry.create(resource, namespace if resource.namespaced else "", cleaned).object


class Cluster:
    """Registry, kubelets and controllers, with a scheduler that deals pods out to the nodes in turn."""

    def __init__(self, node_count: int = 2, *, schedule: bool = True, pace: KubeletPace | None = None) -> None:
        self.time = FakeTime()
        self.registry = make_registry(self.time)
        self.store = self.registry.store
        self.kubelets = Kubelets(self.registry, pace or KubeletPace(start=1, stop=1, run=10), self.time.monotonic)
        self.controllers = ControllerManager(self.registry, self.time.monotonic)
        self._queues = (*self.kubelets.queues, *self.controllers.queues)
        self._unscheduled: list[tuple[str, str]] = []
        self._turn = 0
        if schedule:
            self.store.listen(PODS, self._on_pod)
        for index in range(node_count):
            self.registry.create(NODES, "", simulated_nodes.node(simulated_nodes.NodeShape(), index))
        self.settle()

    def _on_pod(self, event: Event) -> None:
        spec = event.record.object["spec"]
        if event.type == ADDED and not spec.get("nodeName") and not spec.get("schedulingGates"):
            self._unscheduled.append(event.record.key)

    def _schedule(self) -> bool:
        waiting, self._unscheduled = self._unscheduled, []
        names = [one.name for one in self.store.scan(NODES)]
        for namespace, name in waiting:
            record = self.store.get(PODS, namespace, name)
            if record is None or not names or record.object["spec"].get("nodeName"):
                continue
            required = ((record.object["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
                "requiredDuringSchedulingIgnoredDuringExecution"
            )
            target = names[self._turn % len(names)]
            if required:
                target = required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
            self._turn += 1
            bind(self.registry, namespace, name, {"metadata": {"name": name}, "target": {"name": target}})
        return bool(waiting)

    def settle(self) -> None:
        """Lets everybody do what is due now."""
        busy = True
        while busy:
            busy = self._schedule()
            for queue in self._queues:
                while queue.due:
                    queue.process_due_keys()
                    busy = True

    def run(self, seconds: float, step: float = 0.5) -> None:
        """Lets so much time pass, and everybody do what comes due in it."""
        end = self.time.now + seconds
        self.settle()
        while self.time.now < end:
            self.time.now = min(self.time.now + step, end)
            self.settle()

    def objects(self, key: str, namespace: str = "") -> list[Object]:
        """All objects of a resource."""
        return [one.object for one in self.store.scan(BY_KEY[key], namespace)]

    def get(self, key: str, name: str, namespace: str = "default") -> Object:
        """One object; raises ApiError where there is none."""
        resource = BY_KEY[key]
        return self.registry.get(resource, namespace if resource.namespaced else "", name).object

    def create(self, key: str, body: Object, namespace: str = "default") -> Object:
        """Creates an object."""
        return create(self.registry, key, body, namespace)

    def edit(self, key: str, name: str, patch: Object) -> Object:
        """Applies a merge patch."""
        resource = BY_KEY[key]
        namespace = "default" if resource.namespaced else ""
        return self.registry.edit_object(
            resource, namespace, name, lambda obj: patches.apply_merge_patch(obj, patch)
        ).object

    def delete(self, key: str, name: str, **options: Any) -> None:
        """Deletes an object."""
        resource = BY_KEY[key]
        self.registry.delete(resource, "default" if resource.namespaced else "", name, options)

    def phases(self) -> list[str]:
        """The phases of all pods."""
        return [one["status"]["phase"] for one in self.objects("pods")]


def workload(name: str, replicas: int | None = None, *, image: str = "v1", **spec: Any) -> Object:
    """A deployment or the like, whose pods carry its name as label `app`."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}}
    body: Object = {"selector": {"matchLabels": labels}, "template": template, **spec}
    if replicas is not None:
        body["replicas"] = replicas
    return {"metadata": {"name": name}, "spec": body}


def true_conditions(obj: Object) -> set[str]:
    """The types of the conditions that are true."""
    return {one["type"] for one in obj["status"].get("conditions") or () if one["status"] == "True"}
