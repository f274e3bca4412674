"""Simulates the kubelets of all nodes with one object.

A pod bound to a node becomes Running after a moment; a pod without restarts succeeds after a while; a terminating pod
is removed; and every node's Lease is renewed. This applies to the nodes that the cluster starts with and to any Node
object that a client creates, unless its annotation is `trireme.dev/kubelet: none`: so a test can make a node fail.

Tests: tests/unit/embedded/controllers/test_controllers.py, tests/unit/embedded/controllers/test_workloads.py.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trireme_kube.embedded.api.resources import LEASES, NODES, PODS, Object
from trireme_kube.embedded.api.timestamps import micro_timestamp
from trireme_kube.embedded.controllers.work_queue import WorkQueue
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.registry.subresources import with_condition
from trireme_kube.embedded.storage.store import DELETED, Event

LEASE_NAMESPACE = "kube-node-lease"
KUBELET_ANNOTATION = "trireme.dev/kubelet"
RUN_SECONDS_ANNOTATION = "trireme.dev/run-seconds"
EXIT_CODE_ANNOTATION = "trireme.dev/exit-code"
SLOWDOWN_ANNOTATION = "trireme.dev/slowdown-per-pod"
_LEASE_SECONDS = 40
_RENEWALS_PER_SECOND = 4

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class KubeletPace:
    """Durations of simulated steps. Units: seconds."""

    start: float = 0.2
    """From the binding of a pod until it runs."""
    stop: float = 0.2
    """From the deletion of a pod until its removal."""
    run: float = 10.0
    """From the start of a pod that is not restarted, such as a Job's, until it succeeds."""
    lease_renewal: float = 10.0
    """Between two renewals of a node's Lease."""
    orphan: float = 40.0
    """From the deletion of a node until the pods that it leaves behind are removed."""


class Kubelets:
    """The simulated kubelets of all nodes: they run and end pods, and renew the nodes' Leases."""

    def __init__(self, registry: Registry, pace: KubeletPace, monotonic: Callable[[], float]) -> None:
        self._registry = registry
        self._store = registry.store
        self._pace = pace
        self._nodes: dict[str, str] = {}
        """Name and address of every simulated node."""
        self._leases: list[str] = []
        """Names of the nodes in the order of Lease renewal."""
        self._next_lease = 0
        self._pods: WorkQueue[Key] = WorkQueue("kubelet", self._sync_pod, monotonic)
        self._new_nodes: WorkQueue[str] = WorkQueue("kubelet registration", self._register_node, monotonic)
        self.queues: tuple[WorkQueue[Any], ...] = (self._new_nodes, self._pods)
        self._addresses = 0
        self._store.listen(NODES, self._on_node)
        self._store.listen(PODS, self._on_pod)

    async def run(self) -> None:
        """Simulate until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for queue in self.queues:
                tasks.create_task(queue.run())
            tasks.create_task(self._renew_leases())

    # Nodes

    def _on_node(self, event: Event) -> None:
        """Follow a node: register a new one; pods of a deleted one go after a while.

        A node whose annotation turns the kubelet off is left alone.
        """
        name = event.record.name
        if event.type == DELETED:
            if self._nodes.pop(name, None) is not None:
                self._leases = [one for one in self._leases if one != name]
            for record in self._store.scan(PODS):
                if record.object["spec"].get("nodeName") == name:
                    self._pods.add(record.key, self._pace.orphan)
            return
        annotations = event.record.object["metadata"].get("annotations") or {}
        enabled = annotations.get(KUBELET_ANNOTATION) != "none"
        if enabled and name not in self._nodes:
            self._new_nodes.add(name)
        elif not enabled and self._nodes.pop(name, None) is not None:
            self._leases = [one for one in self._leases if one != name]

    def _register_node(self, name: str) -> None:
        """Start to simulate a node: report it ready, create its Lease, and run its pods."""
        before = self._store.get(NODES, "", name)
        if before is None or name in self._nodes:
            return
        node = before.object
        status = dict(node.get("status") or {})
        addresses = {one["type"]: one["address"] for one in status.get("addresses") or ()}
        if "InternalIP" not in addresses:
            addresses = {"InternalIP": self._next_address("10.0"), "Hostname": name, **addresses}
            status["addresses"] = [{"type": kind, "address": value} for kind, value in addresses.items()]
        self._nodes[name] = addresses["InternalIP"]
        if all(one["type"] != "Ready" for one in status.get("conditions") or ()):
            now = self._registry.clock_and_ids.now()
            for condition in _healthy_node_conditions(now):
                status["conditions"] = with_condition(status.get("conditions"), condition, now)
        self._registry.update_fields(NODES, before, status=status)
        self._leases.append(name)
        self._renew_lease(name, node["metadata"]["uid"])
        for record in self._store.scan(PODS):
            if record.object["spec"].get("nodeName") == name:
                self._pods.add(record.key)

    def _next_address(self, prefix: str) -> str:
        """Return an IP address that is not in use yet."""
        self._addresses += 1
        return f"{prefix}.{self._addresses // 254 % 256}.{self._addresses % 254 + 1}"

    async def _renew_leases(self) -> None:
        """Renew a few Leases at a time, each once per renewal interval."""
        carried = 0.0
        while True:
            await asyncio.sleep(1 / _RENEWALS_PER_SECOND)
            carried += len(self._leases) / (self._pace.lease_renewal * _RENEWALS_PER_SECOND)
            while carried >= 1 and self._leases:
                carried -= 1
                self._next_lease = (self._next_lease + 1) % len(self._leases)
                name = self._leases[self._next_lease]
                node = self._store.get(NODES, "", name)
                if node is not None:
                    self._renew_lease(name, node.uid)

    def _renew_lease(self, name: str, uid: str) -> None:
        """Renew a node's Lease, or create it."""
        clock_and_ids = self._registry.clock_and_ids
        renewed = micro_timestamp(clock_and_ids.clock())
        lease = self._store.get(LEASES, LEASE_NAMESPACE, name)
        if lease is not None:
            spec = {**lease.object["spec"], "renewTime": renewed}
            self._store.put(LEASES, {**lease.object, "metadata": dict(lease.object["metadata"]), "spec": spec})
            return
        metadata: Object = {
            "name": name,
            "namespace": LEASE_NAMESPACE,
            "uid": clock_and_ids.uid(),
            "creationTimestamp": clock_and_ids.now(),
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}],
        }
        spec = {"holderIdentity": name, "leaseDurationSeconds": _LEASE_SECONDS, "renewTime": renewed}
        self._store.put(
            LEASES, {"kind": LEASES.kind, "apiVersion": LEASES.api_version, "metadata": metadata, "spec": spec}
        )

    # Pods

    def _on_pod(self, event: Event) -> None:
        """Queue a pod of a simulated node for when its next step is due."""
        pod = event.record.object
        if event.type == DELETED or pod["spec"].get("nodeName") not in self._nodes:
            return
        phase = (pod.get("status") or {}).get("phase")
        if "deletionTimestamp" in pod["metadata"]:
            self._pods.add(event.record.key, self._pace.stop)
        elif phase == "Pending":
            self._pods.add(event.record.key, self._pace.start)
        elif phase == "Running" and (seconds := self._run_seconds(pod)) is not None:
            self._pods.add(event.record.key, seconds)

    def _sync_pod(self, key: Key) -> None:
        """Take a pod's next step: run it, end it, or delete it if it is terminating or its node is gone."""
        record = self._store.get(PODS, *key)
        if record is None:
            return
        pod = record.object
        node = pod["spec"].get("nodeName", "")
        if node not in self._nodes:
            if node and self._store.get(NODES, "", node) is None:
                self._registry.delete(PODS, *key, {"gracePeriodSeconds": 0})
            return
        status = pod.get("status") or {}
        if "deletionTimestamp" in pod["metadata"]:
            self._registry.delete(PODS, *key, {"gracePeriodSeconds": 0, "preconditions": {"uid": record.uid}})
        elif status.get("phase") == "Pending":
            self._registry.update_fields(PODS, record, status=self._running_status(pod))
        elif status.get("phase") == "Running" and self._run_seconds(pod) is not None:
            self._registry.update_fields(PODS, record, status=self._ended_status(pod))

    def _run_seconds(self, pod: Object) -> float | None:
        """How long the pod runs; None: forever. An annotation says by which part of that each other pod prolongs it."""
        annotations = pod["metadata"].get("annotations") or {}
        seconds = self._pace.run if pod["spec"].get("restartPolicy", "Always") != "Always" else None
        if RUN_SECONDS_ANNOTATION in annotations:
            seconds = _number(annotations[RUN_SECONDS_ANNOTATION])
        slowdown = _number(annotations.get(SLOWDOWN_ANNOTATION, ""))
        if seconds is None or not slowdown:
            return seconds
        return seconds * (1 + slowdown * (self._running_pods(pod["spec"]["nodeName"]) - 1))

    def _running_pods(self, node: str) -> int:
        """How many pods run on the node."""
        pods = (record.object for record in self._store.scan(PODS))
        return sum(
            pod["spec"].get("nodeName") == node and (pod.get("status") or {}).get("phase") == "Running" for pod in pods
        )

    def _running_status(self, pod: Object) -> Object:
        """Make the status of a pod that starts: ready at once, with an address, its init containers done."""
        now = self._registry.clock_and_ids.now()
        spec, status = pod["spec"], dict(pod.get("status") or {})
        host = self._nodes[spec["nodeName"]]
        address = host if spec.get("hostNetwork") else self._next_address("10.244")
        conditions = status.get("conditions")
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"):
            conditions = with_condition(conditions, {"type": kind, "status": "True", "lastProbeTime": None}, now)
        status |= {
            "phase": "Running",
            "observedGeneration": pod["metadata"].get("generation", 1),
            "hostIP": host,
            "hostIPs": [{"ip": host}],
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": now,
            "conditions": conditions,
            "containerStatuses": [
                _container_status(one, {"running": {"startedAt": now}}) for one in spec["containers"]
            ],
        }
        if spec.get("initContainers"):
            done = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}}
            status["initContainerStatuses"] = [_container_status(one, done) for one in spec["initContainers"]]
        return status

    def _ended_status(self, pod: Object) -> Object:
        """Make the status of a pod that has ended; an annotation says with which exit code."""
        now = self._registry.clock_and_ids.now()
        status = dict(pod["status"])
        annotations = pod["metadata"].get("annotations") or {}
        failed = annotations.get(EXIT_CODE_ANNOTATION, "0") != "0"
        reason, code = ("Error", 1) if failed else ("Completed", 0)
        ended = {"exitCode": code, "reason": reason, "startedAt": status.get("startTime"), "finishedAt": now}
        conditions = status.get("conditions")
        for kind in ("Ready", "ContainersReady"):
            why = "PodFailed" if failed else "PodCompleted"
            condition = {"type": kind, "status": "False", "lastProbeTime": None, "reason": why}
            conditions = with_condition(conditions, condition, now)
        status["phase"] = "Failed" if failed else "Succeeded"
        status["conditions"] = conditions
        status["containerStatuses"] = [
            _container_status(one, {"terminated": ended}) for one in pod["spec"]["containers"]
        ]
        return status


def _number(text: str) -> float | None:
    """The number of an annotation; None: it is none."""
    try:
        return float(text)
    except ValueError:
        return None


def _container_status(container: Object, state: Object) -> Object:
    """Make the status of a container in this state, running or terminated."""
    running = "running" in state
    done = not running and state["terminated"]["exitCode"] == 0
    image = container.get("image", "")
    return {
        "name": container["name"],
        "image": image,
        "imageID": f"sim://{image}",
        "containerID": f"sim://{container['name']}",
        "ready": running or (done and container.get("restartPolicy") == "Always"),
        "started": running,
        "restartCount": 0,
        "state": state,
        "lastState": {},
    }


def _healthy_node_conditions(now: str) -> list[Object]:
    """What a healthy kubelet reports."""
    beat = {"lastHeartbeatTime": now}
    pressures = (
        ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    )
    conditions: list[Object] = [
        {"type": kind, "status": "False", **beat, "reason": reason, "message": message}
        for kind, reason, message in pressures
    ]
    ready = {"type": "Ready", "status": "True", **beat, "reason": "KubeletReady"}
    return [*conditions, {**ready, "message": "kubelet is posting ready status"}]
