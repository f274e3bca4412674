"""Puts pods on nodes and changes nodes, for one scenario: both are undone before the next one."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

from tests.simulation import drawn_objects
from tests.simulation.scenarios.compared_cluster import NODES, PODS
from tests.simulation.scenarios.comparison import Comparison

Json = dict[str, Any]

GPU = "example.com/gpu"
_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "m": 1, "": 1}


def amount(text: str) -> int:
    """A quantity as a number: cpu with suffix m in millicores, other numbers as they are."""
    digits = text.rstrip("KMGim")
    return int(digits) * _UNITS[text[len(digits) :]]


async def change_node(compared: Comparison, name: str, change: Json, part: str = "") -> None:
    """Change labels, taints, or the sizes of a node (its `part` status), until the next scenario begins."""
    before = await compared.cluster.get(NODES, name)
    assert before is not None
    await compared.cluster.patch(NODES, name, change, part)
    compared.afterwards(functools.partial(_change_back, compared, before, change, part))


async def _change_back(compared: Comparison, before: Json, change: Json, part: str) -> None:
    """Give the node back what a change replaced."""
    name = before["metadata"]["name"]
    if await compared.cluster.get(NODES, name) is not None:
        await compared.cluster.patch(NODES, name, _undoing(before, change), part)


def _undoing(before: Any, change: Json) -> Json:
    """The merge patch that undoes another one."""
    return {
        name: _undoing(before.get(name) or {}, value) if isinstance(value, dict) else (before or {}).get(name)
        for name, value in change.items()
    }


async def place(
    compared: Comparison,
    pods: Iterable[tuple[str, dict[str, str], str, dict[str, str]]],
    ports: Sequence[Json] = (),
) -> None:
    """Create pods that have their nodes: the node, requests, the name of the priority, and labels of each."""
    names = []
    async with compared.cluster.held():
        for node, requests, priority, labels in pods:
            name = f"placed-{next(compared.numbers)}"
            extended = {resource: count for resource, count in requests.items() if resource == GPU}
            resources: Json = {"requests": requests, **({"limits": extended} if extended else {})}
            container = {"name": "main", "image": "example.org/app", "resources": resources, "ports": list(ports)}
            spec = {
                "nodeName": node,
                "priorityClassName": priority,
                "priority": drawn_objects.PRIORITIES[priority],
                "containers": [container],
            }
            metadata = {"name": name, "namespace": "default", "labels": {"app": "placed", **labels}}
            await compared.cluster.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
            names.append(name)
    for name in names:
        compared.afterwards(functools.partial(compared.delete_if_there, PODS, name))
    await compared.controllers.settle()


async def fill(
    compared: Comparison, nodes: Sequence[str], resource: str, priorities: Sequence[str], leave: int
) -> None:
    """Put pods on the nodes until no more than so much is left of a resource: cpu in millicores, memory in bytes."""
    placed = []
    pods = await compared.cluster.list(PODS)
    for node in await compared.cluster.list(NODES):
        name = node["metadata"]["name"]
        if name not in nodes:
            continue
        unit = 1000 if resource == "cpu" else 1
        used = sum(_requested(pod, resource) for pod in pods if pod["spec"].get("nodeName") == name)
        free = _scaled(node["status"]["allocatable"][resource], resource) - used - leave
        count = compared.draw.choice((1, 1, 2, 3))
        for _ in range(count if free > 0 else 0):
            share = free // count
            text = f"{share}m" if unit == 1000 else str(share)
            placed.append((name, {resource: text}, compared.draw.choice(priorities), {}))
    await place(compared, placed)


def _requested(pod: Json, resource: str) -> int:
    """What the containers of a pod request."""
    requests = (each.get("resources", {}).get("requests", {}) for each in pod["spec"]["containers"])
    return sum(_scaled(each[resource], resource) for each in requests if resource in each)


def _scaled(text: str, resource: str) -> int:
    """A quantity of cpu in millicores, one of memory in bytes."""
    return amount(text) * (1000 if resource == "cpu" and not text.endswith("m") else 1)
