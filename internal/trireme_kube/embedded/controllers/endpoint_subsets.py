"""The subsets of a Service's Endpoints, and how they are cut off at a thousand addresses.

Source: k8s.io/kubernetes, pkg/controller/endpoint/endpoints_controller.go and pkg/api/v1/endpoints/util.go.

Tests: tests/unit/embedded/controllers/test_endpoints.py.
"""

import math

from trireme_kube.embedded.api.resources import Object
from trireme_kube.embedded.controllers import endpoint_parts
from trireme_kube.embedded.registry.subresources import pod_ready

MAX_ADDRESSES = 1000
_READY, _NOT_READY = "addresses", "notReadyAddresses"


def make_subsets(service: Object, pods: list[Object]) -> list[Object]:
    """Make the subsets: each has the ports that the same pods serve, and these pods, ready or not.

    Pods that terminate are left out unless the Service publishes pods that are not ready. A Service without ports has
    no subset, but for a headless one, whose subset has no ports.
    """
    everybody = endpoint_parts.publishes_not_ready(service)
    staying = [pod for pod in pods if everybody or "deletionTimestamp" not in pod["metadata"]]
    entries = [(everybody or pod_ready(pod), _entry_of_pod(pod, service["metadata"]["name"])) for pod in staying]
    pods_by_port: dict[endpoint_parts.Port | None, list[int]] = {}
    for index, pod in enumerate(staying):
        for port in endpoint_parts.endpoint_ports(service, pod):
            pods_by_port.setdefault(port, []).append(index)
    if not service["spec"].get("ports") and service["spec"].get("clusterIP") == "None" and staying:
        pods_by_port[None] = list(range(len(staying)))
    ports_by_pods: dict[tuple[int, ...], list[endpoint_parts.Port]] = {}
    for each, indices in pods_by_port.items():
        ports = ports_by_pods.setdefault(tuple(indices), [])
        if each is not None:
            ports.append(each)
    return [_subset([entries[index] for index in indices], ports) for indices, ports in ports_by_pods.items()]


def _subset(entries: list[tuple[bool, Object]], ports: list[endpoint_parts.Port]) -> Object:
    subset: Object = {}
    for name, ready in ((_READY, True), (_NOT_READY, False)):
        addresses = [entry for is_ready, entry in entries if is_ready is ready]
        if addresses:
            subset[name] = addresses
    return {**subset, "ports": endpoint_parts.port_objects(tuple(ports), name_always=False)} if ports else subset


def truncate(subsets: list[Object]) -> bool:
    """Cut the subsets, in place, to `MAX_ADDRESSES` in all: ready ones first, of each subset in proportion to its size.

    Returns whether there were more.
    """
    ready, not_ready = (sum(len(subset.get(name, ())) for subset in subsets) for name in (_READY, _NOT_READY))
    if ready + not_ready <= MAX_ADDRESSES:
        return False
    if ready > MAX_ADDRESSES:
        _keep_in_proportion(subsets, _READY, MAX_ADDRESSES, ready)
        _keep_in_proportion(subsets, _NOT_READY, 0, not_ready)
    else:
        _keep_in_proportion(subsets, _NOT_READY, MAX_ADDRESSES - ready, not_ready)
    return True


def _keep_in_proportion(subsets: list[Object], name: str, limit: int, total: int) -> None:
    """Keep `limit` of the `total` addresses of that name."""
    left = limit
    for subset in subsets:
        addresses = subset.pop(name, [])
        kept = addresses[: min(left, math.ceil(len(addresses) / total * limit))] if addresses else []
        left -= len(kept)
        if kept:
            subset[name] = kept


def _entry_of_pod(pod: Object, service: str) -> Object:
    metadata, spec = pod["metadata"], pod["spec"]
    reference = {"kind": "Pod", "namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]}
    address: Object = {"ip": endpoint_parts.pod_ip(pod), "nodeName": spec["nodeName"], "targetRef": reference}
    if spec.get("hostname") and spec.get("subdomain") == service:
        address["hostname"] = spec["hostname"]
    return address
