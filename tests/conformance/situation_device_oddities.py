"""Oddities for random devices: claims that are full or left over, requests and slices that nobody can serve.

Some of it an API server takes, some it let pass once. What it is put into is drawn by `situation_devices`.
"""

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

Json = dict[str, Any]

_GPU = "gpu.example.com"
#: How many pods may use a claim at a time.
_USERS = 256


def add(draw: random.Random, case: Json) -> None:
    """Put some oddities where they can be."""
    for change in draw.sample(_CHANGES, draw.choice((1, 1, 2, 3))):
        change(draw, case)


def _requests(case: Json) -> Iterator[Json]:
    for claim in case["resourceClaims"]:
        yield from claim["spec"]["devices"]["requests"]


def _exact(case: Json) -> Iterator[Json]:
    for request in _requests(case):
        if "exactly" in request:
            yield request["exactly"]
        yield from request.get("firstAvailable", ())


def _used(case: Json) -> list[Json]:
    """The pod's claims."""
    named = {entry.get("resourceClaimName") for entry in case["pod"]["spec"].get("resourceClaims", ())}
    return [claim for claim in case["resourceClaims"] if claim["metadata"]["name"] in named]


def _many_users(draw: random.Random, case: Json) -> None:
    users = [{"resource": "pods", "name": f"u{number}", "uid": f"u{number}"} for number in range(_USERS)]
    if draw.random() < 0.5:
        users[0] = {"resource": "pods", "name": "incoming", "uid": "incoming"}
    for claim in _used(case):
        if claim.get("status"):
            claim["status"]["reservedFor"] = users[: draw.choice((1, _USERS - 1, _USERS))]


def _request_of_a_kind(draw: random.Random, case: Json) -> None:
    changes: tuple[Json, ...] = (
        {"count": 0},
        {"count": 33},
        {"allocationMode": "Some"},
        {"deviceClassName": ""},
        {"selectors": [{}]},
        {"adminAccess": True},
        {"allocationMode": "", "count": 1},
        {"capacity": {"requests": {"memory": "1Ki", "lanes": "11"}}},
        {"tolerations": [{"key": "", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]},
        {"tolerations": [{"key": "example.com/broken", "operator": "", "value": "x"}]},
    )
    for exact in draw.sample(list(_exact(case)), min(1, len(list(_exact(case))))):
        exact |= copy.deepcopy(draw.choice(changes))


def _no_request(draw: random.Random, case: Json) -> None:
    for request in draw.sample(list(_requests(case)), min(1, len(list(_requests(case))))):
        request.pop("exactly", None)
        request.pop("firstAvailable", None)


def _constraints(draw: random.Random, case: Json) -> None:
    kinds: tuple[Json, ...] = (
        {"matchAttribute": "dra.example.com/numa"},
        {"matchAttribute": "resource.kubernetes.io/pcieRoot"},
        {"matchAttribute": f"{_GPU}/nosuch"},
        {"distinctAttribute": f"{_GPU}/index"},
        {"distinctAttribute": f"{_GPU}/model"},
        {"matchAttribute": f"{_GPU}/driverVersion"},
        {"matchAttribute": f"{_GPU}/healthy"},
        {},
    )
    for claim in case["resourceClaims"]:
        devices = claim["spec"]["devices"]
        names = [request["name"] for request in devices["requests"]]
        names += [
            f"{one['name']}/{each['name']}" for one in devices["requests"] for each in one.get("firstAvailable", ())
        ]
        made = [copy.deepcopy(draw.choice(kinds)) for _ in range(draw.choice((1, 2)))]
        for constraint in made:
            if draw.random() < 0.6:
                constraint["requests"] = draw.sample(names, draw.randint(1, len(names)))
        devices["constraints"] = made


def _configurations(draw: random.Random, case: Json) -> None:
    for claim in case["resourceClaims"]:
        devices = claim["spec"]["devices"]
        names = [request["name"] for request in devices["requests"]]
        names += [
            f"{one['name']}/{each['name']}" for one in devices["requests"] for each in one.get("firstAvailable", ())
        ]
        devices["config"] = [
            {
                "opaque": {
                    "driver": draw.choice((_GPU, "nic.example.com", "none.example.com")),
                    "parameters": {"n": number},
                },
                **({"requests": draw.sample(names, draw.randint(1, len(names)))} if draw.random() < 0.7 else {}),
            }
            for number in range(draw.choice((1, 2, 3)))
        ]
    for made in case["deviceClasses"]:
        opaque = {"driver": draw.choice((_GPU, "nic.example.com")), "parameters": {"of": "class"}}
        made["spec"]["config"] = [{"opaque": opaque}] * draw.choice((1, 2))


def _left_over(draw: random.Random, case: Json) -> None:
    """A claim for extended resources is there from an attempt before, whether or not the pod asks for any now."""
    spec = case["pod"]["spec"]
    if not spec.get("resourceClaims") and any("limits" in each.get("resources", {}) for each in spec["containers"]):
        # Trireme replaces such a claim when the pod is bound; kube-scheduler tries again when it is gone.
        return
    metadata: Json = {"name": "incoming-extended-resources-x", "namespace": "default", "uid": "left-over"}
    metadata["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "incoming", "controller": True}
    metadata["ownerReferences"] = [{**owner, "uid": draw.choice(("incoming", "incoming", "other"))}]
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    devices = {"requests": [{"name": "container-0-request-0", "exactly": exactly}]}
    result = {"request": "container-0-request-0", "driver": _GPU, "device": "dev-0"}
    result["pool"] = case["nodes"][0]["metadata"]["name"]
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata}
    claim |= {"spec": {"devices": devices}, "status": {"allocation": {"devices": {"results": [result]}}}}
    case["resourceClaims"].append(claim)


def _twice(draw: random.Random, case: Json) -> None:
    """The pod names a claim twice, or one that somebody else has."""
    entries = case["pod"]["spec"].get("resourceClaims")
    if entries and case["resourceClaims"]:
        name = draw.choice((*case["resourceClaims"], *_used(case)))["metadata"]["name"]
        entries.append({"name": "again", "resourceClaimName": name})


def _slices(draw: random.Random, case: Json) -> None:
    term = {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["za"]}]}
    bad = {"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["many"]}]}
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n00"]}]}
    for entry in draw.sample(case["resourceSlices"], min(2, len(case["resourceSlices"]))):
        spec = entry["spec"]
        devices = spec.get("devices") or [{}]
        chance = draw.random()
        if chance < 0.3 and "nodeSelector" in spec:
            terms = draw.choice(([term, term], [bad], [field], [{}], []))
            spec["nodeSelector"] = {"nodeSelectorTerms": terms}
        elif chance < 0.45 and "sharedCounters" in spec:
            spec["sharedCounters"] = draw.choice(([*spec["sharedCounters"], spec["sharedCounters"][0]], []))
        elif chance < 0.6 and "consumesCounters" in devices[0]:
            devices[0]["consumesCounters"][0]["counters"] = {"nosuch": {"value": "1"}}
        elif chance < 0.7 and "capacity" in devices[0]:
            devices[0]["capacity"]["memory"] = {"value": draw.choice(("0", "1", "12345678901234567890", "500m"))}
        elif chance < 0.8:
            spec["pool"]["generation"] += draw.choice((1, -1))
        elif chance < 0.9:
            spec["pool"]["resourceSliceCount"] = draw.choice((1, 2, 5))
        else:
            spec["devices"] = []


_CHANGES: tuple[Callable[[random.Random, Json], None], ...] = (
    _many_users,
    _request_of_a_kind,
    _request_of_a_kind,
    _no_request,
    _constraints,
    _configurations,
    _left_over,
    _twice,
    _slices,
)
