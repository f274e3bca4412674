"""A few workloads, created and watched until they are scheduled: what `make up` shows.

Tests: tests/e2e/test_e2e_up.py.
"""

import asyncio
import collections
import pathlib
from collections.abc import Callable
from typing import Any

from trireme_kube.client.rest import client, credentials
from trireme_kube.client.rest.errors import ApiError

NAMESPACE = "default"
PATIENCE_SECONDS = 60.0
# A pod may be refused and tried again at once while nodes come. After this time a refusal counts as final.
SETTLED_SECONDS = 3.0
_PREFER_ZONE = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 50,
                "preference": {
                    "matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-1"]}]
                },
            }
        ]
    }
}

Say = Callable[[str], None]


def _pod_template(labels: dict[str, str], spec: dict[str, Any], requests: dict[str, str]) -> dict[str, Any]:
    """A pod template with one container that does nothing."""
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests}}
    return {"metadata": {"labels": labels}, "spec": {"containers": [container], **spec}}


def _make_deployment(name: str, replicas: int, spec: dict[str, Any], requests: dict[str, str]) -> dict[str, Any]:
    """A Deployment of such pods."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": _pod_template(labels, spec, requests),
        },
    }


WORKLOADS = (
    (
        "50 web servers, spread by how full nodes are",
        _make_deployment("web", 50, {}, {"cpu": "250m", "memory": "256Mi"}),
    ),
    (
        "10 caches that prefer zone-1",
        _make_deployment("cache", 10, {"affinity": _PREFER_ZONE}, {"cpu": "500m", "memory": "1Gi"}),
    ),
    (
        "3 giants that fit nowhere: see why with kubectl describe",
        _make_deployment("giant", 3, {}, {"cpu": "1000", "memory": "1Gi"}),
    ),
)


async def run(kubeconfig: pathlib.Path, say: Say) -> bool:
    """Create the workloads and print where their pods went. Returns whether all that fit were scheduled in time."""
    settings = client.ClientSettings(credentials.Source(str(kubeconfig)), user_agent="trireme-demo", qps=-1)
    async with await client.connect(settings) as api:
        for text, body in WORKLOADS:
            say(f"demo: {text}")
            try:
                await api.post(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments", body)
            except ApiError as error:
                if error.status != 409:
                    raise
        scheduled = True
        for name, replicas in (("web", 50), ("cache", 10)):
            scheduled &= await _print_placements(api, name, replicas, say)
        await _print_refusal(api, "giant", say)
        return scheduled


async def _print_placements(api: client.ApiClient, name: str, replicas: int, say: Say) -> bool:
    """Print where the pods are, or why some are not bound. Returns whether all are bound."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            pods = await _wait_until_settled(api, name, replicas)
    except TimeoutError:
        say(f"demo: {name} is not scheduled after {PATIENCE_SECONDS:.0f} s")
        return False
    per_node = collections.Counter(pod["spec"]["nodeName"] for pod in pods if _is_bound(pod))
    if per_node:
        bound = per_node.total()
        say(f"demo: {name}: {bound} pods on {len(per_node)} nodes, at most {max(per_node.values())} on one")
    pending = [pod for pod in pods if not _is_bound(pod)]
    if pending:
        say(f"demo: {name}: {len(pending)} of {replicas} pods stay pending: {_last_refusal_message(pending[0])}")
    return not pending


async def _wait_until_settled(api: client.ApiClient, name: str, replicas: int) -> list[dict[str, Any]]:
    """Return the pods once all are bound, or the others have been refused for a while."""
    loop = asyncio.get_running_loop()
    refused_since: float | None = None
    while True:
        pods = await _list_pods(api, name)
        there = len(pods) >= replicas
        if there and all(_is_bound(pod) for pod in pods):
            return pods
        if not (there and all(_is_bound(pod) or _last_refusal_message(pod) for pod in pods)):
            refused_since = None
        elif refused_since is None:
            refused_since = loop.time()
        elif loop.time() - refused_since > SETTLED_SECONDS:
            return pods
        await asyncio.sleep(0.2)


def _is_bound(pod: dict[str, Any]) -> bool:
    return bool(pod["spec"].get("nodeName"))


def _last_refusal_message(pod: dict[str, Any]) -> str:
    """The message of the pod's last refusal; empty: none."""
    for condition in pod.get("status", {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            message: str = condition.get("message", "")
            return message
    return ""


async def _print_refusal(api: client.ApiClient, name: str, say: Say) -> None:
    """Print why the first refused pod is refused, once one is; gives up after a while."""
    for _ in range(100):
        for pod in await _list_pods(api, name):
            if message := _last_refusal_message(pod):
                say(f"demo: {pod['metadata']['name']}: {message}")
                return
        await asyncio.sleep(0.1)


async def _list_pods(api: client.ApiClient, name: str) -> list[dict[str, Any]]:
    response = await api.get(f"/api/v1/namespaces/{NAMESPACE}/pods", {"labelSelector": f"app={name}"})
    items: list[dict[str, Any]] = response.json()["items"] or []
    return items
