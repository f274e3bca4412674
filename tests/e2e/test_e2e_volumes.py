"""Volumes end to end: the scheduler chooses and reserves them, others bind and make them.

The embedded cluster has a volume controller and simulated provisioners. The real API server here has neither, so there
the test plays them, and can play ones that are slow or fail.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest

from tests.e2e import clusters, installation
from tests.e2e.installation import pod

pytestmark = pytest.mark.timeout(180)

MERGE = "application/merge-patch+json"
VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"

Json = dict[str, Any]

embedded_only = pytest.mark.parametrize("cluster", ["embedded"], indirect=True)
real_only = pytest.mark.parametrize("cluster", [pytest.param("real", marks=pytest.mark.controlplane)], indirect=True)


async def _storage_class(here: installation.Installation, name: str, provisioner: str) -> None:
    body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    await here.request("POST", "/apis/storage.k8s.io/v1/storageclasses", body)


async def _volume(here: installation.Installation, name: str, storage_class: str, node: str, size: str) -> None:
    """An available volume that can be reached from one node."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    spec = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "local": {"path": "/mnt"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    await here.request("POST", VOLUMES, {"metadata": {"name": name}, "spec": spec})
    await here.request("PATCH", f"{VOLUMES}/{name}/status", {"status": {"phase": "Available"}}, MERGE)


async def _claim(here: installation.Installation, name: str, storage_class: str) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    await here.request("POST", CLAIMS, {"metadata": {"name": name}, "spec": spec})


def _pod(name: str, claim: str) -> Json:
    out: Json = pod(name)
    out["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return out


async def _complete(here: installation.Installation, claim: str, volume: str) -> None:
    """What the volume controller does once volume and claim are each other's, unless there is one that did."""
    if (await here.request("GET", f"{CLAIMS}/{claim}"))["spec"].get("volumeName"):
        return
    patch = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": volume}}
    await here.request("PATCH", f"{CLAIMS}/{claim}", patch, MERGE)


async def _selected(here: installation.Installation, claim: str) -> str:
    """The node that a volume is wanted on, once it is."""
    found: list[str] = []

    async def there() -> bool:
        annotations = (await here.request("GET", f"{CLAIMS}/{claim}"))["metadata"].get("annotations") or {}
        found[:] = filter(None, [annotations.get("volume.kubernetes.io/selected-node")])
        return bool(found)

    await installation.until(there, 20, lambda: f"no node was selected for {claim}")
    return found[0]


async def _taken(here: installation.Installation, names: Mapping[str, str]) -> dict[str, Json]:
    """The volumes of these names by the claims that they were given, once every claim has one."""
    found: dict[str, Json] = {}

    async def there() -> bool:
        found.clear()
        for volume in (await here.request("GET", VOLUMES))["items"]:
            reference = volume["spec"].get("claimRef") or {}
            if volume["metadata"]["name"] in names and reference:
                assert reference["name"] not in found, "two volumes were given to one claim"
                found[reference["name"]] = volume
        return len(found) == len(names)

    await installation.until(there, 30, lambda: f"volumes were taken by {list(found)} only")
    return found


async def test_claims_that_wait_take_volumes_where_their_pods_go(cluster: clusters.OpenCluster) -> None:
    """Several pods and as many volumes, replicas of filter: each claim gets a volume of its own, on the pod's node."""
    async with cluster(nodes=3) as here:
        await _storage_class(here, "static", "kubernetes.io/no-provisioner")
        nodes = [node["metadata"]["name"] for node in await here.nodes()]
        names = {f"static-{number}": nodes[number] for number in range(3)}
        for name, node in names.items():
            await _volume(here, name, "static", node, "2Gi")
        for number in range(3):
            await _claim(here, f"static-claim-{number}", "static")
        await here.start(filters=2)
        await here.create_pods(_pod(f"p{number}", f"static-claim-{number}") for number in range(3))
        taken = await _taken(here, names)
        assert all(
            volume["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] for volume in taken.values()
        )
        for claim, volume in taken.items():
            await _complete(here, claim, volume["metadata"]["name"])
        bound = await here.bound(3)
        for one in bound:
            claim = one["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
            assert names[taken[claim]["metadata"]["name"]] == one["spec"]["nodeName"]


@embedded_only
async def test_a_volume_is_made_where_the_pod_goes(cluster: clusters.OpenCluster) -> None:
    """The provisioner learns the node from the claim, and the pod is bound once its volume is there."""
    async with cluster(nodes=2) as here:
        await _storage_class(here, "simulated", "csi.example.com")
        await _claim(here, "simulated-claim", "simulated")
        await here.start()
        await here.create_pods([_pod("p", "simulated-claim")])
        (bound,) = await here.bound(1)
        assert bound["spec"]["nodeName"] == await _selected(here, "simulated-claim")
        claim = await here.request("GET", f"{CLAIMS}/simulated-claim")
        assert claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"]


@real_only
async def test_a_pod_waits_for_its_volume_to_be_made(cluster: clusters.OpenCluster) -> None:
    """The claim names the node for the provisioner, the pod's status for others, and the pod is bound after."""
    async with cluster(nodes=2) as here:
        await _storage_class(here, "dynamic", "csi.example.com")
        await _claim(here, "dynamic-claim", "dynamic")
        await here.start()
        await here.create_pods([_pod("p", "dynamic-claim")])
        node = await _selected(here, "dynamic-claim")
        waiting = await here.pod("p")
        assert waiting["status"].get("nominatedNodeName") == node
        assert "nodeName" not in waiting["spec"]
        await _volume(here, "dynamic-made", "dynamic", node, "1Gi")
        await _complete(here, "dynamic-claim", "dynamic-made")
        (bound,) = await here.bound(1)
        assert bound["spec"]["nodeName"] == node


@real_only
async def test_a_provisioner_that_gives_up_sends_the_pod_back(cluster: clusters.OpenCluster) -> None:
    """It takes the node away from the claim; the pod fails with kube-scheduler's words and is tried again."""
    async with cluster(nodes=2) as here:
        await _storage_class(here, "failing", "csi.example.com")
        await _claim(here, "failing-claim", "failing")
        await here.request(
            "PATCH", f"{CLAIMS}/failing-claim", {"metadata": {"annotations": {"example.com/note": "kept"}}}, MERGE
        )
        await here.start()
        await here.create_pods([_pod("p", "failing-claim")])
        await _selected(here, "failing-claim")
        gone = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": None}}}
        await here.request("PATCH", f"{CLAIMS}/failing-claim", gone, MERGE)
        failed = 'running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC "failing-claim"'
        condition = await here.condition("p", failed)
        assert condition["reason"] == "SchedulerError"
        node = await _selected(here, "failing-claim")
        await _volume(here, "failing-made", "failing", node, "1Gi")
        await _complete(here, "failing-claim", "failing-made")
        await here.bound(1)


@real_only
async def test_a_pod_whose_time_is_over_goes_back(cluster: clusters.OpenCluster) -> None:
    """Nobody makes the volume: after bindTimeoutSeconds the pod says so, and is not held forever."""
    async with cluster(nodes=1) as here:
        await _storage_class(here, "slow", "csi.example.com")
        await _claim(here, "slow-claim", "slow")
        arguments = {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 1}}
        await here.start(configuration={"profiles": [{"pluginConfig": [arguments]}]})
        await here.create_pods([_pod("p", "slow-claim")])
        await here.condition("p", 'PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded')


@real_only
async def test_a_pod_whose_node_goes_while_its_volume_is_made_is_bound_elsewhere(cluster: clusters.OpenCluster) -> None:
    """It goes back in kube-scheduler's words; the volume, which any node reaches, does not bind it to the lost node."""
    async with cluster(nodes=1) as here:

        async def not_nominated() -> bool:
            return not (await here.pod("p"))["status"].get("nominatedNodeName")

        await _storage_class(here, "network", "nfs.example.com")
        await _claim(here, "network-claim", "network")
        await here.start()
        await here.create_pods([_pod("p", "network-claim")])
        node = await _selected(here, "network-claim")
        await here.add_node("spare")
        await here.request("DELETE", f"/api/v1/nodes/{node}")
        why = f'failed to get node "{node}": node "{node}" not found'
        await here.failure("p", f'running PreBind plugin "VolumeBinding": binding volumes: {why}')
        await installation.until(not_nominated, 10, lambda: "the pod is still nominated")  # written beside the event
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "network",
            "csi": {"driver": "nfs.example.com", "volumeHandle": "network-made"},
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "network-claim"},
        }
        spec["claimRef"]["uid"] = (await here.request("GET", f"{CLAIMS}/network-claim"))["metadata"]["uid"]
        await here.request("POST", VOLUMES, {"metadata": {"name": "network-made"}, "spec": spec})
        await _complete(here, "network-claim", "network-made")
        (bound,) = await here.bound(1)
        assert bound["spec"]["nodeName"] == "spare"


@real_only
async def test_a_node_that_loses_reach_of_the_volume_sends_the_pod_back_at_once(cluster: clusters.OpenCluster) -> None:
    """PreBind looks again when the node's labels change, not after its own time of ten seconds."""
    async with cluster(nodes=1) as here:
        await _storage_class(here, "zonal", "csi.example.com")
        await _claim(here, "zonal-claim", "zonal")
        await here.start()
        await here.create_pods([_pod("p", "zonal-claim")])
        node = await _selected(here, "zonal-claim")
        await _volume(here, "zonal-made", "zonal", node, "1Gi")
        await here.request("PATCH", f"{CLAIMS}/zonal-claim", {"spec": {"volumeName": "zonal-made"}}, MERGE)
        await asyncio.sleep(1)  # PreBind has looked at the volume, and waits
        changed = time.monotonic()
        labels = {"metadata": {"labels": {"kubernetes.io/hostname": "other"}}}
        await here.request("PATCH", f"/api/v1/nodes/{node}", labels, MERGE)
        why = f'pv "zonal-made" node affinity doesn\'t match node "{node}": no matching NodeSelectorTerms'
        await here.failure("p", f'running PreBind plugin "VolumeBinding": binding volumes: {why}')
        assert time.monotonic() - changed < 5


async def test_a_pod_without_its_claim_waits_for_it(cluster: clusters.OpenCluster) -> None:
    """The pod says which claim is missing; once it is there the pod is tried again."""
    async with cluster(nodes=1) as here:
        await _storage_class(here, "late", "kubernetes.io/no-provisioner")
        (node,) = [node["metadata"]["name"] for node in await here.nodes()]
        await _volume(here, "late-volume", "late", node, "1Gi")
        await here.start()
        await here.create_pods([_pod("p", "late-claim")])
        condition = await here.condition("p", 'persistentvolumeclaim "late-claim" not found')
        assert condition["reason"] == "Unschedulable"
        await _claim(here, "late-claim", "late")
        taken = await _taken(here, {"late-volume": node})
        await _complete(here, "late-claim", taken["late-claim"]["metadata"]["name"])
        await here.bound(1)
