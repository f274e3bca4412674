"""A story of random events, told to whichever scheduler runs.

Pods that are refused for reasons of every kind, and a cluster that changes around them, mostly in ways that do not
help.

Everything is drawn from the seed, and nothing depends on what the scheduler does; so two schedulers that are told the
same story can be compared by how often they tried in vain. After each event the story waits until the scheduler has
come to rest, because events that come together are looked at together. An event that helps gives room on one node, so
that it does not depend on chance where a pod goes.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from tests.e2e import installation

Json = dict[str, Any]
#: How often the scheduler has tried pods in vain so far, and how often at all.
Attempts = Callable[[], Awaitable[tuple[int, int]]]

NODES = 6
ZONES = 3
_MERGE = "application/merge-patch+json"
_PODS = "/api/v1/namespaces/default/pods"
_CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
_RESOURCES = "/apis/resource.k8s.io/v1"
_DEVICE_CLAIMS = f"{_RESOURCES}/namespaces/default/resourceclaims"
_STORAGE = "/apis/storage.k8s.io/v1"
_EXTENDED = "example.com/extended"
_ZONE = "topology.kubernetes.io/zone"
_LIMITED = "limited.example.com"
_TEAM = {"key": "team", "operator": "Exists"}
# Twice the same count, so far apart, is rest.
_LOOK_SECONDS = 0.04
_REST_SECONDS = 10.0


def _term(key: str, value: str, topology: str) -> Json:
    return {"labelSelector": {"matchLabels": {key: value}}, "topologyKey": topology}


def _required(term: Json) -> Json:
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _on(name: str) -> Json:
    """Node affinity to one node, by its name."""
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _volume(claim: str) -> Json:
    return {"name": "v", "persistentVolumeClaim": {"claimName": claim}}


def waiting() -> list[Json]:
    """The pods that are refused at first, two of each kind, named after what they wait for."""
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    devices = {"name": "d", "resourceClaimName": "devices"}
    port = {"name": "c", "image": "pause", "ports": [{"containerPort": 80, "hostPort": 8080}]}
    amounts = {"requests": {_EXTENDED: "1"}, "limits": {_EXTENDED: "1"}}
    extended = {"name": "c", "image": "pause", "resources": amounts}
    of_team = {"matchLabels": {"team": "a"}}
    kinds: dict[str, Json] = {
        "huge": {"cpu": "100"},
        "room": {"cpu": "3"},
        "label": {"nodeSelector": {"disk": "ssd"}},
        "name": {"affinity": _on("late")},
        "taint": {"tolerations": []},
        "port": {"containers": [port]},
        "apart": {"affinity": {"podAntiAffinity": _required(_term("app", "blocker", "kubernetes.io/hostname"))}},
        "near": {"affinity": {"podAffinity": _required(_term("app", "friend", "zone"))}},
        "spread": {"topologySpreadConstraints": [spread], "nodeSelector": {"zone": "z0"}, "labels": {"app": "spread"}},
        "claim": {"volumes": [_volume("wanted")]},
        "zone": {"volumes": [_volume("far")]},
        "once": {"volumes": [_volume("once")]},
        "device": {"resourceClaims": [devices]},
        "cordon": {"nodeSelector": {"cordoned": "yes"}},
        "later": {"volumes": [_volume("later")]},
        "limit": {"volumes": [_volume("one-more")], "affinity": _on("node-4")},
        "extended": {"containers": [extended]},
        "team": {
            "affinity": {"podAffinity": _required({**_term("app", "quiet", "zone"), "namespaceSelector": of_team})}
        },
        "gate": {"schedulingGates": [{"name": "example.com/wait"}], "nodeSelector": {"disk": "none"}},
    }
    pods = []
    for kind, more in kinds.items():
        for number in range(2):
            spec = {"tolerations": [_TEAM], "terminationGracePeriodSeconds": 0, **more}
            labels = spec.pop("labels", {"app": kind})
            cpu = spec.pop("cpu", "10m")
            pods.append(installation.pod(f"{kind}-{number}", cpu, labels, **spec))
    return pods


class Story:
    """The cluster, and what happens in it."""

    def __init__(self, here: installation.Installation, seed: int, attempts: Attempts) -> None:
        self._here = here
        self._draw = random.Random(seed)
        self._attempts = attempts
        self._nodes = [f"node-{number}" for number in range(NODES)]
        self._placed: list[str] = []
        self._gone: set[str] = set()
        self._claims: list[str] = []
        self._attached: list[str] = []
        self._number = 0
        self._events: list[Callable[[], Awaitable[None]]] = [
            self._label_node,
            self._label_node,
            self._annotate_node,
            self._taint_node,
            self._allocate_memory,
            self._cordon,
            self._condition,
            self._add_node,
            self._remove_node,
            self._place,
            self._place,
            self._remove_placed,
            self._label_placed,
            self._label_placed,
            self._label_waiting,
            self._tolerate,
            self._storage,
            self._storage,
            self._claim,
            self._relabel_volume,
            self._devices,
            self._device_claim,
            self._spare_volume,
            self._capacity,
            self._attach,
            self._provide,
            self._label_namespace,
        ]

    async def begin(self) -> None:
        """The cluster before the scheduler: nodes full of pods that have their nodes from the start."""
        for number, name in enumerate(self._nodes):
            await self._here.add_node(name, "4")
            cordoned = number == NODES - 1
            zone = f"z{number % ZONES}"
            labels = {"zone": zone, "topology.kubernetes.io/zone": zone, **({"cordoned": "yes"} if cordoned else {})}
            taints = [{"key": "team", "value": "a", "effect": "NoSchedule"}]
            await self._patch_node(name, {"metadata": {"labels": labels}})
            await self._patch_node(name, {"spec": {"taints": taints, "unschedulable": cordoned}})
            await self._put(f"blocker-{number}", name, {"app": "blocker"}, cpu="2", port=8080)
        for number in range(2):
            await self._put(f"spread-there-{number}", "node-0", {"app": "spread"})
        await self._bind("far", "ReadWriteOnce", {"topology.kubernetes.io/zone": "z9"})
        await self._bind("once", "ReadWriteOncePod", {})
        await self._put("holder", "node-4", {"app": "holder"}, volumes=[_volume("once")])
        request = {"name": "r", "exactly": {"deviceClassName": "missing"}}
        await self._claim_devices("devices", request)
        await self._make_storage()
        await self._here.request("POST", "/api/v1/namespaces", {"metadata": {"name": "elsewhere"}})

    async def _make_storage(self) -> None:
        """A claim whose volume could only be made where there is no node, and a node with all volumes that it takes."""
        allowed = [{"matchLabelExpressions": [{"key": _ZONE, "values": ["z9"]}]}]
        body = {"metadata": {"name": "later"}, "provisioner": "example.com/nobody", "allowedTopologies": allowed}
        await self._here.request(
            "POST", f"{_STORAGE}/storageclasses", {**body, "volumeBindingMode": "WaitForFirstConsumer"}
        )
        asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}
        await self._here.request(
            "POST", _CLAIMS, {"metadata": {"name": "later"}, "spec": {**asked, "storageClassName": "later"}}
        )
        driver = {"name": _LIMITED, "nodeID": "node-4", "topologyKeys": [], "allocatable": {"count": 1}}
        node = {"metadata": {"name": "node-4"}, "spec": {"drivers": [driver]}}
        await self._here.request("POST", f"{_STORAGE}/csinodes", node)
        for name in ("the-one", "one-more"):
            source = {"csi": {"driver": _LIMITED, "volumeHandle": name}}
            await self._bind(name, "ReadWriteMany", {}, source)
        await self._put("user", "node-4", {"app": "user"}, volumes=[_volume("the-one")])

    async def go_on(self, events: int) -> None:
        """Creates the pods that are refused; then so many events."""
        for pod in waiting():
            await self._here.request("POST", _PODS, pod)
        await self._rest(at_least=len(waiting()) - 2)
        for _ in range(events):
            await self._draw.choice(self._events)()
            await self._rest()

    async def _rest(self, at_least: int = 0) -> None:
        """Return once the scheduler has nothing to do any more."""
        last = (-1, -1)
        same = 0
        for _ in range(round(_REST_SECONDS / _LOOK_SECONDS)):
            await asyncio.sleep(_LOOK_SECONDS)
            now = await self._attempts()
            same = same + 1 if now == last and now[1] >= at_least else 0
            last = now
            if same == 2:
                return
        raise AssertionError(f"{last} attempts, and no rest")

    def _new(self, what: str) -> str:
        self._number += 1
        return f"{what}-{self._number}"

    # Nodes

    async def _patch_node(self, name: str, change: Json) -> None:
        await self._here.request("PATCH", f"/api/v1/nodes/{name}", change, _MERGE)

    async def _patch_node_status(self, name: str, change: Json) -> None:
        await self._here.request("PATCH", f"/api/v1/nodes/{name}/status", change, _MERGE)

    async def _label_node(self) -> None:
        key = self._draw.choice(["disk", "color", "rack"])
        value = self._draw.choice(["hdd", "ssd", "tape"]) if key == "disk" else str(self._draw.randrange(3))
        await self._patch_node(self._draw.choice(self._nodes), {"metadata": {"labels": {key: value}}})

    async def _annotate_node(self) -> None:
        note = str(self._draw.randrange(1000))
        await self._patch_node(self._draw.choice(self._nodes), {"metadata": {"annotations": {"note": note}}})

    async def _taint_node(self) -> None:
        taints = [{"key": "team", "value": self._draw.choice("abc"), "effect": "NoSchedule"}]
        if self._draw.random() < 0.2:
            taints[0]["effect"] = "NoExecute"
        await self._patch_node(self._draw.choice(self._nodes), {"spec": {"taints": taints}})

    async def _allocate_memory(self) -> None:
        memory = {"memory": f"{self._draw.randrange(16, 64)}Gi"}
        await self._patch_node_status(self._draw.choice(self._nodes), {"status": {"allocatable": memory}})

    async def _cordon(self) -> None:
        name, off = self._draw.choice(self._nodes[:-1]), self._draw.random() < 0.5
        await self._patch_node(name, {"spec": {"unschedulable": off}})

    async def _condition(self) -> None:
        pressed = self._draw.choice(["True", "False"])
        ready = [{"type": "Ready", "status": "True"}, {"type": "MemoryPressure", "status": pressed}]
        await self._patch_node_status(self._draw.choice(self._nodes), {"status": {"conditions": ready}})

    async def _add_node(self) -> None:
        """A node that takes none of them: it is tainted from its first moment."""
        name = self._new("extra")
        self._nodes.insert(0, name)
        amounts = {"cpu": "1", "memory": "1Gi", "pods": "10"}
        labels = {"kubernetes.io/hostname": name, "zone": self._draw.choice(["z1", "z2", "z3"])}
        taints = [{"key": "other", "value": "x", "effect": "NoSchedule"}]
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
        body = {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}, "status": status}
        await self._here.request("POST", "/api/v1/nodes", body)

    async def _remove_node(self) -> None:
        if self._nodes[0].startswith("extra"):
            await self._here.request("DELETE", f"/api/v1/nodes/{self._nodes.pop(0)}")

    # Pods

    async def _put(self, name: str, node: str, labels: Json, cpu: str = "10m", port: int = 0, **spec: Any) -> None:
        """A pod that is on its node from the start."""
        pod = installation.pod(name, cpu, labels, nodeName=node, terminationGracePeriodSeconds=0, **spec)
        if port:
            pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": port}]
        await self._here.request("POST", _PODS, pod)

    async def _place(self) -> None:
        """A pod that somebody else has put on a node; now and then one that a waiting pod looks for."""
        name = self._new("other")
        app = self._draw.choices(["quiet", "spread", "friend"], (6, 2, 1))[0]
        node = self._draw.choice(["node-1", "node-2", "node-4"])
        await self._put(name, node, {"app": app, "tier": self._draw.choice("xyz")})
        self._placed.append(name)

    async def _remove_placed(self) -> None:
        """Mostly a pod that nobody waits for; seldom one of those that fill the nodes."""
        fill = ["holder", *(f"blocker-{number}" for number in range(NODES))]
        blockers = [name for name in fill if name not in self._gone]
        if blockers and self._draw.random() < 0.3:
            name = self._draw.choice(blockers)
            self._gone.add(name)
        elif self._placed:
            name = self._placed.pop(self._draw.randrange(len(self._placed)))
        else:
            return
        await self._here.request("DELETE", f"{_PODS}/{name}?gracePeriodSeconds=0")

    async def _label_placed(self) -> None:
        if self._placed:
            name = self._draw.choice(self._placed)
            labels = {self._draw.choice(["tier", "owner"]): self._draw.choice("xyz")}
            await self._here.request("PATCH", f"{_PODS}/{name}", {"metadata": {"labels": labels}}, _MERGE)

    async def _label_waiting(self) -> None:
        name = self._draw.choice(waiting())["metadata"]["name"]
        labels = {self._draw.choice(["note", "owner"]): str(self._draw.randrange(100))}
        await self._here.request("PATCH", f"{_PODS}/{name}", {"metadata": {"labels": labels}}, _MERGE)

    async def _tolerate(self) -> None:
        name = f"{self._draw.choice(['huge', 'label', 'taint', 'cordon'])}-{self._draw.randrange(2)}"
        pod = await self._here.pod(name)
        added = {"key": self._new("unknown"), "operator": "Exists"}
        tolerations = [*(pod["spec"].get("tolerations") or []), added]
        await self._here.request("PATCH", f"{_PODS}/{name}", {"spec": {"tolerations": tolerations}}, _MERGE)

    # Storage

    async def _storage(self) -> None:
        name = self._new("storage")
        kind, path, body = self._draw.choice(
            [
                ("StorageClass", "storageclasses", {"provisioner": "example.com/nobody"}),
                ("CSIDriver", "csidrivers", {"spec": {"storageCapacity": False}}),
                ("CSINode", "csinodes", {"spec": {"drivers": []}}),
            ]
        )
        whole = {"apiVersion": "storage.k8s.io/v1", "kind": kind, "metadata": {"name": name}, **body}
        await self._here.request("POST", f"/apis/storage.k8s.io/v1/{path}", whole)

    async def _claim(self) -> None:
        """A claim that nobody uses."""
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": self._new("c")}, "spec": spec}
        await self._here.request("POST", _CLAIMS, body)

    async def _bind(self, name: str, mode: str, labels: Json, source: Json | None = None) -> None:
        """A claim and its volume, bound to each other."""
        size = {"storage": "1Gi"}
        bound = {"metadata": {"name": name, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}
        asked = {"accessModes": [mode], "resources": {"requests": size}, "storageClassName": "", "volumeName": name}
        claim = await self._here.request("POST", _CLAIMS, {**bound, "spec": asked})
        reference = {
            "namespace": "default",
            "name": name,
            "uid": claim["metadata"]["uid"],
            "kind": "PersistentVolumeClaim",
        }
        spec = {
            "capacity": size,
            "accessModes": [mode],
            "claimRef": reference,
            "persistentVolumeReclaimPolicy": "Retain",
            **(source or {"nfs": {"server": "nobody", "path": "/"}}),
        }
        volume = {"metadata": {"name": name, "labels": labels}, "spec": spec}
        await self._here.request("POST", "/api/v1/persistentvolumes", volume)

    async def _relabel_volume(self) -> None:
        """Seldom another zone of a volume, and none where there are nodes."""
        key = "topology.kubernetes.io/zone" if self._draw.random() < 0.3 else "color"
        change = {"metadata": {"labels": {key: self._draw.choice(["z7", "z8", "z9"])}}}
        await self._here.request("PATCH", "/api/v1/persistentvolumes/far", change, _MERGE)

    async def _spare_volume(self) -> None:
        """A volume of the class that a claim waits for: too small, or where there is no node."""
        small = self._draw.random() < 0.5
        expression = {"key": _ZONE, "operator": "In", "values": ["z0" if small else "z9"]}
        terms = [{"matchExpressions": [expression]}]
        spec = {
            "capacity": {"storage": "1Gi" if small else "9Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "later",
            "nfs": {"server": "nobody", "path": "/"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        }
        await self._here.request(
            "POST", "/api/v1/persistentvolumes", {"metadata": {"name": self._new("v")}, "spec": spec}
        )

    async def _capacity(self) -> None:
        """Somebody says how much room there is for volumes, of this class or another."""
        body = {"metadata": {"name": self._new("room")}, "storageClassName": self._draw.choice(["later", "other"])}
        body |= {"capacity": f"{self._draw.randrange(1, 20)}Gi", "nodeTopology": {"matchLabels": {_ZONE: "z0"}}}
        await self._here.request("POST", f"{_STORAGE}/namespaces/default/csistoragecapacities", body)

    async def _attach(self) -> None:
        """A volume that no pod uses is attached, or detached again, of the driver that a pod waits for or another."""
        if self._attached and self._draw.random() < 0.6:
            await self._here.request("DELETE", f"{_STORAGE}/volumeattachments/{self._attached.pop()}")
            return
        self._attached.append(self._new("attached"))
        source = {"persistentVolumeName": self._draw.choice(["far", "one-more", "none"])}
        spec = {"attacher": self._draw.choice([_LIMITED, "other"]), "nodeName": "node-1", "source": source}
        await self._here.request(
            "POST", f"{_STORAGE}/volumeattachments", {"metadata": {"name": self._attached[-1]}, "spec": spec}
        )

    # Devices

    async def _provide(self) -> None:
        """A class stands for an extended resource, seldom for the one that a pod waits for; it has no devices."""
        name = self._new("provider")
        resource = _EXTENDED if self._draw.random() < 0.2 else f"example.com/{name}"
        body = {"metadata": {"name": name}, "spec": {"extendedResourceName": resource}}
        await self._here.request("POST", f"{_RESOURCES}/deviceclasses", body)

    async def _label_namespace(self) -> None:
        """A namespace changes; seldom it is one of the team whose pods a pod looks for, and has none."""
        labels = {"team" if self._draw.random() < 0.3 else "note": self._draw.choice("abc")}
        change = {"metadata": {"labels": labels}}
        await self._here.request("PATCH", "/api/v1/namespaces/elsewhere", change, _MERGE)

    async def _claim_devices(self, name: str, request: Json) -> None:
        body = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
        await self._here.request("POST", _DEVICE_CLAIMS, body)

    async def _devices(self) -> None:
        """A class or a slice that nobody asks for."""
        name = self._new("devices")
        if self._draw.random() < 0.5:
            await self._here.request("POST", f"{_RESOURCES}/deviceclasses", {"metadata": {"name": name}, "spec": {}})
            return
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "example.com", "pool": pool, "nodeName": "node-0", "devices": [{"name": "d0"}]}
        await self._here.request("POST", f"{_RESOURCES}/resourceslices", {"metadata": {"name": name}, "spec": spec})

    async def _device_claim(self) -> None:
        """A claim that comes, is given a device by somebody, or gives it back."""
        step = self._draw.randrange(3)
        if step == 0 or not self._claims:
            self._claims.append(self._new("claim"))
            await self._claim_devices(self._claims[-1], {"name": "r", "exactly": {"deviceClassName": "missing"}})
            return
        results = [{"request": "r", "driver": "example.com", "pool": "p", "device": "d"}]
        allocation = {"devices": {"results": results}} if step == 1 else None
        path = f"{_DEVICE_CLAIMS}/{self._claims[-1]}/status"
        await self._here.request("PATCH", path, {"status": {"allocation": allocation}}, _MERGE)
