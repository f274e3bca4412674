"""EndpointSlices and Endpoints of Services: the addresses of the pods that a Service selects.

Source: k8s.io/kubernetes, pkg/controller/endpointslice and pkg/controller/endpoint.
"""

from collections.abc import Callable
from typing import Any

from trireme_kube.apimachinery import well_known_labels
from trireme_kube.embedded.api import pod_resources
from trireme_kube.embedded.api.resources import BY_KEY, NODES, PODS, Object, Resource
from trireme_kube.embedded.controllers import endpoint_parts, endpoint_subsets
from trireme_kube.embedded.controllers.owner_index import owner_reference
from trireme_kube.embedded.controllers.selector_index import SelectorIndex
from trireme_kube.embedded.controllers.work_queue import WorkQueue
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.registry.subresources import pod_ready
from trireme_kube.embedded.storage.store import DELETED, Event, Record

SERVICES, SLICES, ENDPOINTS = BY_KEY["services"], BY_KEY["endpointslices.discovery.k8s.io"], BY_KEY["endpoints"]
_SERVICE_NAME = "kubernetes.io/service-name"
_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_CONTROLLER = "endpointslice-controller.k8s.io"
_ENDPOINTS_MANAGED_BY = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
_HEADLESS = "service.kubernetes.io/headless"
_OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
# Endpoints in one slice, as of the real controller.
_SLICE_LIMIT = 100
# Pods of a Service change together; one sync is enough.
_GATHER_SECONDS = 0.1
Key = tuple[str, str]


def _selector_of_service(service: Object) -> Object:
    """Return the Service's label selector; empty if it has none, or is an ExternalName."""
    labels = (service.get("spec") or {}).get("selector") or {}
    return {"matchLabels": labels} if labels and service["spec"].get("type") != "ExternalName" else {}


def _pod_parts_in_endpoint(pod: Object) -> tuple[Any, ...]:
    metadata, phase = pod["metadata"], (pod.get("status") or {}).get("phase")
    return endpoint_parts.pod_ip(pod), pod_ready(pod), phase, "deletionTimestamp" in metadata, metadata.get("labels")


class EndpointsController:
    """Writes Endpoints and EndpointSlices of Services with a selector, from the pods that they select."""

    def __init__(self, registry: Registry, monotonic: Callable[[], float]) -> None:
        self._registry = registry
        self._store = registry.store
        self._services = SelectorIndex(registry.store, SERVICES, _selector_of_service)
        self._queue: WorkQueue[Key] = WorkQueue("endpoints", self._sync_service, monotonic)
        self.queues = (self._queue,)
        self._store.listen(SERVICES, self._on_service)
        self._store.listen(PODS, self._on_pod)
        self._store.listen(SLICES, self._on_slice)

    def _on_service(self, event: Event) -> None:
        """Queue a Service that was created, changed or deleted."""
        self._queue.add(event.record.key)

    def _on_slice(self, event: Event) -> None:
        labels = event.record.object["metadata"].get("labels") or {}
        if event.type == DELETED and labels.get(_MANAGED_BY) == _CONTROLLER and _SERVICE_NAME in labels:
            self._queue.add((event.record.namespace, labels[_SERVICE_NAME]))

    def _on_pod(self, event: Event) -> None:
        """Queue the Services that select the pod, or did, if its endpoint changed."""
        if not self._services:
            return
        before = event.before.object if event.before is not None else None
        if (
            event.type != DELETED
            and before is not None
            and _pod_parts_in_endpoint(before) == _pod_parts_in_endpoint(event.record.object)
        ):
            return
        for pod in (before, event.record.object):
            labels = (pod["metadata"].get("labels") or {}) if pod is not None else {}
            for key in self._services.selecting(event.record.namespace, labels) if labels else ():
                self._queue.add(key, _GATHER_SECONDS)

    def _sync_service(self, key: Key) -> None:
        """Write the slices and the Endpoints of a Service, from the running pods that it selects."""
        service = self._store.get(SERVICES, *key)
        selecting = self._services.get(key)
        if service is None or "deletionTimestamp" in service.object["metadata"]:
            self._remove_endpoints(key)  # the slices are deleted with their owner
            return
        if selecting is None or not selecting.selector:
            return  # without a selector, the user writes the addresses
        pods = [
            one
            for one in self._store.scan(PODS, service.namespace)
            if endpoint_parts.pod_ip(one.object)
            and not pod_resources.has_ended(one.object)
            and selecting.matches(one.object["metadata"].get("labels") or {})
        ]
        self._write_slices(service, pods)
        self._write_endpoints(service, pods)

    # Slices

    def _write_slices(self, service: Record, pods: list[Record]) -> None:
        """Make, update and delete slices: one for the pods with the same port numbers, at most _SLICE_LIMIT in each."""
        everybody = endpoint_parts.publishes_not_ready(service.object)
        by_ports: dict[endpoint_parts.Ports, list[Record]] = {}
        for pod in pods:
            if everybody or self._store.get(NODES, "", pod.object["spec"]["nodeName"]) is not None:
                by_ports.setdefault(endpoint_parts.endpoint_ports(service.object, pod.object), []).append(pod)
        desired = [
            (ports, same_ports[start : start + _SLICE_LIMIT])
            for ports, same_ports in by_ports.items()
            for start in range(0, len(same_ports), _SLICE_LIMIT)
        ] or [((), [])]
        existing = self._slices_of(service)
        for index, (ports, endpoints) in enumerate(desired):
            content: Object = {
                "addressType": "IPv4",
                "endpoints": [self._slice_entry_of_pod(service.object, pod.object) for pod in endpoints],
                "ports": endpoint_parts.port_objects(ports, name_always=True),
            }
            metadata: Object = {"labels": self._slice_labels(service.object)}
            if index < len(existing):
                before = existing[index]
                self._update(SLICES, before, {"metadata": {**before.object["metadata"], **metadata}, **content})
                continue
            metadata |= {"generateName": f"{service.name}-", "ownerReferences": [owner_reference(service)]}
            self._registry.create(SLICES, service.namespace, {"metadata": metadata, **content})
        for surplus in existing[len(desired) :]:
            self._registry.delete(SLICES, *surplus.key)

    def _slices_of(self, service: Record) -> list[Record]:
        """Return the slices that this controller made for the Service."""

        def is_made_here(record: Record) -> bool:
            labels = record.object["metadata"].get("labels") or {}
            return labels.get(_SERVICE_NAME) == service.name and labels.get(_MANAGED_BY) == _CONTROLLER

        return [one for one in self._store.scan(SLICES, service.namespace) if is_made_here(one)]

    @staticmethod
    def _slice_labels(service: Object) -> Object:
        metadata = service["metadata"]
        labels = {**(metadata.get("labels") or {}), _SERVICE_NAME: metadata["name"], _MANAGED_BY: _CONTROLLER}
        return {**labels, _HEADLESS: ""} if service["spec"].get("clusterIP") == "None" else labels

    def _slice_entry_of_pod(self, service: Object, pod: Object) -> Object:
        """Make a slice's entry of a pod; a pod that is being deleted is not ready, but may still serve."""
        ready, going = pod_ready(pod), "deletionTimestamp" in pod["metadata"]
        metadata, spec = pod["metadata"], pod["spec"]
        endpoint: Object = {
            "addresses": [endpoint_parts.pod_ip(pod)],
            "conditions": {
                "ready": endpoint_parts.publishes_not_ready(service) or (ready and not going),
                "serving": ready,
                "terminating": going,
            },
            "targetRef": {"kind": "Pod", "namespace": metadata["namespace"], "name": metadata["name"]}
            | {"uid": metadata["uid"]},
            "nodeName": spec["nodeName"],
        }
        node = self._store.get(NODES, "", spec["nodeName"])
        zone = (node.object["metadata"].get("labels") or {}).get(well_known_labels.ZONE) if node is not None else None
        if zone:
            endpoint["zone"] = zone
        if spec.get("hostname") and spec.get("subdomain") == service["metadata"]["name"]:
            endpoint["hostname"] = spec["hostname"]
        return endpoint

    # Endpoints

    def _write_endpoints(self, service: Record, pods: list[Record]) -> None:
        """Write the Endpoints: at most a thousand addresses, and an annotation if there are more."""
        subsets = endpoint_subsets.make_subsets(service.object, [pod.object for pod in pods])
        labels = {**(service.object["metadata"].get("labels") or {}), **_ENDPOINTS_MANAGED_BY}
        if service.object["spec"].get("clusterIP") == "None":
            labels[_HEADLESS] = ""
        before = self._store.get(ENDPOINTS, *service.key)
        metadata: Object = before.object["metadata"] if before is not None else {"name": service.name}
        annotations = {**(metadata.get("annotations") or {}), _OVER_CAPACITY: "truncated"}
        if not endpoint_subsets.truncate(subsets):
            del annotations[_OVER_CAPACITY]
        metadata = {name: value for name, value in metadata.items() if name != "annotations"} | {"labels": labels}
        if annotations:
            metadata["annotations"] = annotations
        content: Object = {"metadata": metadata, **({"subsets": subsets} if subsets else {})}
        if before is None:
            self._registry.create(ENDPOINTS, service.namespace, content)
        else:
            self._update(ENDPOINTS, before, content)

    def _remove_endpoints(self, key: Key) -> None:
        """Delete the Endpoints of a Service that is gone, if this controller made them."""
        before = self._store.get(ENDPOINTS, *key)
        if before is not None and "deletionTimestamp" not in before.object["metadata"]:
            labels = before.object["metadata"].get("labels") or {}
            if _ENDPOINTS_MANAGED_BY.items() <= labels.items():
                self._registry.delete(ENDPOINTS, *key)

    def _update(self, resource: Resource, before: Record, content: Object) -> None:
        """Store the object with other content; the registry skips a write that changes nothing."""
        type_fields = {name: before.object[name] for name in ("kind", "apiVersion")}
        self._registry.store_update(resource, before, {**type_fields, **content})
