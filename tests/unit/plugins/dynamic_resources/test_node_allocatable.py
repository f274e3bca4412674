"""Devices that stand for resources of a node: what they come to in a pod's status, and whether there is room."""

from typing import Any

import pytest

from tests.helpers.snapshot_views import Json, SnapshotBuilder, pod_of, requesting
from trireme.cache import class_registry, cluster_cache, pod_projection
from trireme.framework import amounts, status
from trireme.plugins.dynamic_resources import features, inventory, node_allocatable
from trireme.v1 import core_pb2, resource_pb2, snapshot_pb2
from trireme_kube.apimachinery import decode, encode

DRIVER = "d.example.com"
ON = features.Features(node_allocatable=True)
RULES = amounts.Rules(claims=True)

ID = (DRIVER, "pool", "a")
CLAIM = decode.decode({"metadata": {"namespace": "default", "name": "c", "uid": "u"}}, resource_pb2.ResourceClaim)


def _node_devices(*devices: Json, **placement: Any) -> tuple[SnapshotBuilder, node_allocatable.NodeDevices]:
    """One node, n0, that has these devices."""
    builder = SnapshotBuilder()
    slot = builder.set_node("n0", allocatable={"cpu": "4", "memory": "8Gi", "hugepages-2Mi": "8Mi", "pods": "9"})
    spec = {
        "driver": DRIVER,
        "pool": {"name": "pool", "generation": 1, "resourceSliceCount": 1},
        "devices": list(devices),
        **(placement or {"nodeName": "n0"}),
    }
    entry = decode.decode({"metadata": {"name": "s"}, "spec": spec}, resource_pb2.ResourceSlice)
    builder.apply(objects=[snapshot_pb2.ClusterObject(resource_slice=entry)])
    known = inventory.inventory_of(builder.snap, ON)
    return builder, node_allocatable.NodeDevices(known, builder.snap.nodes, slot)


def _device(**resources: Json) -> Json:
    return {"name": "a", "nodeAllocatableResources": resources}


def _using(*containers: str, **spec: Any) -> core_pb2.Pod:
    """A pod whose claim these containers use."""
    names = [{"name": name, "resources": {"claims": [{"name": "own"}]}} for name in containers]
    return pod_of({"containers": names or [{"name": "main"}], **spec})


def _stated(pod: core_pb2.Pod, device: Json, consumed: dict[str, str] | None = None, count: int = 1) -> list[Json]:
    """The statuses of a pod whose claim has the device so many times, and consumes that much of it each time."""
    _, there = _node_devices(device)
    claim = resource_pb2.ResourceClaim()
    claim.CopyFrom(CLAIM)
    for _ in range(count):
        result = claim.status.allocation.devices.results.add(driver=ID[0], pool=ID[1], device=ID[2])
        for name, text in (consumed or {}).items():
            result.consumed_capacity[name].string = text
    claims = [node_allocatable.devices_of_allocation(claim)]
    return [encode.encode(each) for each in node_allocatable.claim_statuses(pod, claims, {"own": "u"}, there) or ()]


@pytest.mark.parametrize(
    ("device", "consumed", "count", "expected"),
    [
        pytest.param(
            _device(cpu={"mapping": {"deviceMultiplier": "500m"}}),
            None,
            3,
            {"mapping": [{"name": "cpu", "quantity": "1500m"}]},
            id="per device",
        ),
        pytest.param(
            _device(memory={"mapping": {"capacityKey": "memory"}}),
            {"memory": "2Gi"},
            1,
            {"mapping": [{"name": "memory", "quantity": "2Gi"}]},
            id="per capacity",
        ),
        pytest.param(
            _device(cpu={"mapping": {"capacityKey": "cores", "capacityMultiplier": "1.5"}}),
            {"cores": "3"},
            1,
            {"mapping": [{"name": "cpu", "quantity": "4500m"}]},
            id="multiplied",
        ),
        pytest.param(
            _device(memory={"mapping": {"capacityKey": f"{DRIVER}/memory"}}),
            {"memory": "2Gi"},
            1,
            {"mapping": [{"name": "memory", "quantity": "2Gi"}]},
            id="the key alone has the domain",
        ),
        pytest.param(
            _device(memory={"mapping": {"capacityKey": "memory"}}),
            {"memory": "2Gi", f"{DRIVER}/memory": "1Gi"},
            1,
            {"mapping": [{"name": "memory", "quantity": "1Gi"}]},
            id="the capacity has the domain",
        ),
        pytest.param(
            _device(memory={"mapping": {"capacityKey": "other.example.com/memory"}}),
            {"memory": "2Gi"},
            1,
            None,
            id="a capacity of another domain",
        ),
        pytest.param(
            _device(memory={"overhead": {"perPod": "1Gi", "perContainer": "1Mi"}}),
            None,
            2,
            {"overhead": [{"name": "memory", "perPod": "2Gi", "perContainer": "2Mi"}]},
            id="overhead",
        ),
        pytest.param(
            _device(memory={"mapping": {"capacityKey": "other"}}), {"memory": "1"}, 1, None, id="not consumed"
        ),
        pytest.param({"name": "a"}, None, 1, None, id="an ordinary device"),
    ],
)
def test_resources_of_devices_in_the_pod_status(
    device: Json, consumed: dict[str, str] | None, count: int, expected: Json | None
) -> None:
    stated = _stated(_using("one", "two"), device, consumed, count)
    claim = {"resourceClaimName": "c", "containers": ["one", "two"]}
    assert stated == ([] if expected is None else [claim | expected])


@pytest.mark.parametrize(
    ("device", "consumed", "problem"),
    [
        pytest.param(
            _device(memory={"mapping": {"capacityKey": "memory"}}),
            {},
            "claim default/c, device a: ConsumedCapacity is nil, but Capacity key 'memory' is set in"
            " NodeAllocatableResources for resource memory",
            id="a device that is not shared",
        ),
        pytest.param(
            _device(memory={"mapping": {"capacityKey": "memory"}}),
            {"memory": "-1Gi"},
            "claim default/c, device a: ConsumedCapacity for capacity key 'memory' must not be negative, got -1Gi",
            id="less than nothing is consumed",
        ),
        pytest.param(
            _device(cpu={"mapping": {"capacityKey": "cores", "capacityMultiplier": "-2"}}),
            {"cores": "3"},
            "claim default/c, device a: computed node-allocatable footprint for resource cpu must not be negative, got"
            " -6",
            id="less than nothing is taken of the node",
        ),
    ],
)
def test_devices_that_cannot_be_counted_are_an_error(device: Json, consumed: dict[str, str], problem: str) -> None:
    with pytest.raises(node_allocatable.NodeAllocatableError) as caught:
        _stated(_using(), device, consumed)
    assert str(caught.value) == problem


def test_devices_of_other_nodes_are_not_found() -> None:
    """A slice that says for each device where it is may have none for this node."""
    devices = [{"name": "a", "nodeName": "n1"}, {"name": "b", "allNodes": True}]
    _, there = _node_devices(*devices, perDeviceNodeSelection=True)
    assert there.find((DRIVER, "pool", "b")).name == "b"
    for name, problem in (("a", "does not match node"), ("x", f"not found in pool pool for driver {DRIVER}")):
        with pytest.raises(node_allocatable.NodeAllocatableError, match=f"^device {name} {problem}$"):
            there.find((DRIVER, "pool", name))


CPU = [{"resourceClaimName": "c", "containers": ["main"], "mapping": [{"name": "cpu", "quantity": "3"}]}]
HUGE = [{"resourceClaimName": "c", "mapping": [{"name": "hugepages-2Mi", "quantity": "6Mi"}]}]


def _statuses(stated: list[Json]) -> tuple[core_pb2.NodeAllocatableResourceClaimStatus, ...]:
    return tuple(decode.decode(each, core_pb2.NodeAllocatableResourceClaimStatus) for each in stated)


@pytest.mark.parametrize(
    ("spec", "stated", "placed", "expected"),
    [
        pytest.param(requesting(cpu="1"), CPU, {}, None, id="fits"),
        pytest.param(requesting(cpu="1"), CPU, {"cpu": "1"}, (False, "Insufficient cpu"), id="beside others"),
        pytest.param(requesting(cpu="2"), CPU, {}, (True, "Insufficient cpu"), id="more than the node has"),
        pytest.param({}, HUGE, {"hugepages-2Mi": "4Mi"}, (False, "Insufficient hugepages-2Mi"), id="huge pages"),
        pytest.param({"overhead": {"cpu": "2"}}, CPU, {}, (True, "Insufficient cpu"), id="overhead"),
        pytest.param(
            {"resources": {"requests": {"cpu": "2"}}},
            CPU,
            {},
            (
                True,
                "pod level request for cpu is insufficient to cover the aggregated container and node-allocatable DRA"
                " requests",
            ),
            id="pod level",
        ),
        pytest.param({"resources": {"requests": {"cpu": "4"}}}, CPU, {}, None, id="pod level with room for them"),
        pytest.param(
            {
                "resources": {"limits": {"cpu": "3500m"}},
                "containers": [{"name": "main", "resources": {"limits": {"cpu": "1"}}}],
            },
            CPU,
            {},
            (True, "pod level limit for cpu is insufficient to cover the limit and DRA overhead for container main"),
            id="limits",
        ),
        pytest.param(
            {"resources": {"limits": {"hugepages-2Mi": "4Mi"}}},
            HUGE,
            {},
            (
                True,
                "pod level limit for hugepages-2Mi is insufficient to cover the aggregated container and"
                " node-allocatable DRA limits",
            ),
            id="limits of huge pages",
        ),
    ],
)
def test_resources_of_devices_must_be_free_on_the_node(
    spec: Json, stated: list[Json], placed: dict[str, str], expected: tuple[bool, str] | None
) -> None:
    builder, _ = _node_devices({"name": "a"})
    if placed:
        builder.add_class(1, pod_of(requesting(**placed)))
        builder.place(1, "n0")
    refusal = node_allocatable.resource_refusal(pod_of(spec), _statuses(stated), builder.snap, 0, RULES)
    if expected is None:
        assert refusal is None
        return
    unresolvable, message = expected
    code = status.Code.UNSCHEDULABLE_AND_UNRESOLVABLE if unresolvable else status.Code.UNSCHEDULABLE
    assert refusal == status.Status(code, "DynamicResources", (message,), refusal.reasons if refusal else ())


@pytest.mark.parametrize(
    ("pod_status", "cpu"),
    [
        pytest.param({}, 4000, id="requests"),
        pytest.param(
            {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "2"}}]}, 5000, id="allocated"
        ),
        pytest.param(
            {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "6"}}}]}, 6000, id="in force"
        ),
        pytest.param(
            {"allocatedResources": {"cpu": "5"}, "resources": {"requests": {"cpu": "5"}}}, 5000, id="of the whole pod"
        ),
    ],
)
def test_claims_count_on_a_node_once(pod_status: Json, cpu: int) -> None:
    """What the kubelet reports has claims in it already, but not what it allocated to containers."""
    pod = pod_of(requesting(cpu="1"), status={**pod_status, "nodeAllocatableResourceClaimStatuses": CPU})
    counted = amounts.pod_amounts(pod, RULES)
    assert counted.placed["cpu"] == cpu
    assert counted.filtering["cpu"] == 1000
    assert counted.scoring["cpu"] == counted.compared["cpu"] == amounts.pod_amounts(pod).placed["cpu"]


@pytest.mark.parametrize(("rules", "classes"), [(RULES, 2), (amounts.DEFAULT_RULES, 1)], ids=["on", "off"])
def test_an_assumed_pod_counts_with_its_claims(rules: amounts.Rules, classes: int) -> None:
    registry = class_registry.ClassRegistry(rules=rules)
    cache = cluster_cache.ClusterCache(registry)
    cache.set_node(decode.decode({"metadata": {"name": "n0"}}, core_pb2.Node))
    raw = {"metadata": {"namespace": "default", "name": "p", "uid": "p"}, "spec": requesting(cpu="1")}
    parsed = pod_projection.parse(raw)
    base = registry.intern_base(parsed.base)
    cache.assume(parsed.key, parsed.uid, "n0", base, parsed.labels, registry.intern(base, parsed.labels))
    cache.count_claim_resources("p", _statuses(CPU))
    assert len({base, _base_of(cache)}) == classes
    shown = pod_projection.parse(
        {**raw, "spec": {**raw["spec"], "nodeName": "n0"}, "status": {"nodeAllocatableResourceClaimStatuses": CPU}}
    )
    assert registry.intern_base(shown.base) == _base_of(cache)


def _base_of(cache: cluster_cache.ClusterCache) -> int:
    pod = cache.pod("p")
    assert pod is not None
    return pod.base
