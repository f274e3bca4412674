"""Pods of several classes, some of which preempt, spread or keep apart, that come and go on an embedded cluster."""

import random
from typing import Any

import aiohttp

Json = dict[str, Any]

_CLASSES = 8
_HOST = "kubernetes.io/hostname"


async def create_and_delete(url: str, http: aiohttp.ClientSession, pods: int, seed: int = 0) -> None:
    """Create so many pods, and delete a third of them on the way. A cluster serves one such call."""
    draw = random.Random(seed)
    await _post(http, f"{url}/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 1000})
    specs = [_spec(number, draw) for number in range(_CLASSES)]
    of_pods = f"{url}/api/v1/namespaces/default/pods"
    present: list[str] = []
    for number in range(pods):
        chosen = draw.randrange(_CLASSES)
        name = f"mixed-{number}"
        metadata = {"name": name, "labels": {"app": f"app-{chosen}"}}
        await _post(http, of_pods, {"metadata": metadata, "spec": specs[chosen]})
        present.append(name)
        if draw.random() < 1 / 3:
            gone = present.pop(draw.randrange(len(present)))
            async with http.delete(f"{of_pods}/{gone}", params={"gracePeriodSeconds": "0"}) as reply:
                assert reply.status in (200, 404)  # it was preempted


async def are_decided(url: str, http: aiohttp.ClientSession) -> bool:
    """Whether every pod has a node, or says why it has none."""
    async with http.get(f"{url}/api/v1/namespaces/default/pods") as reply:
        pods = (await reply.json())["items"]
    return all(pod["spec"].get("nodeName") or pod["status"].get("conditions") for pod in pods)


def _spec(number: int, draw: random.Random) -> Json:
    """The spec of a class."""
    requests = {"cpu": f"{draw.choice([20, 50, 100, 250])}m", "memory": "16Mi"}
    out: Json = {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]}
    selector = {"matchLabels": {"app": f"app-{number}"}}
    if number % 4 == 1:
        when = "DoNotSchedule" if number == 1 else "ScheduleAnyway"
        constraint = {"maxSkew": 1, "topologyKey": _HOST, "whenUnsatisfiable": when, "labelSelector": selector}
        out["topologySpreadConstraints"] = [constraint]
    if number == 2:
        terms = [{"topologyKey": _HOST, "labelSelector": selector}]
        out["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    if number == 7:
        out["priorityClassName"] = "high"
        requests["cpu"] = "2"
    return out


async def _post(http: aiohttp.ClientSession, url: str, body: Json) -> None:
    async with http.post(url, json=body) as reply:
        assert reply.status == 201, await reply.text()
