"""What the scheduler has to do for each of its permissions: volumes, preemption, refusals that are reported again.

Played against a real API server, with nothing but the scheduler: what controllers, kubelets and provisioners would do
is done here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.e2e import clusters, group_sides, installation, witness
from tests.e2e.installation import pod
from tools.controlplane import launcher

MERGE = "application/merge-patch+json"
RESOURCES = "/apis/resource.k8s.io/v1"
RESOURCE_CLAIMS = f"{RESOURCES}/namespaces/default/resourceclaims"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"

Json = dict[str, Any]
Here = installation.Installation


@asynccontextmanager
async def opened(cluster: launcher.ControlPlane, folder: Path, nodes: int) -> AsyncIterator[Here]:
    """The cluster with so many nodes of two CPUs, and nothing of the scheduler started."""
    async with (
        clusters.real(cluster, folder, nodes, "2") as here,
        witness.watching(here.session, here.url, here.headers, here.tls) as here.witness,
    ):
        yield here
    await asyncio.sleep(clusters.CLOSING_SECONDS)


async def _gone(here: Here, name: str) -> None:
    async def there() -> bool:
        return name not in {entry["metadata"]["name"] for entry in await here.pods()}

    await installation.until(there, 30, lambda: f"{name} is there still")


async def on_a_node(here: Here, name: str) -> str:
    async def there() -> bool:
        return bool((await here.pod(name))["spec"].get("nodeName"))

    await installation.until(there, 40, lambda: f"{name} is bound\n{here.frontends[0].said[-2000:]}")
    return str((await here.pod(name))["spec"]["nodeName"])


async def delete(here: Here, name: str) -> None:
    await here.request("DELETE", f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0")
    await _gone(here, name)


async def volumes(here: Here) -> None:
    """A claim that takes a volume that is there, and one that is provisioned: what a controller does is done here."""
    for name, provisioner in (("static", "kubernetes.io/no-provisioner"), ("dynamic", "csi.example.com")):
        body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        await here.request("POST", "/apis/storage.k8s.io/v1/storageclasses", body)
        spec: Json = {"accessModes": ["ReadWriteOnce"], "storageClassName": name}
        spec["resources"] = {"requests": {"storage": "1Gi"}}
        await here.request("POST", CLAIMS, {"metadata": {"name": name}, "spec": spec})
    await _volume(here, "static", "node-0", {"local": {"path": "/mnt"}})
    for name in ("static", "dynamic"):
        wanted = pod(name)
        wanted["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        await here.create_pods([wanted])
    await _until_claim(here, "static", lambda claim, volume: bool(volume and volume["spec"].get("claimRef")))
    await _bind_claim(here, "static")

    def selected(claim: Json, _: Json | None) -> bool:
        return "volume.kubernetes.io/selected-node" in (claim["metadata"].get("annotations") or {})

    await _until_claim(here, "dynamic", selected)
    claim = await here.request("GET", f"{CLAIMS}/dynamic")
    node = claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"]
    # A kind that CSI drivers took over: the CSINode shows whether the node's driver did.
    await _volume(here, "dynamic", node, {"gcePersistentDisk": {"pdName": "disk"}})
    await _bind_claim(here, "dynamic")
    for name in ("static", "dynamic"):
        await on_a_node(here, name)


async def _volume(here: Here, name: str, node: str, source: Json) -> None:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": name,
        **source,
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    await here.request("POST", "/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec})
    available = {"status": {"phase": "Available"}}
    await here.request("PATCH", f"/api/v1/persistentvolumes/{name}/status", available, MERGE)


async def _bind_claim(here: Here, name: str) -> None:
    done = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": name}}
    await here.request("PATCH", f"{CLAIMS}/{name}", done, MERGE)


async def _until_claim(here: Here, name: str, true: Callable[[Json, Json | None], bool]) -> None:
    async def there() -> bool:
        claim = await here.request("GET", f"{CLAIMS}/{name}")
        volumes = (await here.request("GET", "/api/v1/persistentvolumes"))["items"]
        return true(claim, next((volume for volume in volumes if volume["metadata"]["name"] == name), None))

    await installation.until(there, 30, lambda: f"claim {name}\n{here.frontends[0].said[-2000:]}")


async def preemption(here: Here) -> None:
    """A pod that makes room for another; and one for which nobody can, tried again whenever one of the others goes."""
    await here.add_priority_class("high", 9)
    await here.create_pods(pod(f"small{n}", cpu="1500m", terminationGracePeriodSeconds=0) for n in range(2))
    for number in range(2):
        await on_a_node(here, f"small{number}")
    await here.create_pods([pod("vip", cpu="1500m", priorityClassName="high", terminationGracePeriodSeconds=0)])
    await on_a_node(here, "vip")
    await here.create_pods([pod("huge", cpu="64")])
    await here.condition("huge", "Insufficient cpu")
    await delete(here, "vip")

    async def repeated() -> bool:
        # Each pod that goes could have made room: the refusal is reported again, and then it is a series.
        await here.create_pods([pod("passing", cpu="100m", terminationGracePeriodSeconds=0)])
        await on_a_node(here, "passing")
        await delete(here, "passing")
        await asyncio.sleep(1)
        return any(event.get("series") for event in await here.events_of("huge", "FailedScheduling"))

    await installation.until(repeated, 60, lambda: "no event became a series")
    await delete(here, "huge")


async def devices(here: Here) -> None:
    """A claim for a device, and a pod that asks for one without a claim.

    Each time the device cannot be prepared at first, so that what was written is taken back and written anew.
    """
    for driver in ("claimed.example.com", "asked.example.com"):
        await _devices(here, driver)
    request = {"name": "one", "exactly": {"deviceClassName": "claimed.example.com"}}
    body = {"metadata": {"name": "claimed"}, "spec": {"devices": {"requests": [request]}}}
    await here.request("POST", RESOURCE_CLAIMS, body)
    await here.create_pods([pod("claimed", resourceClaims=[{"name": "one", "resourceClaimName": "claimed"}])])
    asking = pod("asking")
    wanted = {"asked.example.com/device": "1"}
    asking["spec"]["containers"][0]["resources"] = {"requests": wanted, "limits": wanted}
    await here.create_pods([asking])
    for owner in ("claimed", "asking"):
        await _say(here, owner, "broken")
        await _say(here, owner, "attached")
        await on_a_node(here, owner)


async def groups(here: Here) -> None:
    """A group whose pods go at once, in a group of groups."""
    of_tree = {"parentCompositePodGroupName": "tree", "workloadRef": group_sides.made_from("gang")}
    await here.request("POST", group_sides.COMPOSITES, group_sides.composite_group("tree", 1))
    await here.request("POST", group_sides.GROUPS, group_sides.gang("gang", 2, **of_tree))
    await here.create_pods(group_sides.members("gang", 2, cpu="100m"))
    for number in range(2):
        await on_a_node(here, f"gang-{number}")

    async def told() -> bool:
        paths = (f"{group_sides.GROUPS}/gang", f"{group_sides.COMPOSITES}/tree")
        return all([(await here.request("GET", path)).get("status", {}).get("conditions") for path in paths])

    await installation.until(told, 30, lambda: f"a group has no condition\n{here.frontends[0].said[-2000:]}")


async def _devices(here: Here, driver: str) -> None:
    """A class with two devices on the first node."""
    spec: Json = {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]}
    spec["extendedResourceName"] = f"{driver}/device"
    await here.request("POST", f"{RESOURCES}/deviceclasses", {"metadata": {"name": driver}, "spec": spec})
    waits = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}
    slices = {
        "driver": driver,
        "pool": {"name": "node-0", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "node-0",
        "devices": [{"name": f"dev-{number}", **waits} for number in range(2)],
    }
    await here.request("POST", f"{RESOURCES}/resourceslices", {"metadata": {"name": driver}, "spec": slices})


async def _say(here: Here, owner: str, condition: str) -> None:
    """A driver sets the condition of the device of the pod's claim.

    It waits for a device that nothing announces.
    """
    found: list[tuple[Json, Json]] = []

    async def allocated() -> bool:
        found.clear()
        for claim in (await here.request("GET", RESOURCE_CLAIMS))["items"]:
            mine = claim["metadata"]["name"] == owner or claim["metadata"].get("generateName", "").startswith(owner)
            status = claim.get("status") or {}
            if mine and status.get("allocation") and not status.get("devices"):
                (result,) = status["allocation"]["devices"]["results"]
                found.append((claim, result))
        return bool(found)

    await installation.until(allocated, 30, lambda: f"{owner} has no device\n{here.frontends[0].said[-2000:]}")
    claim, result = found[0]
    since = claim["status"]["allocation"]["allocationTimestamp"]
    said = {"type": condition, "status": "True", "reason": "Said", "message": "so", "lastTransitionTime": since}
    device = {**{part: result[part] for part in ("driver", "pool", "device")}, "conditions": [said]}
    path = f"{RESOURCE_CLAIMS}/{claim['metadata']['name']}/status"
    await here.request("PATCH", path, {"status": {"devices": [device]}}, MERGE)
