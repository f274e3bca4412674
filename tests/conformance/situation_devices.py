"""Random situations about devices: slices, classes and claims in every shape that dynamic resource allocation has.

What is drawn is small (a few nodes, pools and devices) and mostly fits together, so that a search has something to find
and something to fail at: counters that run out, shares that are left, constraints that few devices meet, alternatives.
"""

import random
from typing import Any

from tests.conformance import situation_arguments, situation_device_oddities
from tests.conformance.golden_rows import Row

Json = dict[str, Any]

DRIVERS = ("gpu.example.com", "nic.example.com")
_MODELS = ("a100", "h100", "l4")
_VERSIONS = ("1.2.3", "1.6.0", "2.0.1", "2.0.1-rc.1")
_ROOTS = ("pci0000:00", "pci0000:01")
_SIZES = ("10Gi", "16Gi", "40Gi", "80Gi")
_SHARES = ("1", "2500m", "4Gi", "10Gi", "8", "0.5", "12345678", "9223372036854775807", "0")
_TAINTS = ("example.com/broken", "example.com/reserved")
_ZONES = ("za", "zb")

_SELECTORS = (
    'device.driver == "{d}"',
    'device.attributes["{d}"].model == "a100"',
    'device.attributes["{d}"].model in ["a100", "h100"]',
    'device.attributes["{d}"].model.startsWith("h")',
    'device.attributes["{d}"].healthy',
    '!device.attributes["{d}"].healthy || device.attributes["{d}"].index < 2',
    'device.attributes["{d}"].?index.orValue(9) < 2',
    'has(device.attributes["{d}"].index) && device.attributes["{d}"].index != 0',
    '"model" in device.attributes["{d}"] && device.attributes["{d}"].model.matches("^[ah]100$")',
    'device.attributes["{d}"].driverVersion.isGreaterThan(semver("1.5.0"))',
    'device.attributes["{d}"].driverVersion.major() >= 2',
    'device.attributes["{d}"].driverVersion.compareTo(semver("2.0.1")) < 0',
    'device.capacity["{d}"].memory.compareTo(quantity("40Gi")) >= 0',
    'device.capacity["{d}"].memory.isGreaterThan(quantity("10Gi"))',
    'device.capacity["{d}"].memory.sub(quantity("1Gi")).asInteger() > 20000000000',
    'cel.bind(own, device.attributes["{d}"], own.healthy && own.index < 3)',
    'device.attributes["dra.example.com"].numa == 0',
    'device.allowMultipleAllocations || device.driver != ""',
    'device.attributes["{d}"].exists(name, name == "model")',
    "[1, 2].all(n, n > 0)",
)
_FAULTY = (
    'device.attributes["{d}"].nosuch == "x"',
    'device.attributes["nosuch"].model == "x"',
    'device.capacity["{d}"].nosuch.compareTo(quantity("1")) >= 0',
    'device.attributes["{d}"].model < 3',
    'device.attributes["{d}"].model',
    'device.attributes["{d}"].index',
    "device.driver == 1",
    "device.driver",
    "nonsense == 1",
    "1 +",
    'device.attributes["{d}"].index / 0 == 1',
    'device.capacity["{d}"].memory.compareTo(quantity("40x")) >= 0',
    'device.attributes["{d}"].model.major() == 1',
    'semver("1.x") == semver("1.0.0")',
)


def situation(draw: random.Random, name: str) -> Row:
    """One situation."""
    names = [f"n{number:02}" for number in range(draw.choice((1, 2, 3, 5)))]
    metadata = {"name": "incoming", "namespace": "default", "uid": "incoming"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {}}
    pod["spec"] = {"schedulerName": "default-scheduler", "containers": [{"name": "c0", "image": "app:v1"}]}
    case: Json = {"name": f"dra-{name}", "nodes": [_node(draw, each) for each in names], "pods": [], "pod": pod}
    if draw.random() < 0.3:
        pod["spec"]["priority"] = draw.choice((0, 100))
        case["pods"] = [_placed(draw, f"p{number:02}", names) for number in range(draw.choice((1, 2, 5)))]
    add(draw, case)
    if draw.random() < 0.2:
        # Extended resources are scored, too.
        case["pluginConfig"] = draw.choice(situation_arguments.ARGUMENTS["resources"])
    return {"name": case["name"], "case": case}


def add(draw: random.Random, case: Json) -> None:
    """Add devices to a case, and claims to its pods."""
    _Devices(draw, case).add()
    if draw.random() < 0.35:
        situation_device_oddities.add(draw, case)


def _node(draw: random.Random, name: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": draw.choice(_ZONES)},
        },
        "spec": {},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": draw.choice(("110", "110", "1"))}},
    }


def _placed(draw: random.Random, name: str, nodes: list[str]) -> Json:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": draw.choice(("100m", "2", "4"))}}}
    spec = {"nodeName": draw.choice(nodes), "containers": [container], "priority": draw.choice((0, 10, 500))}
    metadata = {"name": name, "namespace": "default", "uid": name}
    status = {"phase": "Running", "startTime": f"2026-01-{draw.randint(1, 28):02}T00:00:00Z"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


class _Devices:
    def __init__(self, draw: random.Random, case: Json) -> None:
        self._draw = draw
        self._case = case
        self._nodes = [node["metadata"]["name"] for node in case["nodes"]]
        self._partitions = self._often(0.25)
        self._shares = self._often(0.3)
        self._tainted = self._often(0.3)
        self._binding = self._often(0.15)
        self._extended = self._often(0.2)
        self._faulty = self._often(0.12)
        self._devices: list[tuple[str, str, Json]] = []

    def add(self) -> None:
        """All of it."""
        case, draw = self._case, self._draw
        for node in case["nodes"]:
            if self._extended and self._often(0.4):
                node["status"]["allocatable"]["example.com/gpu"] = draw.choice(("0", "1", "4"))
        case["deviceClasses"] = [self._class(name) for name in ("gpu", "nic", "big") if self._often(0.97)]
        case["resourceSlices"] = [one for driver in DRIVERS for one in self._pools(driver)]
        case["deviceTaintRules"] = []
        if self._tainted and self._often(0.5):
            case["deviceTaintRules"] = [self._rule(number) for number in range(draw.choice((1, 2)))]
        case["resourceClaims"] = [one for number in range(draw.choice((0, 0, 1, 2, 4))) for one in self._used(number)]
        for claim in case["resourceClaims"]:
            if case["pods"] and self._often(0.7):
                self._hold(claim, draw.choice(case["pods"]))
        self._claim_for(case["pod"])

    def _often(self, chance: float) -> bool:
        return self._draw.random() < chance

    def _hold(self, claim: Json, pod: Json) -> None:
        """The claim is in use by a placed pod."""
        name = claim["metadata"]["name"]
        pod["spec"].setdefault("resourceClaims", []).append({"name": name, "resourceClaimName": name})
        user = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        claim["status"]["reservedFor"] = [user]
        # A claim of another namespace is nobody's.
        claim["metadata"]["namespace"] = pod["metadata"]["namespace"]

    def _class(self, name: str) -> Json:
        driver = DRIVERS[name == "nic"]
        expressions = [f'device.driver == "{driver}"']
        if name == "big":
            expressions.append(
                f'device.capacity["{driver}"].?memory.orValue(quantity("0")).isGreaterThan(quantity("20Gi"))'
            )
        elif self._often(0.1):
            expressions.append(self._expression(driver))
        spec: Json = {"selectors": [{"cel": {"expression": each}} for each in expressions]}
        if self._often(0.5):
            spec["config"] = [{"opaque": {"driver": driver, "parameters": {"from": name}}}]
        if self._extended and name != "nic":
            spec["extendedResourceName"] = "example.com/gpu"
        created = self._draw.choice(("2025-01-01T00:00:00Z", "2025-01-02T00:00:00Z"))
        return _object("DeviceClass", {"name": name, "creationTimestamp": created}, spec=spec)

    # Pools

    def _pools(self, driver: str) -> list[Json]:
        out = []
        for node in self._nodes:
            if self._often(0.8):
                out += self._pool(driver, node, {"nodeName": node})
        if self._often(0.3):
            where: Json = self._draw.choice(
                (
                    {"allNodes": True},
                    {"nodeSelector": self._selector()},
                    {"perDeviceNodeSelection": True},
                )
            )
            out += self._pool(driver, "shared", where)
        return out

    def _selector(self) -> Json:
        expression = {
            "key": "topology.kubernetes.io/zone",
            "operator": self._draw.choice(("In", "NotIn")),
            "values": [self._draw.choice(_ZONES)],
        }
        return {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}

    def _pool(self, driver: str, name: str, where: Json) -> list[Json]:
        draw = self._draw
        partitioned = self._partitions and driver == DRIVERS[0]
        count = draw.choice((1, 1, 2)) + partitioned
        stated = count + (draw.choice((-1, 1)) if self._often(0.07) else 0)
        generation = draw.choice((1, 2))
        sets = [f"set-{number}" for number in range(2)]
        out = []
        number = 0
        for part in range(count):
            pool = {"name": name, "generation": generation, "resourceSliceCount": max(stated, 1)}
            if self._often(0.04):
                pool["generation"] = 3 - generation
            spec: Json = {"driver": driver, "pool": pool, **where}
            if partitioned and part == 0:
                spec.pop("perDeviceNodeSelection", None)
                if not {"nodeName", "allNodes", "nodeSelector"} & set(spec):
                    spec["allNodes"] = True
                spec["sharedCounters"] = [
                    {
                        "name": each,
                        "counters": {"slots": {"value": draw.choice(("2", "4", "7"))}, "memory": {"value": "40Gi"}},
                    }
                    for each in sets
                ]
            else:
                spec["devices"] = []
                for _ in range(draw.choice((1, 2, 3))):
                    device = self._device(driver, f"dev-{number}")
                    number += 0 if self._often(0.02) else 1
                    if "perDeviceNodeSelection" in where:
                        device.update(
                            draw.choice(
                                (
                                    {"nodeName": draw.choice(self._nodes)},
                                    {"allNodes": True},
                                    {"nodeSelector": self._selector()},
                                )
                            )
                        )
                    if partitioned:
                        device["consumesCounters"] = [self._consumption(draw.choice(sets))]
                    spec["devices"].append(device)
                    self._devices.append((driver, name, device))
            out.append(_object("ResourceSlice", {"name": f"{name}-{driver[:3]}-{part}"}, spec=spec))
        return out

    def _consumption(self, name: str) -> Json:
        counters = {"slots": {"value": self._draw.choice(("1", "2", "3"))}}
        if self._often(0.5):
            counters["memory"] = {"value": self._draw.choice(("10Gi", "20Gi"))}
        return {"counterSet": name if not self._often(0.02) else "nosuch", "counters": counters}

    def _device(self, driver: str, name: str) -> Json:
        draw = self._draw
        attributes: Json = {
            "model": {"string": draw.choice(_MODELS)},
            "healthy": {"bool": self._often(0.6)},
            "driverVersion": {"version": draw.choice(_VERSIONS)},
            "resource.kubernetes.io/pcieRoot": {"string": draw.choice(_ROOTS)},
            "dra.example.com/numa": {"int": draw.choice((0, 1))},
        }
        if self._often(0.8):
            attributes["index"] = {"int": draw.choice((0, 1, 2, 3))}
        if self._often(0.15):
            del attributes[draw.choice(sorted(attributes))]
        if self._often(0.01):
            attributes["driverVersion"] = {"version": "1.x"}
        device: Json = {"name": name, "attributes": attributes}
        if driver == DRIVERS[0]:
            device["capacity"] = {"memory": {"value": draw.choice(_SIZES)}}
        if self._shares and self._often(0.6):
            device["allowMultipleAllocations"] = True
            device["capacity"] = {"memory": {"value": draw.choice(_SIZES), **self._policy()}, "lanes": {"value": "10"}}
        if self._tainted and self._often(0.4):
            device["taints"] = [self._taint() for _ in range(draw.choice((1, 1, 2)))]
        if self._binding and self._often(0.5):
            device["bindingConditions"] = ["example.com/attached"]
            device["bindingFailureConditions"] = ["example.com/failed"]
            if self._often(0.3):
                device["bindsToNode"] = True
        return device

    def _policy(self) -> Json:
        draw = self._draw
        kind = draw.choice(("none", "default", "range", "step", "fraction", "values"))
        policy: Json = {
            "none": {},
            "default": {"default": "2Gi"},
            "range": {"default": "1Gi", "validRange": {"min": "1Gi", "max": "20Gi"}},
            "step": {"default": "2Gi", "validRange": {"min": "2Gi", "max": "40Gi", "step": "3Gi"}},
            "fraction": {"default": "500m", "validRange": {"min": "500m", "max": "9", "step": "250m"}},
            "values": {"default": "4Gi", "validValues": ["2Gi", "4Gi", "16Gi"]},
        }[kind]
        return {"requestPolicy": policy} if policy else {}

    def _taint(self) -> Json:
        effect = self._draw.choice(("NoSchedule", "NoExecute", "None"))
        return {"key": self._draw.choice(_TAINTS), "value": self._draw.choice(("", "x")), "effect": effect}

    def _rule(self, number: int) -> Json:
        selector: Json = {}
        if self._devices:
            driver, pool, device = self._draw.choice(self._devices)
            stated = {"driver": driver, "pool": pool, "device": device["name"]}
            selector = {key: value for key, value in stated.items() if self._often(0.6)}
        spec: Json = {"taint": {**self._taint(), "timeAdded": "2025-01-01T00:00:00Z"}}
        if self._often(0.9):
            spec["deviceSelector"] = selector
        return _object("DeviceTaintRule", {"name": f"rule-{number}"}, spec=spec)

    # Claims

    def _used(self, number: int) -> list[Json]:
        """A claim that a placed pod has."""
        if not self._devices:
            return []
        name = f"used{number}"
        driver, pool, device = self._draw.choice(self._devices)
        result: Json = {"request": "r0", "driver": driver, "pool": pool, "device": device["name"]}
        if device.get("allowMultipleAllocations"):
            result["shareID"] = f"0000000{number}-0000-0000-0000-000000000000"
            if self._often(0.8):
                result["consumedCapacity"] = {"memory": self._draw.choice(("1Gi", "8Gi", "2500m")), "lanes": "3"}
        if self._often(0.1):
            result["adminAccess"] = True
        claim = self._claim(name)
        claim["status"] = {"allocation": {"devices": {"results": [result]}}}
        if pool in self._nodes:
            field = {"key": "metadata.name", "operator": "In", "values": [pool]}
            claim["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        if "bindingConditions" in device:
            self._bind(claim, result, device)
        return [claim]

    def _bind(self, claim: Json, result: Json, device: Json) -> None:
        """What the claim waits for, or waited for."""
        result |= {key: device[key] for key in ("bindingConditions", "bindingFailureConditions")}
        claim["status"]["allocation"]["allocationTimestamp"] = "2025-01-01T00:00:00Z"
        for kind in ("example.com/attached", "example.com/failed"):
            if self._often(0.5):
                condition = {"type": kind, "status": self._draw.choice(("True", "True", "False")), "reason": "x"}
                condition |= {"message": "", "lastTransitionTime": "2025-01-01T00:00:00Z"}
                where = {key: result[key] for key in ("driver", "pool", "device")}
                devices = claim["status"].setdefault("devices", [{**where, "conditions": []}])
                devices[0]["conditions"].append(condition)

    def _claim(self, name: str) -> Json:
        draw = self._draw
        requests = [self._request(f"r{number}") for number in range(draw.choice((1, 1, 1, 2, 3)))]
        devices: Json = {"requests": requests}
        names = [request["name"] for request in requests]
        if self._often(0.3):
            kind = draw.choice(("matchAttribute", "distinctAttribute"))
            attribute = draw.choice(
                (
                    "resource.kubernetes.io/pcieRoot",
                    "gpu.example.com/model",
                    "dra.example.com/numa",
                    "gpu.example.com/index",
                )
            )
            constraint: Json = {kind: attribute}
            if self._often(0.4):
                constraint["requests"] = draw.sample(names, draw.randint(1, len(names)))
            devices["constraints"] = [constraint]
        if self._often(0.3):
            config: Json = {"opaque": {"driver": DRIVERS[0], "parameters": {"from": name}}}
            if self._often(0.6):
                config["requests"] = draw.sample(names, draw.randint(1, len(names)))
            devices["config"] = [config]
        return _object(
            "ResourceClaim",
            {"name": name, "namespace": "default", "uid": f"claim-{name}"},
            spec={"devices": devices},
        )

    def _request(self, name: str) -> Json:
        if self._often(0.25):
            alternatives = [{"name": f"s{number}", **self._exact()} for number in range(self._draw.choice((1, 2, 3)))]
            for each in alternatives:
                each.pop("adminAccess", None)
            return {"name": name, "firstAvailable": alternatives}
        return {"name": name, "exactly": self._exact()}

    def _exact(self) -> Json:
        draw = self._draw
        name = draw.choice(("gpu", "gpu", "nic", "big", "nosuch")) if self._often(0.3) else draw.choice(("gpu", "nic"))
        driver = DRIVERS[name == "nic"]
        exact: Json = {"deviceClassName": name}
        if self._often(0.15):
            exact["allocationMode"] = "All"
        else:
            exact |= {"allocationMode": "ExactCount", "count": draw.choice((1, 1, 1, 2, 3, 20))}
        if self._often(0.4):
            expressions = [self._expression(driver) for _ in range(draw.choice((1, 1, 2)))]
            exact["selectors"] = [{"cel": {"expression": each}} for each in expressions]
        if self._often(0.08):
            exact["adminAccess"] = True
        if self._tainted and self._often(0.4):
            toleration = {"key": draw.choice(_TAINTS), "operator": draw.choice(("Exists", "Equal")), "value": ""}
            if self._often(0.3):
                toleration["effect"] = "NoSchedule"
            exact["tolerations"] = [toleration if self._often(0.8) else {"operator": "Exists"}]
        if self._shares and self._often(0.5):
            asked = {
                draw.choice(("memory", "memory", "lanes", "nosuch") if self._often(0.1) else ("memory", "lanes")): ""
            }
            exact["capacity"] = {"requests": {key: draw.choice(_SHARES) for key in asked}}
        return exact

    def _expression(self, driver: str) -> str:
        known = _FAULTY if self._faulty and self._often(0.4) else _SELECTORS
        return self._draw.choice(known).replace("{d}", driver)

    # The pod

    def _claim_for(self, pod: Json) -> None:
        draw = self._draw
        spec: Json = pod["spec"]
        stated = []
        if not self._extended or self._often(0.3):
            numbers = range(draw.choice((1, 1, 2, 3)))
            stated = [self._own(f"mine{number}", pod["status"]) for number in numbers]
        if self._extended:
            spec["containers"][0] |= {"resources": self._resources()}
            if self._often(0.4):
                spec["containers"].append(self._container("d1"))
            if self._often(0.4):
                made = [self._container(f"j{number}") for number in range(draw.choice((1, 2)))]
                if self._often(0.3):
                    made[-1]["restartPolicy"] = "Always"
                spec["initContainers"] = [*spec.get("initContainers", ()), *made]
        if stated:
            spec["resourceClaims"] = stated
            claims = spec["containers"][0].setdefault("resources", {}).setdefault("claims", [])
            claims += [{"name": each["name"]} for each in stated if self._often(0.5)]

    def _own(self, name: str, status: Json) -> Json:
        claims = self._case["resourceClaims"]
        allocated = [claim for claim in claims if "status" in claim]
        if allocated and self._often(0.15):
            shared = self._draw.choice(allocated)
            shared["status"]["reservedFor"] = [{"resource": "pods", "name": "other", "uid": "other"}]
            if self._often(0.5):
                del shared["status"]["reservedFor"]
            return {"name": name, "resourceClaimName": shared["metadata"]["name"]}
        claim = self._claim(name)
        if not self._often(0.04):
            claims.append(claim)
        if self._often(0.03):
            claim["metadata"] |= {"deletionTimestamp": "2025-01-01T00:00:00Z", "finalizers": ["x"]}
        if self._often(0.7):
            return {"name": name, "resourceClaimName": name}
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "incoming", "uid": "incoming", "controller": True}
        if not self._often(0.1):
            claim["metadata"]["ownerReferences"] = [owner]
        if not self._often(0.1):
            made: Json = {"name": name}
            if not self._often(0.1):
                made["resourceClaimName"] = name
            status.setdefault("resourceClaimStatuses", []).append(made)
        return {"name": name, "resourceClaimTemplateName": "template"}

    def _container(self, name: str) -> Json:
        return {"name": name, "image": "app:v1", "resources": self._resources()}

    def _resources(self) -> Json:
        requests = {"cpu": "100m"}
        if self._extended and self._often(0.8):
            resource = "example.com/gpu" if self._often(0.7) else "deviceclass.resource.kubernetes.io/nic"
            requests[resource] = self._draw.choice(("1", "1", "2", "3"))
        return {"requests": requests, "limits": {**requests}}


def _object(kind: str, metadata: Json, **fields: Any) -> Json:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, **fields}
