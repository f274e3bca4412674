"""Kinds of scenario about claims: persistent volumes, and devices."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

from tests.simulation.scenarios.compared_cluster import (
    CLAIMS,
    DEVICE_CLASSES,
    NODES,
    PODS,
    SLICES,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    Kind,
)
from tests.simulation.scenarios.comparison import Comparison, compare_new_pods

Json = dict[str, Any]

_ZONE, _HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_DRIVER = "gpu.example.com"
# Of waiting for controllers. Units: seconds.
_POLL, _SECONDS = 0.05, 60.0


async def prepare(compared: Comparison) -> None:
    """The classes of volumes and devices."""
    for name, mode in (("later", "WaitForFirstConsumer"), ("at-once", "Immediate")):
        body = {"metadata": {"name": name}, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": mode}
        await compared.cluster.create(STORAGE_CLASSES, body)
    selectors = [{"cel": {"expression": f'device.driver == "{_DRIVER}"'}}]
    await compared.cluster.create(DEVICE_CLASSES, {"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}})


async def compare_volumes(compared: Comparison) -> None:
    """Pods with claims; some are bound, others wait for their pod; volumes are on nodes or in zones."""
    cluster, draw = compared.cluster, compared.draw
    compared.afterwards(functools.partial(remove_volumes, compared))
    nodes = await cluster.list(NODES)
    for _ in range(draw.choice((3, 6, 10))):
        await cluster.create(VOLUMES, volume(compared, draw.choice(nodes), "later"))
    bound = []
    for _ in range(draw.choice((0, 1, 2))):
        await cluster.create(VOLUMES, volume(compared, draw.choice(nodes), "at-once", "10Gi"))
        bound.append(volume_claim(compared, "at-once", "1Gi"))
        await cluster.create(VOLUME_CLAIMS, bound[-1])
    await until_bound(compared)
    claims, pods = [], []
    for _ in range(draw.choice((1, 2, 4))):
        own = [
            volume_claim(compared, "later", draw.choice(("1Gi", "4Gi", "8Gi"))) for _ in range(draw.choice((1, 1, 2)))
        ]
        claims += own
        used = [*own, *(draw.sample(bound, 1) if bound and draw.random() < 0.5 else ())]
        volumes = [
            {"name": f"v{number}", "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
            for number, claim in enumerate(used)
        ]
        app = f"app-{draw.randrange(4)}"
        spec = {**compared.drawn.pod_spec(app), "volumes": volumes}
        spec["containers"][0]["resources"]["requests"]["cpu"] = draw.choice(("100m", "1", "3"))
        pods += [compared.drawn.pod(app, spec) for _ in range(draw.choice((1, 1, 2)))]
    if draw.random() < 0.3:
        pods += compared.drawn.pods()
    await compare_new_pods(compared, pods, [{"apply": {"manifest": claim}} for claim in claims])


async def until_bound(compared: Comparison) -> None:
    """Wait until all claims for volumes are bound, and the schedulers have seen it."""
    await _until(compared, VOLUME_CLAIMS, lambda found: all(each["status"].get("phase") == "Bound" for each in found))
    await _catch_up(compared, VOLUME_CLAIMS, VOLUMES)


def volume(compared: Comparison, node: Json, storage_class: str, size: str = "") -> Json:
    """A volume that is reached from a node, or from its zone."""
    key = compared.draw.choice((_ZONE, _HOSTNAME))
    expression = {"key": key, "operator": "In", "values": [node["metadata"]["labels"][key]]}
    spec = {
        "capacity": {"storage": size or compared.draw.choice(("2Gi", "5Gi", "10Gi"))},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "persistentVolumeReclaimPolicy": "Retain",
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
    }
    name = f"volume-{next(compared.numbers)}"
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def volume_claim(compared: Comparison, storage_class: str, size: str) -> Json:
    """A claim for a volume."""
    metadata = {"name": f"claim-{next(compared.numbers)}", "namespace": "default"}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": size}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


async def remove_volumes(compared: Comparison) -> None:
    """Delete all volumes and claims, and the pods that use them."""
    for pod in await compared.cluster.list(PODS):
        if any("persistentVolumeClaim" in each for each in pod["spec"].get("volumes", ())):
            await compared.cluster.delete(PODS, pod["metadata"]["name"])
    for kind in (VOLUME_CLAIMS, VOLUMES):
        await _remove_all(compared, kind)


async def compare_devices(compared: Comparison) -> None:
    """Pods with claims for devices, of their own or shared; a few nodes have devices of two models."""
    cluster, draw = compared.cluster, compared.draw
    compared.afterwards(functools.partial(remove_devices, compared))
    for node in draw.sample(await compared.nodes(), draw.choice((2, 4, 8))):
        await cluster.create(SLICES, device_slice(compared, node))
    claims, pods = [], []
    # Pods that share a claim are tried again when it is written for the first of them: what others do meanwhile depends
    # on how long that takes.
    shared = draw.random() < 0.4
    for _ in range(1 if shared else draw.choice((1, 2, 4))):
        claim = device_claim(compared)
        claims.append(claim)
        named = [{"name": "gpu", "resourceClaimName": claim["metadata"]["name"]}]
        app = f"app-{draw.randrange(4)}"
        spec = {**compared.drawn.pod_spec(app), "resourceClaims": named}
        spec["containers"][0]["resources"]["requests"]["cpu"] = draw.choice(("100m", "1", "3"))
        pods += [compared.drawn.pod(app, spec) for _ in range(draw.choice((2, 3)) if shared else 1)]
    if not shared and draw.random() < 0.3:
        pods += compared.drawn.pods()
    await compare_new_pods(compared, pods, [{"apply": {"manifest": claim}} for claim in claims])


def device_slice(compared: Comparison, node: str) -> Json:
    """The devices of a node."""
    models = [compared.draw.choice(("small", "large")) for _ in range(compared.draw.choice((1, 2, 4)))]
    spec = {
        "driver": _DRIVER,
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {"name": f"gpu-{number}", "attributes": {"model": {"string": model}}} for number, model in enumerate(models)
        ],
    }
    metadata = {"name": f"slice-{next(compared.numbers)}"}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec}


def device_claim(compared: Comparison) -> Json:
    """A claim for one or two devices, of either model or of one."""
    exactly: Json = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": compared.draw.choice((1, 1, 2))}
    if compared.draw.random() < 0.5:
        model = compared.draw.choice(("small", "large"))
        exactly["selectors"] = [{"cel": {"expression": f'device.attributes["{_DRIVER}"].model == "{model}"'}}]
    metadata = {"name": f"devices-{next(compared.numbers)}", "namespace": "default"}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}


async def remove_devices(compared: Comparison) -> None:
    """Delete all claims, devices, and the pods that use them."""
    for pod in await compared.cluster.list(PODS):
        if pod["spec"].get("resourceClaims"):
            await compared.cluster.delete(PODS, pod["metadata"]["name"])
    for kind in (CLAIMS, SLICES):
        await _remove_all(compared, kind)


async def _remove_all(compared: Comparison, kind: Kind) -> None:
    """Delete all objects of a kind, and wait until controllers have let them go."""
    for each in await compared.cluster.list(kind):
        await compared.cluster.delete(kind, each["metadata"]["name"])
    await _until(compared, kind, lambda found: not found)
    await compared.cluster.until_none(kind)


async def _until(compared: Comparison, kind: Kind, done: Callable[[list[Json]], bool]) -> None:
    """Wait for controllers to do their part."""
    async with asyncio.timeout(_SECONDS):
        while not done(await compared.cluster.list(kind)):
            await asyncio.sleep(_POLL)


async def _catch_up(compared: Comparison, *kinds: Kind) -> None:
    """Wait until the schedulers have seen what controllers wrote."""
    for kind in kinds:
        for each in await compared.cluster.list(kind):
            compared.cluster.note(kind, each)
    await compared.cluster.until_seen()
