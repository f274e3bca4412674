"""Random groups of pods that share claims for devices, some of them the group's own.

What is drawn is small: few nodes and devices, so that some groups fit and some do not. Claims are made for the group,
for a pod or for somebody else, named by both or by the pods alone; some are allocated already, to a node and for
somebody.

A pod names what is its own before what it shares. kube-scheduler v1.37.0 mixes up the devices of a pod whose shared
claim comes before one that is still to be allocated, and nobody should want the same.
"""

import random
from typing import Any

from tests.conformance.golden_rows import Row

Json = dict[str, Any]

GATES = ("GenericWorkload", "DRAWorkloadResourceClaims")
GROUP = "g"

_DRIVER = "dev.example.com"
_RESOURCE = "resource.k8s.io/v1"
_API = "scheduling.k8s.io/v1beta1"


def situation(draw: random.Random, name: str) -> Row:
    """A group that is to be tried."""
    nodes = [f"n{number}" for number in range(draw.randint(1, 3))]
    case: Json = {
        "nodes": [_node(node) for node in nodes],
        "resourceSlices": [_slice(node, draw.choice((0, 0, 1, 1, 2)), nodeName=node) for node in nodes],
        "deviceClasses": [{"apiVersion": _RESOURCE, "kind": "DeviceClass", "metadata": {"name": "any"}, "spec": {}}],
        "resourceClaims": [],
    }
    if draw.random() < 0.3:
        case["resourceSlices"].append(_slice("everywhere", 1, allNodes=True))
    stated, made, own = [], [], []
    for number in range(draw.choice((0, 1, 1, 1, 2))):
        entry, status, of_group = _shared(draw, case, nodes, f"shared-{number}")
        stated.append(entry)
        made += status
        own += of_group
    statuses = [one for one in made if draw.random() < 0.9]
    case["podGroups"] = [
        {
            "apiVersion": _API,
            "kind": "PodGroup",
            "metadata": {"namespace": "default", "name": GROUP, "uid": "group"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "resourceClaims": own},
            "status": {"resourceClaimStatuses": statuses},
        }
    ]
    case["members"] = [_member(draw, case, f"p{number}", stated, made) for number in range(draw.randint(1, 3))]
    if draw.random() < 0.15:
        placed = _pod("placed", [], [])
        placed["spec"]["nodeName"] = nodes[0]
        case["pods"] = [placed]
    return {"name": name, "case": case}


def _shared(draw: random.Random, case: Json, nodes: list[str], name: str) -> tuple[Json, list[Json], list[Json]]:
    """A claim that the members share: how they state it, what was made for it, and how the group states it."""
    if draw.random() < 0.6:
        entry: Json = {"name": name, "resourceClaimTemplateName": "template"}
        status = [{"name": name, "resourceClaimName": f"made-{name}"}]
        claim = _claim(f"made-{name}")
        kind, api, owner, uid = draw.choice(
            [("PodGroup", _API, GROUP, "group")] * 5
            + [
                ("PodGroup", "scheduling.k8s.io/v2", GROUP, "group"),
                ("PodGroup", _API, GROUP, "former"),
                ("PodGroup", _API, "another", "another"),
                ("PodGroup", "example.com/v1", GROUP, "group"),
                ("Pod", "v1", "p0", "p0"),
            ]
        )
        reference = {"apiVersion": api, "kind": kind, "name": owner, "uid": uid, "controller": True}
        claim["metadata"]["ownerReferences"] = [reference]
    else:
        entry, status, claim = {"name": name, "resourceClaimName": f"named-{name}"}, [], _claim(f"named-{name}")
    if draw.random() < 0.4:
        claim["status"] = _allocated(draw, nodes)
    if draw.random() < 0.95:
        case["resourceClaims"].append(claim)
    of_group = draw.choice([[entry]] * 6 + [[], [{**entry, "name": "otherwise"}]])
    return entry, status, of_group


def _member(draw: random.Random, case: Json, name: str, stated: list[Json], made: list[Json]) -> Json:
    own: list[Json] = []
    if draw.random() < 0.5:
        own.append({"name": "own", "resourceClaimName": f"own-{name}"})
        case["resourceClaims"].append(_claim(f"own-{name}"))
    shared = stated if draw.random() < 0.9 else []
    return _pod(name, [*own, *shared], made)


def _allocated(draw: random.Random, nodes: list[str]) -> Json:
    """The status of a claim that has a device on a node, and is reserved for somebody."""
    where = draw.choice([*nodes, "elsewhere"])
    result = {"request": "r", "driver": _DRIVER, "pool": where, "device": "dev-0"}
    fields = [{"key": "metadata.name", "operator": "In", "values": [where]}]
    group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": GROUP, "uid": "group"}
    users = draw.choice(
        (
            [],
            [group],
            [group],
            [group],
            [{**group, "uid": "former"}],
            [{**group, "name": "another", "uid": "another"}],
            [{"resource": "pods", "name": "p0", "uid": "p0"}],
            [{"resource": "pods", "name": "stranger", "uid": "stranger"}],
            [group, {"resource": "pods", "name": "stranger", "uid": "stranger"}],
        )
    )
    selector = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {"allocation": {"devices": {"results": [result]}, "nodeSelector": selector}, "reservedFor": users}


def _pod(name: str, claims: list[Json], made: list[Json]) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, "uid": name},
        "spec": {
            "schedulerName": "default-scheduler",
            "schedulingGroup": {"podGroupName": GROUP},
            "containers": [{"name": "c"}],
            "resourceClaims": claims,
        },
        "status": {"resourceClaimStatuses": made},
    }


def _claim(name: str) -> Json:
    exactly = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}
    return {
        "apiVersion": _RESOURCE,
        "kind": "ResourceClaim",
        "metadata": {"namespace": "default", "name": name, "uid": f"uid-{name}", "resourceVersion": "1"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }


def _node(name: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "20"}},
    }


def _slice(name: str, devices: int, **where: Any) -> Json:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    named = [{"name": f"dev-{number}"} for number in range(devices)]
    spec = {"driver": _DRIVER, "pool": pool, "devices": named, **where}
    return {"apiVersion": _RESOURCE, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}
