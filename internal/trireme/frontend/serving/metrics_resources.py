"""/metrics/resources: each pod's requests and limits, as its specification has them.

Computed once per pod class, then written once per pod. Pods of another scheduler are not among them: the frontend does
not store them.

Source: pkg/scheduler/metrics/resources, k8s.io/component-helpers/resource.

Also change: internal/trireme/framework/amounts.py, internal/trireme_kube/embedded/registry/quotas/pod_usage.py,
internal/trireme/plugin_kit/device_resources.py (names of extended resources).

Tests: tests/contract/test_serving_metrics.py.
"""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import Metric

from trireme.cache import cluster_cache
from trireme.queueing import scheduling_queue
from trireme.v1 import core_pb2, meta_pb2
from trireme_kube.apimachinery import quantity

_TEXT = "[STABLE] {} of pods, broken down by pod, node, scheduler, priority, resource and the resource's unit."
_UNITS = {"cpu": "cores", "memory": "bytes", "storage": "bytes", "ephemeral-storage": "bytes"}
_HUGE_PAGES = "hugepages-"
_VOLUMES = "attachable-volumes-"

Quantities = Mapping[str, meta_pb2.Quantity]
Nanos = dict[str, int]


def families(cache: cluster_cache.ClusterCache, queue: scheduling_queue.SchedulingQueue) -> Iterator[Metric]:
    """Requests and limits of all known pods."""
    for kind, name, text in (("limits", "limit", "Resource limits"), ("requests", "request", "Resource requests")):
        family = Metric(f"kube_pod_resource_{name}", _TEXT.format(text), "gauge")
        totals: dict[int, Nanos] = {}
        for key, node, class_id in _key_node_and_class_of_pods(cache, queue):
            pod = cache.registry[class_id].pod
            total = totals.get(class_id)
            if total is None:
                total = totals[class_id] = _pod_total(pod, kind)
            _add_samples(family, key, node, pod, total)
        if family.samples:
            yield family


def _key_node_and_class_of_pods(
    cache: cluster_cache.ClusterCache, queue: scheduling_queue.SchedulingQueue
) -> Iterator[tuple[str, str, int]]:
    """Key, node and class of each pod; the node is empty if it has none."""
    for placed in cache.pods():
        yield placed.key, "" if placed.assumed else placed.node_name, placed.class_id
    for queued in queue.contents.waiting_pods():
        pending = queued.record.pod
        if pending.class_id:
            yield queued.key, "", pending.class_id


def _add_samples(family: Metric, key: str, node: str, pod: core_pb2.Pod, total: Nanos) -> None:
    """Add a sample for each resource of the pod that is not zero."""
    namespace, _, name = key.partition("/")
    for resource, nanos in total.items():
        if nanos:
            labels = {
                "namespace": namespace,
                "pod": name,
                "node": node,
                "scheduler": pod.spec.scheduler_name,
                "priority": str(pod.spec.priority),
                "resource": resource,
                "unit": _unit_of_resource(resource),
            }
            family.add_sample(family.name, labels, nanos / quantity.NANOS_PER_UNIT)


def _unit_of_resource(resource: str) -> str:
    """The unit of the resource, as the metric's label has it; empty: unknown."""
    if resource.startswith(_HUGE_PAGES):
        return "bytes"
    return "integer" if resource.startswith(_VOLUMES) else _UNITS.get(resource, "")


def _pod_total(pod: core_pb2.Pod, kind: str) -> Nanos:
    """The total of one resource that a pod requests or is limited to.

    Containers together, or the most that init containers need in turn beside the sidecars started before them;
    pod-level values instead of these; and the overhead, for resources with a limit.
    """

    def amounts_of(container: core_pb2.Container) -> Nanos:
        return _amounts_in_nanos(getattr(container.resources, kind))

    total: Nanos = {}
    for container in pod.spec.containers:
        _combine_into(total, amounts_of(container), int.__add__)
    sidecars: Nanos = {}
    most: Nanos = {}
    for container in pod.spec.init_containers:
        own = amounts_of(container)
        if container.restart_policy == "Always":
            _combine_into(total, own, int.__add__)
            _combine_into(sidecars, own, int.__add__)
            _combine_into(most, sidecars, max)
        else:
            _combine_into(own, sidecars, int.__add__)
            _combine_into(most, own, max)
    _combine_into(total, most, max)
    if kind == "limits":
        _omit_partly_limited(total, pod.spec)
    for resource, nanos in _amounts_in_nanos(getattr(pod.spec.resources, kind)).items():
        if resource in ("cpu", "memory") or resource.startswith(_HUGE_PAGES):
            total[resource] = nanos
    for resource, nanos in _amounts_in_nanos(pod.spec.overhead).items():
        if kind == "requests" or total.get(resource):
            total[resource] = total.get(resource, 0) + nanos
    return total


def _omit_partly_limited(total: Nanos, spec: core_pb2.PodSpec) -> None:
    """Drop cpu and memory where a container has no limit of it, or 0: the kubelet then limits the pod by none."""
    for container in (*spec.init_containers, *spec.containers):
        limits = _amounts_in_nanos(container.resources.limits)
        for resource in ("cpu", "memory"):
            if not limits.get(resource):
                total.pop(resource, None)


def _combine_into(into: Nanos, more: Nanos, combine: Callable[[int, int], int]) -> None:
    """Combine the amounts into those of `into`, resource by resource; one that is only in `more` is added."""
    for resource, nanos in more.items():
        into[resource] = combine(into[resource], nanos) if resource in into else nanos


def _amounts_in_nanos(quantities: Quantities) -> Nanos:
    return {name: quantity.parse_quantity(amount.string).nanos for name, amount in quantities.items()}
