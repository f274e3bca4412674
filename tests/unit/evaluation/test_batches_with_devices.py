"""Batches of pods with devices end as one-by-one cycles.

Each pod with a claim of its own, made from a template, or with an extended resource that devices give.
"""

from typing import Any

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.helpers import domain_cluster

Json = dict[str, Any]

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
DRIVER = "dev.example.com"
RESOURCE = "example.com/dev"
FILTERS = (
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "DynamicResources",
    "PodTopologySpread",
    "InterPodAffinity",
)
APP = {"app": "red"}

_WISHES: tuple[Json, ...] = (
    {},
    {"topologySpreadConstraints": [domain_cluster.spread(ZONE, True, APP)]},
    {"topologySpreadConstraints": [domain_cluster.spread(HOST, False, APP, 2)]},
    {"affinity": domain_cluster.affinity([domain_cluster.term(ZONE, APP)])},
    {"affinity": domain_cluster.affinity((), [domain_cluster.term(HOST, APP)])},
)


def _exactly(device_class: str, count: int) -> Json:
    return {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}


# What the templates of claims ask for.
TEMPLATES: dict[str, list[Json]] = {
    "one": [{"name": "r", "exactly": _exactly("any", 1)}],
    "two": [{"name": "r", "exactly": _exactly("any", 2)}],
    "large": [{"name": "r", "exactly": _exactly("large", 1)}],
    "rather-large": [
        {
            "name": "r",
            "firstAvailable": [{"name": name, **_exactly(kind, 1)} for name, kind in (("l", "large"), ("a", "any"))],
        }
    ],
}


@st.composite
def situations(draw: st.DrawFn) -> Json:
    """Nodes with some devices each, maybe some for all of them, and pods in a row that ask for devices."""
    sizes = st.lists(st.sampled_from(("large", "small")), max_size=3)
    nodes = [
        {"zone": draw(st.sampled_from(("a", "b"))), "cpu": draw(st.sampled_from((1, 4))), "devices": draw(sizes)}
        for _ in range(draw(st.integers(2, 5)))
    ]
    kinds = st.tuples(st.sampled_from((*TEMPLATES, "resource")), st.integers(0, len(_WISHES) - 1), st.integers(1, 4))
    return {"nodes": nodes, "for_all": draw(sizes), "pods": draw(st.lists(kinds, min_size=1, max_size=4))}


def _slice(pool: str, devices: list[str], **where: Any) -> Json:
    spec = {"driver": DRIVER, "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1}, **where}
    spec["devices"] = [
        {"name": f"{pool}-{number}", "attributes": {"size": {"string": size}}} for number, size in enumerate(devices)
    ]
    return {"kind": "ResourceSlice", "metadata": {"name": pool}, "spec": spec}


def _cluster(situation: Json) -> domain_cluster.Cluster:
    cluster = domain_cluster.Cluster(filters=FILTERS)
    for number, node in enumerate(situation["nodes"]):
        name = f"n{number}"
        cluster.add_node(domain_cluster.node(name, {HOST: name, ZONE: node["zone"]}, cpu=node["cpu"], pods=20))
        cluster.add_object(_slice(name, node["devices"], nodeName=name))
    cluster.add_object(_slice("for-all", situation["for_all"], allNodes=True))
    for name, expression, more in (
        ("any", f'device.driver == "{DRIVER}"', {"extendedResourceName": RESOURCE}),
        ("large", f'device.attributes["{DRIVER}"].size == "large"', {}),
    ):
        spec = {"selectors": [{"cel": {"expression": expression}}], **more}
        cluster.add_object({"kind": "DeviceClass", "metadata": {"name": name}, "spec": spec})
    return cluster


def _pods(situation: Json, cluster: domain_cluster.Cluster) -> list[Json]:
    """The pods, whose claims the cluster has then, as the claims' controller makes them."""
    out: list[Json] = []
    for kind, wish, count in situation["pods"]:
        for _ in range(count):
            name = f"p{len(out)}"
            requests = {"cpu": "100m"} | ({RESOURCE: "1"} if kind == "resource" else {})
            pod = domain_cluster.pod(APP, requests=requests, **_WISHES[wish])
            pod["metadata"] |= {"name": name, "uid": name}
            if kind != "resource":
                pod["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimTemplateName": kind}]
                pod["status"] = {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": f"{name}-c"}]}
                owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True}
                metadata = {"namespace": "default", "name": f"{name}-c", "uid": f"{name}-c", "resourceVersion": "1"}
                claim = {"metadata": {**metadata, "ownerReferences": [owner]}, "kind": "ResourceClaim"}
                cluster.add_object({**claim, "spec": {"devices": {"requests": TEMPLATES[kind]}}})
            out.append(pod)
    return out


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(situations())
def test_batches_with_devices_land_as_one_by_one_cycles(situation: Json) -> None:
    """A batch that ends elsewhere, or with other devices, gives a device twice or leaves one that somebody needs."""
    alone = _cluster(situation)
    one_by_one = alone.schedule_with_devices(_pods(situation, alone), 1, ahead=False)
    alone.close()
    batched = _cluster(situation)
    together = batched.schedule_with_devices(_pods(situation, batched), 16, ahead=True)
    batched.close()
    note(f"one by one: {one_by_one}")
    assert together == one_by_one
    given_away = [device for _, devices in together for device in devices.split()]
    assert len({each.partition("=")[2] for each in given_away}) == len(given_away)


def test_pods_with_devices_are_placed_until_none_is_left() -> None:
    """Pods that never got a device would make the comparison above one of nothing with nothing."""
    nodes = [{"zone": "a", "cpu": 4, "devices": ["large", "small"]}, {"zone": "b", "cpu": 4, "devices": ["small"]}]
    situation = {"nodes": nodes, "for_all": [], "pods": [("rather-large", 0, 2), ("resource", 0, 2)]}
    cluster = _cluster(situation)
    placed = cluster.schedule_with_devices(_pods(situation, cluster), 16, ahead=True)
    cluster.close()
    assert [node != "" for node, _ in placed] == [True, True, True, False]
    assert sorted(devices.partition("=")[2] for _, devices in placed[:3]) == ["n0-0", "n0-1", "n1-0"]
    assert placed[0] == ("n0", "r/l=n0-0")
