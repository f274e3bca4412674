"""Oddities for random situations: what an API server takes, and what few clusters have.

Owners that stand for services, images as volumes, taints that are numbers, volumes bound ahead or under old labels,
pods that are being deleted where others are nominated, amounts in every notation. Each is put into a
situation that is drawn already, where it has a place.
"""

import random
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]

_ZONE, _OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
_REGION, _OLD_REGION = "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"
_OWNERS = (
    ("replicaSets", "apps/v1", "ReplicaSet"),
    ("statefulSets", "apps/v1", "StatefulSet"),
    ("replicationControllers", "v1", "ReplicationController"),
)
# Sums of them are numbers of 64 bits, in thousandths too.
_AMOUNTS = ("1n", "100u", "0.0001", "2.5", "1e3", "1e13", "3.000001Gi", "12345678901m", "1Ti", "00.50", "+2")
_MIGRATED = (
    {"azureDisk": {"diskName": "d", "diskURI": "/subscriptions/s/disks/d"}},
    {"azureFile": {"secretName": "s", "shareName": "share"}},
    {"cinder": {"volumeID": "cinder-1"}},
    {"vsphereVolume": {"volumePath": "[store] disk"}},
    {"portworxVolume": {"volumeID": "px-1"}},
    {"gcePersistentDisk": {"pdName": "pd", "partition": 1}},
    {"awsElasticBlockStore": {"volumeID": "aws://za/vol-1"}},
    {"image": {"reference": "registry.example/big"}},
)


def add(draw: random.Random, case: Json) -> None:
    """Put some oddities where they can be."""
    for change in draw.sample(_CHANGES, draw.choice((1, 2, 3, 5))):
        change(draw, case)


def _pods(case: Json) -> list[Json]:
    return [*case["pods"], *case.get("nominated", ()), case["pod"]]


def _some(draw: random.Random, entries: list[Json]) -> list[Json]:
    return draw.sample(entries, min(len(entries), draw.choice((1, 2, 4))))


def _owners(draw: random.Random, case: Json) -> None:
    """Spread by default takes what a pod's owner selects, too."""
    for field, version, kind in draw.sample(_OWNERS, draw.choice((1, 1, 2))):
        labels = dict(draw.sample(sorted(case["pod"]["metadata"].get("labels", {}).items()) or [("app", "web")], 1))
        selector: Json = labels if kind == "ReplicationController" else {"matchLabels": labels}
        if "matchLabels" in selector and draw.random() < 0.4:
            selector["matchExpressions"] = [
                {"key": "track", "operator": draw.choice(("In", "NotIn")), "values": ["stable"]}
            ]
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
        metadata = {"name": "owner", "namespace": "default", "uid": f"uid-{kind}"}
        spec = {"selector": selector, "template": template}
        if draw.random() < 0.9:
            case[field] = [{"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}]
        owner = {"apiVersion": version, "kind": kind, "name": "owner", "uid": f"uid-{kind}"}
        controller = draw.choice(({"controller": True}, {"controller": True}, {"controller": False}, {}))
        for pod in (*_some(draw, case["pods"]), case["pod"]):
            pod["metadata"].setdefault("ownerReferences", []).append({**owner, **controller})


def _numbers_as_taints(draw: random.Random, case: Json) -> None:
    for node in _some(draw, case["nodes"]):
        value = draw.choice(("5", "10", "-3", "007", "+5", "5.0", "99999999999999999999", ""))
        taint = {"key": "level", "value": value, "effect": draw.choice(("NoSchedule", "PreferNoSchedule"))}
        node["spec"].setdefault("taints", []).append(taint)
    for pod in (*_some(draw, case["pods"]), case["pod"]):
        toleration = {
            "key": "level",
            "operator": draw.choice(("Lt", "Gt")),
            "value": draw.choice(("7", "5", "-1", "x")),
        }
        if draw.random() < 0.4:
            toleration["effect"] = draw.choice(("NoSchedule", "PreferNoSchedule"))
        pod["spec"].setdefault("tolerations", []).append(toleration)


def _images_as_volumes(draw: random.Random, case: Json) -> None:
    images = ("registry.example/app:v1", "registry.example/big", "registry.example/ml@sha256:aa", "")
    for number in range(draw.choice((1, 2))):
        volume = {"name": f"image{number}", "image": {"reference": draw.choice(images)}}
        case["pod"]["spec"].setdefault("volumes", []).append(volume)


def _ports_of_init_containers(draw: random.Random, case: Json) -> None:
    for pod in (*_some(draw, case["pods"]), case["pod"]):
        port = {"containerPort": 80, "hostPort": draw.choice((80, 443)), "protocol": draw.choice(("TCP", "UDP"))}
        container: Json = {"name": "with-port", "image": "x", "ports": [port]}
        if draw.random() < 0.6:
            container["restartPolicy"] = "Always"
        pod["spec"].setdefault("initContainers", []).append(container)
        if draw.random() < 0.3:
            pod["spec"]["hostNetwork"] = True


def _needed_features(draw: random.Random, case: Json) -> None:
    spec = case["pod"]["spec"]
    container = draw.choice([*spec["containers"], *spec.get("initContainers", ())])
    if draw.random() < 0.6:
        options = draw.choice((["noexec"], [], ["noexec", "nosuid"]))
        container["volumeMounts"] = [{"name": "tmp", "mountPath": "/tmp", "bindMountOptions": options}]
        spec.setdefault("volumes", []).append({"name": "tmp", "emptyDir": {}})
    if draw.random() < 0.6:
        action = draw.choice(("Restart", "RestartAllContainers"))
        container["restartPolicy"] = "Never"
        container["restartPolicyRules"] = [{"action": action, "exitCodes": {"operator": "In", "values": [42]}}]
    if draw.random() < 0.3:
        spec["hostNetwork"], spec["hostUsers"] = True, False


def _amounts(draw: random.Random, case: Json) -> None:
    resource = draw.choice(("cpu", "memory", "example.com/gpu", "hugepages-1Gi", "ephemeral-storage", "storage"))
    for node in _some(draw, case["nodes"]):
        node["status"]["allocatable"][resource] = draw.choice(_AMOUNTS)
    for pod in (*_some(draw, case["pods"]), case["pod"]):
        container = draw.choice(pod["spec"]["containers"])
        container.setdefault("resources", {}).setdefault("requests", {})[resource] = draw.choice(_AMOUNTS)
        if draw.random() < 0.2:
            container["resources"]["limits"] = {resource: "7"}


def _leaving(draw: random.Random, case: Json) -> None:
    """Pods are on their way out where somebody is nominated."""
    node = draw.choice(case["nodes"])["metadata"]["name"]
    if draw.random() < 0.7:
        case["pod"]["status"]["nominatedNodeName"] = draw.choice((node, node, "gone"))
        case["pod"]["spec"].setdefault("priority", draw.choice((100, 1000)))
    for pod in _some(draw, case["pods"]):
        pod["spec"]["nodeName"] = node
        pod["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/f"]}
        if draw.random() < 0.6:
            reason = draw.choice(("PreemptionByScheduler", "TerminationByKubelet"))
            status = draw.choice(("True", "False"))
            pod["status"]["conditions"] = [{"type": "DisruptionTarget", "status": status, "reason": reason}]
    for pod in case.get("nominated", ()):
        if draw.random() < 0.3:
            pod["status"]["nominatedNodeName"] = "gone"


def _priorities(draw: random.Random, case: Json) -> None:
    for pod in _pods(case):
        chance = draw.random()
        if chance < 0.3:
            pod["spec"]["priority"] = draw.choice((-10, -2147483648, 2000001000, 0, 50))
        elif chance < 0.4:
            pod["spec"].pop("priority", None)
        if "startTime" in pod["status"] and draw.random() < 0.4:
            # Not all that are as important began at another time.
            pod["status"]["startTime"] = draw.choice(("2026-01-05T00:00:00Z", "2026-01-06T00:00:00Z"))


def _budgets(draw: random.Random, case: Json) -> None:
    for number in range(draw.choice((1, 3))):
        key, value = draw.choice((("app", "web"), ("app", "db"), ("tier", "front"), ("track", "stable")))
        selector: Json = draw.choice(({"matchLabels": {key: value}}, {}, {"matchLabels": {"nobody": "x"}}))
        status: Json = {"disruptionsAllowed": draw.choice((0, 0, 1, 2, -1))}
        if case["pods"] and draw.random() < 0.4:
            gone = [pod["metadata"]["name"] for pod in _some(draw, case["pods"])]
            status["disruptedPods"] = dict.fromkeys(gone, "2026-01-01T00:00:00Z")
        metadata = {"name": f"odd{number}", "namespace": draw.choice(("default", "default", "other"))}
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "status": status}
        budget["spec"] = {"selector": selector} if draw.random() < 0.9 else {}
        case.setdefault("podDisruptionBudgets", []).append(budget)


def _same_names(draw: random.Random, case: Json) -> None:
    """Pods of two namespaces are called alike."""
    for number, pod in enumerate(_some(draw, case["pods"])):
        pod["metadata"] |= {"name": "incoming", "namespace": f"away{number}"}


def _storage(draw: random.Random, case: Json) -> None:
    """Volumes and claims in states between the usual ones, and of kinds that were moved to drivers."""
    claims, volumes = case.get("persistentVolumeClaims", []), case.get("persistentVolumes", [])
    for volume in _some(draw, volumes):
        spec = volume["spec"]
        chance = draw.random()
        if chance < 0.2:
            spec["volumeAttributesClassName"] = draw.choice(("gold", "silver", ""))
        elif chance < 0.4:
            volume["metadata"]["labels"] |= {draw.choice((_OLD_ZONE, _OLD_REGION)): draw.choice(("za", "r1", "za__zb"))}
        elif chance < 0.55 and claims and "claimRef" not in spec:
            claim = draw.choice(claims)["metadata"]
            spec["claimRef"] = {"name": claim["name"], "namespace": claim["namespace"]}
            if draw.random() < 0.3:
                spec["claimRef"]["uid"] = claim["uid"]
        elif chance < 0.65:
            volume["status"]["phase"] = draw.choice(("Released", "Failed", "Pending", "Available"))
        elif chance < 0.75:
            volume["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x"]}
        elif chance < 0.85:
            volume["metadata"]["annotations"] = {"volume.beta.kubernetes.io/storage-class": draw.choice(("later", ""))}
        else:
            for source in ("csi", "local", "awsElasticBlockStore", "gcePersistentDisk"):
                spec.pop(source, None)
            spec |= draw.choice(_MIGRATED[:-1])
    for claim in _some(draw, claims):
        chance = draw.random()
        if chance < 0.3:
            claim["spec"]["volumeAttributesClassName"] = draw.choice(("gold", "silver", ""))
        elif chance < 0.5 and volumes:
            claim["spec"]["volumeName"] = draw.choice(volumes)["metadata"]["name"]
        elif chance < 0.7:
            claim["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"] = draw.choice(("later", "none"))
        elif chance < 0.85:
            operator = draw.choice(("In", "NotIn"))
            expression = {"key": _ZONE, "operator": operator, "values": ["za"]}
            claim["spec"]["selector"] = {"matchExpressions": [expression]}
        else:
            claim["spec"]["accessModes"] = ["ReadWriteOnce", "ReadOnlyMany"]
    volume = {"name": "odd", **draw.choice(_MIGRATED)}
    draw.choice(_pods(case))["spec"].setdefault("volumes", []).append(volume)


def _old_labels(draw: random.Random, case: Json) -> None:
    """Nodes say where they are by names that are long deprecated."""
    for node in _some(draw, case["nodes"]):
        labels = node["metadata"]["labels"]
        for new, old in ((_ZONE, _OLD_ZONE), (_REGION, _OLD_REGION)):
            if new in labels:
                labels[old] = labels.pop(new) if draw.random() < 0.6 else "za"


def _bare(draw: random.Random, case: Json) -> None:
    """Nodes and pods that say almost nothing."""
    for node in _some(draw, case["nodes"]):
        draw.choice((node["metadata"].pop, node["status"].pop))(draw.choice(("labels", "allocatable")), None)
        node["metadata"].setdefault("labels", {})
        node["status"].setdefault("allocatable", {})
    for pod in _some(draw, _pods(case)):
        pod["metadata"].pop("labels", None)


_CHANGES: tuple[Callable[[random.Random, Json], None], ...] = (
    _owners,
    _numbers_as_taints,
    _images_as_volumes,
    _ports_of_init_containers,
    _needed_features,
    _amounts,
    _leaving,
    _priorities,
    _budgets,
    _same_names,
    _storage,
    _old_labels,
    _bare,
)
