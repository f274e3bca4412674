"""Devices end to end: claims get them, pods that ask for them without a claim do, and who fails gives them back."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.e2e import clusters, installation
from tests.e2e.installation import pod

pytestmark = pytest.mark.timeout(180)

MERGE = "application/merge-patch+json"
GROUP = "/apis/resource.k8s.io/v1"
CLAIMS = f"{GROUP}/namespaces/default/resourceclaims"
FINALIZER = "resource.kubernetes.io/delete-protection"

Json = dict[str, Any]


async def _devices(here: installation.Installation, driver: str, node: str, *devices: Json) -> None:
    spec = {
        "driver": driver,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "nodeName": node,
        "devices": list(devices),
    }
    await here.request("POST", f"{GROUP}/resourceslices", {"metadata": {"name": f"{driver}-{node}"}, "spec": spec})


async def _class(here: installation.Installation, driver: str, **spec: Any) -> None:
    """A class of the driver's name for all of its devices."""
    selectors = [{"cel": {"expression": f'device.driver == "{driver}"'}}]
    body = {"metadata": {"name": driver}, "spec": {"selectors": selectors, **spec}}
    await here.request("POST", f"{GROUP}/deviceclasses", body)


async def _claim(here: installation.Installation, name: str, driver: str, *expressions: str) -> None:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    request = {"name": "one", "exactly": {"deviceClassName": driver, "selectors": selectors}}
    await here.request("POST", CLAIMS, {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}})


def _pod(name: str, claims: Sequence[str] = (), **resources: str) -> Json:
    out: Json = pod(name)
    if claims:
        out["spec"]["resourceClaims"] = [{"name": claim, "resourceClaimName": claim} for claim in claims]
    if resources:
        out["spec"]["containers"][0]["resources"] = {"requests": resources, "limits": resources}
    return out


async def test_each_claim_gets_a_device_of_its_own_where_its_pod_goes(cluster: clusters.OpenCluster) -> None:
    """Several pods and as many devices, two filters: allocation, user and finalizer as kube-scheduler has them."""
    driver = "own.example.com"
    async with cluster(nodes=2) as here:
        nodes = [node["metadata"]["name"] for node in await here.nodes()]
        big = {"attributes": {"model": {"string": "a100"}}, "capacity": {"memory": {"value": "80Gi"}}}
        for node in nodes:
            await _devices(here, driver, node, {"name": "dev-0", **big}, {"name": "dev-1", **big})
        await _class(here, driver)
        names = [f"own-{number}" for number in range(4)]
        enough = f'device.capacity["{driver}"].memory.compareTo(quantity("40Gi")) >= 0'
        for name in names:
            await _claim(here, name, driver, enough)
        await here.start(filters=2)
        await here.create_pods(_pod(name, [name]) for name in names)
        bound = {each["metadata"]["name"]: each for each in await here.bound(4)}
        given = set()
        for name in names:
            claim = await here.request("GET", f"{CLAIMS}/{name}")
            allocation = claim["status"]["allocation"]
            (result,) = allocation["devices"]["results"]
            node = bound[name]["spec"]["nodeName"]
            given.add((result["pool"], result["device"]))
            assert (result["request"], result["driver"], result["pool"]) == ("one", driver, node)
            (term,) = allocation["nodeSelector"]["nodeSelectorTerms"]
            assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
            assert allocation["allocationTimestamp"]
            uid = bound[name]["metadata"]["uid"]
            assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": name, "uid": uid}]
            assert FINALIZER in claim["metadata"]["finalizers"]
        assert len(given) == 4, "a device was given twice"
        await here.check_promises(names)


async def test_a_pod_waits_for_its_claim_and_for_a_device(cluster: clusters.OpenCluster) -> None:
    """A pod whose claim is missing is held back, one for which there is no device is told so, and each is woken."""
    driver = "late.example.com"
    async with cluster(nodes=1) as here:
        await _class(here, driver)
        await here.start()
        await here.create_pods([_pod("early", ["late-claim"])])
        await _claim(here, "late-claim", driver)
        condition = await here.condition("early", "cannot allocate all claims")
        assert condition["message"].startswith("0/1 nodes are available: 1 cannot allocate all claims.")
        (node,) = await here.nodes()
        await _devices(here, driver, node["metadata"]["name"], {"name": "dev-0"})
        await here.bound(1)
        await here.check_promises(["early"])


async def test_a_selector_error_on_one_node_makes_the_pod_unschedulable(cluster: clusters.OpenCluster) -> None:
    """A pod that a plugin cannot judge on some node is not placed on another, where nobody would notice."""
    driver = "half.example.com"
    async with cluster(nodes=2) as here:
        good, bad = (node["metadata"]["name"] for node in await here.nodes())
        sound = {"attributes": {"sound": {"bool": True}}}
        await _devices(here, driver, good, {"name": "dev-0", **sound})
        await _devices(here, driver, bad, {"name": "dev-0"})
        await _class(here, driver)
        await _claim(here, "half-claim", driver, f'device.attributes["{driver}"].sound')
        await here.start()
        await here.create_pods([_pod("half", ["half-claim"])])
        condition = await here.condition("half", "CEL runtime error")
        assert condition["reason"] == "SchedulerError"
        await here.request("DELETE", f"{GROUP}/resourceslices/{driver}-{bad}")
        (bound,) = await here.bound(1)
        assert bound["spec"]["nodeName"] == good


@pytest.mark.needs_gate("DRAExtendedResource")
async def test_extended_resources_are_given_by_devices(cluster: clusters.OpenCluster) -> None:
    """A pod that asks for an extended resource that no node has gets a claim, named in its status, for devices."""
    driver = "ext.example.com"
    async with cluster(nodes=1) as here:
        (node,) = await here.nodes()
        await _devices(here, driver, node["metadata"]["name"], {"name": "dev-0"}, {"name": "dev-1"}, {"name": "dev-2"})
        await _class(here, driver, extendedResourceName="ext.example.com/device")
        await here.start(filters=2)
        wanted = {"ext.example.com/device": "1"}
        await here.create_pods(_pod(f"ext-{number}", **wanted) for number in range(3))
        given = set()
        for bound in await here.bound(3):
            noted = bound["status"]["extendedResourceClaimStatus"]
            (mapping,) = noted["requestMappings"]
            assert mapping["requestName"] == "container-0-request-0"
            claim = await here.request("GET", f"{CLAIMS}/{noted['resourceClaimName']}")
            assert claim["metadata"]["name"].startswith(f"{bound['metadata']['name']}-extended-resources-")
            assert claim["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
            (owner,) = claim["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", bound["metadata"]["uid"], True)
            (result,) = claim["status"]["allocation"]["devices"]["results"]
            given.add(result["device"])
        assert len(given) == 3, "a device was given twice"


@pytest.mark.needs_gate("DRADeviceBindingConditions")
async def test_a_device_that_cannot_be_prepared_is_deallocated(cluster: clusters.OpenCluster) -> None:
    """A pod is bound once its device's conditions are true; where one says that it failed, another device is taken."""
    driver = "bind.example.com"
    async with cluster(nodes=1) as here:
        (node,) = await here.nodes()
        waits = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}
        devices = [{"name": f"dev-{number}", **waits} for number in range(2)]
        await _devices(here, driver, node["metadata"]["name"], *devices)
        await _class(here, driver)
        await _claim(here, "prepared", driver)
        await here.start()
        await here.create_pods([_pod("waits", ["prepared"])])
        first = await _say(here, "prepared", "", "broken")
        assert await _say(here, "prepared", first, "attached"), "no device was allocated anew"
        await here.bound(1)
        (told, *_) = await here.reported_events_of("waits", "BindingConditionsPending")
        assert told["note"] == f"waiting for binding conditions for device on node {node['metadata']['name']}"
        await here.check_promises(["waits"])


@pytest.mark.needs_gate("DRADeviceBindingConditions")
async def test_a_pod_whose_node_goes_while_its_device_is_prepared_is_bound_elsewhere(
    cluster: clusters.OpenCluster,
) -> None:
    """The device, which any node reaches, is prepared later: the pod is not bound to the node that is gone."""
    driver = "fabric.example.com"
    async with cluster(nodes=1) as here:
        (node,) = [entry["metadata"]["name"] for entry in await here.nodes()]
        device = {"name": "dev-0", "bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}
        pool = {"name": "all", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": driver, "pool": pool, "allNodes": True, "devices": [device]}
        await here.request("POST", f"{GROUP}/resourceslices", {"metadata": {"name": driver}, "spec": spec})
        await _class(here, driver)
        await _claim(here, "attached-later", driver)
        await here.start()
        await here.create_pods([_pod("waits", ["attached-later"])])
        await here.reported_events_of("waits", "BindingConditionsPending")
        await here.add_node("spare")
        await here.request("DELETE", f"/api/v1/nodes/{node}")
        await here.failure("waits", f'running PreBind plugin "DynamicResources": node "{node}" not found')
        await _say(here, "attached-later", "", "attached")
        (bound,) = await here.bound(1)
        assert bound["spec"]["nodeName"] == "spare"


async def _say(here: installation.Installation, name: str, before: str, condition: str) -> str:
    """A driver sets the condition of the claim's device; answers when it was allocated.

    It waits for an allocation that is another one than `before`.
    """
    found: list[Json] = []

    async def allocated() -> bool:
        claim = await here.request("GET", f"{CLAIMS}/{name}")
        allocation = (claim.get("status") or {}).get("allocation")
        devices = (claim.get("status") or {}).get("devices")
        found[:] = [claim] if allocation and (not before or not devices) else []
        return bool(found)

    await installation.until(allocated, 30, lambda: f"claim {name} is not allocated")
    (claim,) = found
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    since = claim["status"]["allocation"]["allocationTimestamp"]
    said = {"type": condition, "status": "True", "reason": "Said", "message": "so", "lastTransitionTime": since}
    device = {**{part: result[part] for part in ("driver", "pool", "device")}, "conditions": [said]}
    await here.request("PATCH", f"{CLAIMS}/{name}/status", {"status": {"devices": [device]}}, MERGE)
    return str(since)
