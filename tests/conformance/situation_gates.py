"""Feature gates for random situations, and objects that use what belongs to gates that are off by default.

A run of situations has the same gates, because the framework reads them once. The objects use the fields whether or not
the gate is on: what is off must have no effect.
"""

import copy
import random
from collections.abc import Callable, Mapping
from typing import Any

from trireme.config import gates
from trireme.framework import resizes
from trireme_kube.componentbase.cli import versions

Json = dict[str, Any]

# What is flipped together; some gates depend on others, or say nothing alone.
FLIPS: tuple[dict[str, bool], ...] = (
    {"DRADerivedAttributes": True},
    {"DRADeviceCompatibilityGroups": True},
    {"DRAListTypeAttributes": True},
    {"DRANodeAllocatableResources": True},
    {"DRAOptionalNodeOperations": True},
    {"DRAConsumableCapacity": False, "DRAFractionalCapacityRange": False},
    {"DRAFractionalCapacityRange": True},
    {"DRADeviceBindingConditions": False},
    {"DRADeviceTaintRules": False},
    {"DRADeviceTaintRules": False, "DRADeviceTaints": False},
    {"DRAPartitionableDevices": False},
    {"DRASchedulerFilterTimeout": False},
    # With these off, another allocator is used.
    {"DRAConsumableCapacity": False, "DRAFractionalCapacityRange": False, "DRADeviceBindingConditions": False},
    {"TaintTolerationComparisonOperators": True},
    {"PodLevelResources": False, "InPlacePodLevelResourcesVerticalScaling": False},
    {"InPlacePodLevelResourcesVerticalScaling": False},
    {"InPlacePodVerticalScalingSchedulerPreemption": True},
    {"InterPodAffinityHostnameFastPath": True},
    {"MatchLabelKeysInPodTopologySpread": False, "MatchLabelKeysInPodTopologySpreadSelectorMerge": False},
    {"SchedulerAsyncPreemption": False},
    {"StorageCapacityScoring": False},
    {"VolumeLimitScaling": False},
)
# Those about devices come first.
_ABOUT_DEVICES = 13

_DERIVED = (
    'device.attributes["{d}"].index % 2',
    'device.attributes["{d}"].model.startsWith("a") ? "a" : "other"',
    'device.attributes["{d}"].model + device.driver',
    'device.attributes["{d}"].healthy',
    'device.attributes["{d}"].driverVersion',
    'device.attributes["dra.example.com"].numa',
    'device.attributes["dra.example.com"].?numa.orValue(7)',
    '[device.attributes["dra.example.com"].numa, 5]',
    'device.attributes["{d}"].driverVersion.isLessThan(semver("2.0.0")) ? [1, 2] : [2, 3]',
    '[semver("1.0.0"), device.attributes["{d}"].driverVersion]',
    'device.capacity["{d}"].memory.asInteger() / 1073741824',
    'device.attributes["{d}"].labels.filter(each, each != "x")',
    'device.attributes["{d}"].labels',
    "[]",
)
_FAULTY = (
    'device.attributes["{d}"].nosuch',
    "1.5",
    "dyn(1.5)",
    "dyn(1u)",
    'dyn(b"x")',
    'dyn(duration("1s"))',
    "dyn(null)",
    "[dyn(1), dyn(true)]",
    '[dyn("x"), dyn(1)]',
    "[dyn(1.5)]",
    "dyn([[1]])",
    'dyn({"a": 1})',
    "dyn(type(1))",
    "optional.of(1)",
    "dyn(optional.of(1))",
    "dyn(optional.none())",
    'device.capacity["{d}"].memory',
    'dyn(device.capacity["{d}"].memory)',
    "nonsense",
    "device.attributes",
    "1 / 0",
)
_NAMES = ("derived/x", "dra.example.com/numa", "gpu.example.com/model")
_GROUPS = ("a", "b", "c")
_OPERATIONS = ("NodePrepareResources", "NodeUnprepareResources")


def drawn_gates(draw: random.Random, *, devices: bool = False) -> dict[str, bool]:
    """Some gates that are not at their default; `devices`: those about devices alone."""
    flips = FLIPS[:_ABOUT_DEVICES] if devices else FLIPS
    while True:
        chosen: dict[str, bool] = {}
        for flip in draw.sample(flips, draw.choice((1, 1, 1, 2, 3))):
            chosen |= flip
        try:
            gates.set_gates(chosen, versions.DEFAULT)
        except gates.GateError:
            continue
        return dict(sorted(chosen.items()))


def add(draw: random.Random, case: Json, flipped: Mapping[str, bool]) -> None:
    """Have the case's objects use fields that belong to gates: mostly those that are on."""
    for gate, use in _USES.items():
        # Without the gate nobody asks about a pod that runs.
        rarely = 0.0 if gate == resizes.GATE else 0.1
        if draw.random() < (0.9 if flipped.get(gate) else rarely):
            use(draw, case)


def _devices_of(case: Json) -> list[tuple[Json, Json]]:
    return [
        (entry, device) for entry in case.get("resourceSlices", ()) for device in entry["spec"].get("devices") or ()
    ]


def _lists(draw: random.Random, case: Json) -> None:
    """Attributes become lists."""
    for _, device in _devices_of(case):
        attributes = device.setdefault("attributes", {})
        if draw.random() < 0.5:
            attributes["labels"] = {"strings": draw.sample(("x", "y", "z"), draw.choice((1, 2)))}
        for name, value in list(attributes.items()):
            ((kind, stated),) = list(value.items())[:1] or (("", None),)
            if kind in ("int", "string", "bool", "version") and draw.random() < 0.25:
                others: dict[str, tuple[Any, ...]] = {
                    "int": (0, 1, 2),
                    "string": ("a100", "h100", "pci0000:01"),
                    "bool": (True, False),
                    "version": ("1.2.3", "2.0.1"),
                }
                attributes[name] = {f"{kind}s": [stated, *draw.sample(others[kind], draw.choice((0, 1)))]}


def _groups(draw: random.Random, case: Json) -> None:
    """Devices name compatibility groups."""
    for _, device in _devices_of(case):
        for consumption in device.get("consumesCounters") or ():
            if draw.random() < 0.7:
                consumption["compatibilityGroups"] = draw.sample(_GROUPS, draw.choice((1, 1, 2)))


def _derived(draw: random.Random, case: Json) -> None:
    """Requests compute attributes, and constraints compare them."""
    for claim in case.get("resourceClaims", ()):
        devices = claim["spec"].get("devices") or {}
        requests = devices.get("requests") or ()
        name = draw.choice(_NAMES)
        faulty = draw.random() < 0.15
        driver = draw.choice(("gpu.example.com", "gpu.example.com", "nic.example.com"))
        for request in requests:
            for exact in (request.get("exactly"), *(request.get("firstAvailable") or ())):
                if exact is not None and draw.random() < 0.6:
                    known = _FAULTY if faulty and draw.random() < 0.6 else _DERIVED
                    expression = draw.choice(known).replace("{d}", driver)
                    exact["derivedAttributes"] = [{"name": name, "expression": expression}]
        if requests and draw.random() < 0.7:
            constraint: Json = {draw.choice(("matchAttribute", "matchAttribute", "distinctAttribute")): name}
            devices.setdefault("constraints", []).append(constraint)


def _node_allocatable(draw: random.Random, case: Json) -> None:
    """Devices stand for resources of the node, and cost some."""
    for entry, device in _devices_of(case):
        if draw.random() < 0.5:
            device["nodeAllocatableResources"] = {
                name: _resource(draw, name, entry["spec"]["driver"])
                for name in draw.sample(("cpu", "memory", "hugepages-2Mi"), draw.choice((1, 1, 2)))
            }
    for node in case["nodes"]:
        if draw.random() < 0.5:
            node.setdefault("status", {}).setdefault("allocatable", {})["hugepages-2Mi"] = draw.choice(("64Mi", "1Gi"))
    spec = case["pod"]["spec"]
    if draw.random() < 0.3:
        spec["resources"] = {
            "requests": {draw.choice(("cpu", "memory")): draw.choice(("1", "4", "2Gi"))},
            "limits": {draw.choice(("cpu", "memory", "hugepages-2Mi")): draw.choice(("2", "8", "4Gi"))},
        }
    named = [claim["name"] for claim in spec.get("resourceClaims", ())]
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        resources = container.setdefault("resources", {})
        if named and draw.random() < 0.5:
            resources["claims"] = [{"name": each} for each in draw.choices(named, k=draw.choice((1, 1, 2)))]
        if draw.random() < 0.3:
            resources.setdefault("limits", {})["cpu"] = draw.choice(("500m", "3"))
    for pod in case.get("pods", ()):
        if draw.random() < 0.3:
            claim: Json = {
                "resourceClaimName": "other",
                "mapping": [{"name": "cpu", "quantity": draw.choice(("1", "2"))}],
            }
            if draw.random() < 0.5:
                claim["containers"] = [container["name"] for container in pod["spec"]["containers"]]
                claim["overhead"] = [{"name": "memory", "perPod": "1Gi", "perContainer": "100Mi"}]
            pod.setdefault("status", {})["nodeAllocatableResourceClaimStatuses"] = [claim]


def _resource(draw: random.Random, name: str, driver: str) -> Json:
    amounts = {"cpu": ("250m", "1", "3"), "memory": ("512Mi", "1G", "3Gi"), "hugepages-2Mi": ("2Mi", "64Mi")}[name]
    out: Json = {}
    if draw.random() < 0.7:
        mapping: Json = {"deviceMultiplier": draw.choice(amounts)}
        if draw.random() < 0.3:
            mapping = {"capacityKey": draw.choice(("memory", "lanes", "nosuch", f"{driver}/memory", f"{driver}/lanes"))}
            if draw.random() < 0.6:
                mapping["capacityMultiplier"] = draw.choice(("1", "0.5", "0.001", "3", "-1"))
        out["mapping"] = mapping
    if not out or draw.random() < 0.4:
        overhead = {"perPod": draw.choice(amounts), "perContainer": draw.choice(amounts)}
        out["overhead"] = {key: value for key, value in overhead.items() if draw.random() < 0.7}
    return out


def _operations(draw: random.Random, case: Json) -> None:
    """Slices skip steps on the node, some nodes support it, and claims were given such devices."""
    skipping = set()
    for entry in case.get("resourceSlices", ()):
        if draw.random() < 0.5:
            entry["spec"]["skipNodeOperations"] = [draw.choice(_OPERATIONS)]
            skipping.add((entry["spec"]["driver"], entry["spec"]["pool"]["name"]))
    for node in case["nodes"]:
        if draw.random() < 0.5:
            node.setdefault("status", {}).setdefault("declaredFeatures", []).append("DRAOptionalNodeOperations")
    for claim in case.get("resourceClaims", ()):
        results = (((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}).get("results") or ()
        for result in results:
            if (result["driver"], result["pool"]) in skipping and draw.random() < 0.8:
                result["skipNodeOperations"] = [draw.choice(_OPERATIONS)]


def _comparisons(draw: random.Random, case: Json) -> None:
    """Taints are numbers, and tolerations compare them."""
    for node in case["nodes"]:
        if draw.random() < 0.5:
            taint = {"key": "level", "value": draw.choice(("1", "5", "10", "x", "-3", "07")), "effect": "NoSchedule"}
            node.setdefault("spec", {}).setdefault("taints", []).append(taint)
    operator, value = draw.choice(("Lt", "Gt")), draw.choice(("4", "5", "6", "y", "-1"))
    toleration = {"key": "level", "operator": operator, "value": value, "effect": draw.choice(("NoSchedule", ""))}
    case["pod"]["spec"].setdefault("tolerations", []).append(toleration)


def _resizes(draw: random.Random, case: Json) -> None:
    """A pod that runs is asked about, because its resize is deferred; the node may let none of those preempt."""
    for node in case["nodes"]:
        if draw.random() < 0.2:
            policy = {"disableResizePreemption": draw.choice((["an-operator"], []))}
            node.setdefault("spec", {})["podPreemptionPolicy"] = policy
    names = {node["metadata"]["name"] for node in case["nodes"]}
    running = [pod for pod in case.get("pods", ()) if pod["spec"].get("nodeName") in names]
    pending = {"type": "PodResizePending", "status": "True", "reason": draw.choice(("Deferred", "Deferred", "Error"))}
    if not running or draw.random() < 0.1:
        case["pod"].setdefault("status", {})["conditions"] = [pending]
        return
    chosen = draw.choice(running)
    resized = copy.deepcopy(chosen)
    # The framework's fake API server has each pod once; that both are one is told by their UID.
    resized["metadata"]["name"] = "resized"
    # What runs elsewhere is of no concern; how the pod is spread, and what it likes, is that of the one drawn before.
    if draw.random() < 0.5:
        spec = {**copy.deepcopy(case["pod"]["spec"]), "nodeName": chosen["spec"]["nodeName"]}
        resized["spec"] = spec
    resized["spec"]["priority"] = draw.choice((10, 100, 1000))
    for container in resized["spec"].get("containers", ()):
        if draw.random() < 0.6:
            requests = container.setdefault("resources", {}).setdefault("requests", {})
            requests[draw.choice(("cpu", "memory", "example.com/gpu"))] = draw.choice(("0", "1", "2", "6", "64Mi"))
    resized.setdefault("status", {})["conditions"] = [pending]
    if draw.random() < 0.5:
        # The cache has seen the change, too.
        chosen["spec"], chosen["status"] = copy.deepcopy(resized["spec"]), copy.deepcopy(resized["status"])
    case["pod"] = resized


_USES: Mapping[str, Callable[[random.Random, Json], None]] = {
    "DRAListTypeAttributes": _lists,
    "DRADeviceCompatibilityGroups": _groups,
    "DRADerivedAttributes": _derived,
    "DRANodeAllocatableResources": _node_allocatable,
    "DRAOptionalNodeOperations": _operations,
    "TaintTolerationComparisonOperators": _comparisons,
    resizes.GATE: _resizes,
}
