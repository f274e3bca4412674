"""The logs of simulated containers: one line of text, which says that there is nothing to log.

Requests are refused as by the API server and the kubelet, so that clients wait and choose containers as elsewhere.

Source: k8s.io/kubernetes, pkg/registry/core/pod/strategy.go (LogLocation) and pkg/kubelet/kubelet_pods.go.

Tests: tests/e2e/test_embedded_logs.py.
"""

import asyncio
from collections.abc import Mapping

from trireme_kube.embedded.api import api_errors, pod_resources
from trireme_kube.embedded.api.resources import PODS, Object
from trireme_kube.embedded.storage.store import DELETED, Event, Record, Store


def _requested_container(pod: Object, requested: str) -> str:
    """The requested container; raises ApiError 400 if that is ambiguous."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    everything = [one["name"] for part in ("initContainers", "containers") for one in spec.get(part) or ()]
    if not requested and len(spec["containers"]) > 1:
        text = f"a container name must be specified for pod {name}, choose one of: [{' '.join(everything)}]"
        raise api_errors.bad_request(text)
    container = requested or str(spec["containers"][0]["name"])
    if container not in everything:
        raise api_errors.bad_request(f"container {container} is not valid for pod {name}")
    return container


def _number_parameter(query: Mapping[str, str], name: str) -> int | None:
    """Return a query parameter as a number, None if it is not given. Raises: ApiError 400."""
    text = query.get(name, "")
    if text and not text.isdecimal():
        raise api_errors.bad_request(f'invalid {name} "{text}": must be a non-negative integer')
    return int(text) if text else None


def log_text(pod: Object, query: Mapping[str, str]) -> bytes:
    """The log of a container. Raises: ApiError 400 if it has not started, or the request is ambiguous."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    container = _requested_container(pod, query.get("container", ""))
    if not pod["spec"].get("nodeName"):
        return b""
    about = f'container "{container}" in pod "{metadata["name"]}"'
    if query.get("previous", "false").lower() in ("true", "1"):
        raise api_errors.bad_request(f"previous terminated {about} not found")
    if status.get("phase") == "Pending":
        raise api_errors.bad_request(f"{about} is waiting to start: ContainerCreating")
    line = f"{metadata['namespace']}/{metadata['name']}: container {container} is simulated and logs nothing but this\n"
    if query.get("timestamps", "false").lower() in ("true", "1"):
        line = f"{status.get('startTime', metadata['creationTimestamp'])} {line}"
    if _number_parameter(query, "tailLines") == 0:
        return b""
    limit = _number_parameter(query, "limitBytes")
    return line.encode()[:limit]


async def wait_for_end(store: Store, record: Record) -> None:
    """Wait until the pod has ended or is gone."""
    ended = asyncio.Event()

    def notice_end(event: Event) -> None:
        if event.record.key == record.key and (event.type == DELETED or pod_resources.has_ended(event.record.object)):
            ended.set()

    stop = store.listen(PODS, notice_end)
    try:
        if not pod_resources.has_ended(record.object):
            await ended.wait()
    finally:
        stop()
