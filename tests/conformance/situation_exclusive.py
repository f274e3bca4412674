"""Random situations about claims that only one pod may use, while several pods that use them run, and some have to go.

An API server keeps nobody from naming such a claim twice, so pods share them; claims of other namespaces have the same
names; a pod names one twice; volumes are made for pods under these names.
"""

import random
from typing import Any

from tests.conformance.golden_rows import Row

Json = dict[str, Any]

_CLAIMS = ("one", "two", "many")
_NAMESPACES = ("default", "default", "default", "other")


def situation(draw: random.Random, name: str) -> Row:
    """One situation."""
    nodes = [f"n{number:02}" for number in range(draw.choice((1, 2, 3)))]
    case: Json = {
        "name": f"exclusive-{name}",
        "nodes": [_node(node, draw.choice(("1", "2", "4"))) for node in nodes],
        "pods": [_placed(draw, f"p{number}", draw.choice(nodes)) for number in range(draw.choice((1, 2, 3, 5, 8)))],
        "pod": _pod(draw, "incoming", "default", draw.choice((10, 100))),
        "persistentVolumeClaims": [_claim(of, one) for of in set(_NAMESPACES) for one in _CLAIMS],
        "persistentVolumes": [_volume(of, one) for of in set(_NAMESPACES) for one in _CLAIMS],
        "namespaces": [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": of}} for of in set(_NAMESPACES)],
    }
    if draw.random() < 0.3:
        case["nominated"] = [_nominated(draw, draw.choice(nodes))]
    if draw.random() < 0.3:
        case["podDisruptionBudgets"] = [_budget()]
    return {"name": case["name"], "case": case}


def _node(name: str, cpu: str) -> Json:
    status = {"allocatable": {"cpu": cpu, "memory": "4Gi", "pods": "20"}}
    labels = {"kubernetes.io/hostname": name}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def _placed(draw: random.Random, name: str, node: str) -> Json:
    pod = _pod(draw, name, draw.choice(_NAMESPACES), draw.choice((0, 0, 5, 50)))
    pod["spec"]["nodeName"] = node
    pod["status"] = {"phase": "Running", "startTime": f"2026-01-01T00:00:{draw.randrange(60):02}Z"}
    return pod


def _nominated(draw: random.Random, node: str) -> Json:
    pod = _pod(draw, "promised", draw.choice(_NAMESPACES), draw.choice((5, 100, 1000)))
    pod["status"] = {"nominatedNodeName": node}
    return pod


def _pod(draw: random.Random, name: str, namespace: str, priority: int) -> Json:
    volumes: list[Json] = []
    for number in range(draw.choice((1, 1, 1, 2, 2, 3))):
        source: Json = {"persistentVolumeClaim": {"claimName": draw.choice(_CLAIMS)}}
        if draw.random() < 0.1:
            source = {"gcePersistentDisk": {"pdName": draw.choice(("d1", "d2"))}}
        volumes.append({"name": f"v{number}", **source})
    requests = {"cpu": draw.choice(("100m", "500m", "1"))}
    containers = [{"name": "c0", "resources": {"requests": requests}}]
    spec = {"schedulerName": "default-scheduler", "containers": containers, "volumes": volumes}
    metadata = {"name": name, "namespace": namespace, "uid": name, "labels": {"app": draw.choice(("web", "db"))}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, "priority": priority}}


def _claim(namespace: str, name: str) -> Json:
    metadata: Json = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"}
    metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    spec = {
        "accessModes": ["ReadWriteMany" if name == "many" else "ReadWriteOncePod"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "",
        "volumeName": f"pv-{namespace}-{name}",
    }
    status = {"phase": "Bound"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec, "status": status}


def _volume(namespace: str, name: str) -> Json:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany" if name == "many" else "ReadWriteOncePod"],
        "csi": {"driver": "a.csi.example.com", "volumeHandle": f"{namespace}-{name}"},
        "claimRef": {"namespace": namespace, "name": name, "uid": f"uid-{namespace}-{name}"},
    }
    metadata = {"name": f"pv-{namespace}-{name}"}
    status = {"phase": "Bound"}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec, "status": status}


def _budget() -> Json:
    metadata = {"name": "b", "namespace": "default", "uid": "b"}
    spec = {"selector": {"matchLabels": {"app": "web"}}}
    budget: Json = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
    return {**budget, "status": {"disruptionsAllowed": 0}}
