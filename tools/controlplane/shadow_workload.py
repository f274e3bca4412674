"""Pods of many kinds for runs of shadow beside kube-scheduler: created one by one or in a burst, and deleted again."""

import asyncio
import json
import random
import ssl
from collections.abc import Sequence
from typing import Any, Self

import aiohttp

from tools.controlplane import launcher

Json = dict[str, Any]

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
_VOLUMES = 8


def node(number: int) -> Json:
    """A node: of three sizes, in four zones, some with taints, labels and images."""
    cpu = ("8", "16", "32")[number % 3]
    name = f"node-{number}"
    resources = {"cpu": cpu, "memory": f"{int(cpu) * 4}Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    labels = {HOST: name, ZONE: f"zone-{number % 4}", "disk": ("ssd", "hdd")[number % 2]}
    taints = [{"key": "spot", "value": "true", "effect": "PreferNoSchedule"}] if number % 5 == 0 else []
    if number % 10 == 7:
        taints.append({"key": "gpu", "value": "true", "effect": "NoSchedule"})
        resources["example.com/gpu"] = "8"
    images = [{"names": ["example.com/large:1"], "sizeBytes": 900_000_000}] if number % 4 == 1 else []
    status = {
        "capacity": resources,
        "allocatable": resources,
        "images": images,
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": taints}, "status": status}


def volumes() -> list[Json]:
    """Volumes in one zone each, bound to claims as the controller would have bound them."""
    found: list[Json] = []
    for number in range(_VOLUMES):
        name, shared = f"data-{number}", {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": name}
        zone = {"key": ZONE, "operator": "In", "values": [f"zone-{number % 4}"]}
        volume = {
            **shared,
            "capacity": {"storage": "1Gi"},
            "claimRef": claim,
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}},
            "csi": {"driver": "csi.example.com", "volumeHandle": name},
        }
        found.append({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": volume})
        metadata = {"name": name, "namespace": "default", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
        spec = {**shared, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
        found.append({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})
    return found


def priority_classes() -> list[Json]:
    """A class of pods that preempt."""
    metadata = {"name": "high"}
    return [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": 1000},
    ]


def services() -> list[Json]:
    """Services whose selectors give pods the default constraints of spreading."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": f"web-{number}", "namespace": "default"},
            "spec": {"selector": {"app": f"web-{number}"}, "ports": [{"port": 80}]},
        }
        for number in range(3)
    ]


def _requesting(cpu: str, memory: str, image: str = "example.com/small:1", **more: str) -> Json:
    requests = {"cpu": cpu, "memory": memory, **more}
    return {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": image, "resources": {"requests": requests, "limits": more}}],
    }


def _spread(app: str, key: str, when: str) -> list[Json]:
    selector = {"matchLabels": {"app": app}}
    return [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector}]


def _pod_affinity(kind: str, app: str, key: str) -> Json:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50, "podAffinityTerm": term}]}}


def _demands(kind: int, draw: random.Random) -> Json:
    """The spec of a kind as far as it is about resources, priority and taints."""
    match kind:
        case 3:
            return _requesting("1", "2Gi")
        case 9:
            tolerations = [{"key": "gpu", "operator": "Exists"}]
            return {**_requesting("100m", "64Mi", **{"example.com/gpu": "1"}), "tolerations": tolerations}
        case 10:
            tolerations = [{"key": "spot", "operator": "Exists"}]
            return {**_requesting("100m", "64Mi", "example.com/large:1"), "tolerations": tolerations}
        case 13:
            return {**_requesting(draw.choice(["2", "4"]), "1Gi"), "priorityClassName": "high"}
    return _requesting(draw.choice(["50m", "100m", "250m", "500m"]), draw.choice(["64Mi", "128Mi", "512Mi"]))


def _rules(kind: int, app: str, draw: random.Random) -> Json:
    """The parts of a kind's spec about nodes and other pods."""
    match kind:
        case 4:
            term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
            preferred = [{"weight": 10, "preference": term}]
            return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}
        case 5:
            return {"topologySpreadConstraints": _spread(app, ZONE, "DoNotSchedule")}
        case 6:
            return {"topologySpreadConstraints": _spread(app, HOST, "ScheduleAnyway")}
        case 7:
            return {"affinity": _pod_affinity("podAffinity", "web-0", ZONE)}
        case 8:
            return {"affinity": _pod_affinity("podAntiAffinity", app, HOST)}
        case 11:
            return {"nodeSelector": {ZONE: f"zone-{draw.randrange(4)}"}}
        case 12:
            claim = {"claimName": f"data-{draw.randrange(_VOLUMES)}"}
            return {"volumes": [{"name": "data", "persistentVolumeClaim": claim}]}
    return {}


def pod(number: int, draw: random.Random) -> Json:
    """A pod of one of fourteen kinds."""
    kind = draw.randrange(14)
    app = f"web-{draw.randrange(3)}" if kind < 3 else f"kind-{kind}"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": f"uid-of-{app}", "controller": True}
    metadata = {"name": f"pod-{number}", "namespace": "default", "labels": {"app": app}, "ownerReferences": [owner]}
    spec = {**_demands(kind, draw), **_rules(kind, app, draw)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


class Cluster:
    """A client of the control plane that knows which pods are bound. An asynchronous context manager."""

    def __init__(self, plane: launcher.ControlPlane) -> None:
        self._plane = plane
        self._session: aiohttp.ClientSession
        self._watching: asyncio.Task[None]
        self.bound: dict[str, str] = {}
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        context = ssl.create_default_context(cafile=str(self._plane.authority))
        headers = {"Authorization": f"Bearer {self._plane.token()}"}
        connector = aiohttp.TCPConnector(ssl=context, limit=64)
        self._session = aiohttp.ClientSession(connector=connector, headers=headers)
        self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)
        await self._session.close()

    async def create(self, path: str, body: Json) -> None:
        """Create an object."""
        async with self._session.post(f"{self._plane.server}{path}", json=body) as reply:
            assert reply.status == 201, await reply.text()

    async def create_pod(self, body: Json) -> None:
        """Create a pod."""
        await self.create("/api/v1/namespaces/default/pods", body)

    async def delete_pod(self, name: str) -> None:
        """Delete a pod at once."""
        url = f"{self._plane.server}/api/v1/namespaces/default/pods/{name}"
        async with self._session.delete(url, params={"gracePeriodSeconds": "0"}) as reply:
            assert reply.status in (200, 404), await reply.text()
        self.bound.pop(name, None)

    async def bound_of(self, names: Sequence[str], seconds: float) -> list[str]:
        """Those of the pods that are bound within this time, all of them if it suffices."""
        try:
            async with asyncio.timeout(seconds):
                while not self.bound.keys() >= set(names):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass
        return [name for name in names if name in self.bound]

    async def _watch(self) -> None:
        url = f"{self._plane.server}/api/v1/pods"
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.get(url, params={"watch": "1"}, timeout=timeout) as reply:
            buffer = b""
            async for chunk in reply.content.iter_any():
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    name, node_name = event["object"]["metadata"]["name"], event["object"]["spec"].get("nodeName")
                    if event["type"] == "DELETED":
                        self.bound.pop(name, None)
                    elif node_name:
                        self.bound[name] = node_name
                self._changed.set()
