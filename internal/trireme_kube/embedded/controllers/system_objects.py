"""The objects that every cluster has: the system namespaces and the Service `default/kubernetes`.

They are created at the start and again whenever they are deleted, as the API server's own controllers do.
Source: k8s.io/kubernetes, pkg/controlplane/controller/systemnamespaces and .../kubernetesservice.
"""

import functools
from collections.abc import Callable

from trireme_kube.embedded.api.resources import BY_KEY, NAMESPACES, Object, Resource
from trireme_kube.embedded.controllers.work_queue import WorkQueue
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.storage.store import DELETED, Event

SYSTEM_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
SERVICE_ADDRESS = "10.96.0.1"
_NAME = "kubernetes"
_SERVICES, _SLICES = BY_KEY["services"], BY_KEY["endpointslices.discovery.k8s.io"]
_ENDPOINTS = BY_KEY["endpoints"]
Key = tuple[str, str, str]
"""Resource key, namespace, name."""


def _kubernetes_service() -> Object:
    """Make the Service `kubernetes`, which stands for the API server."""
    labels = {"component": "apiserver", "provider": "kubernetes"}
    ports = [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}]
    return {"metadata": {"name": _NAME, "labels": labels}, "spec": {"clusterIP": SERVICE_ADDRESS, "ports": ports}}


class SystemObjectsController:
    """Creates the system objects, and recreates deleted ones."""

    def __init__(self, registry: Registry, monotonic: Callable[[], float]) -> None:
        self._registry = registry
        self._address: tuple[str, int] | None = None
        self._queue: WorkQueue[Key] = WorkQueue("system objects", self._restore_system_object, monotonic)
        self.queues = (self._queue,)
        for resource in (NAMESPACES, _SERVICES, _SLICES, _ENDPOINTS):
            registry.store.listen(resource, functools.partial(self._queue_deleted_system_object, resource))

    def create(self, host: str, port: int) -> None:
        """Create all system objects; `host` and `port` are the API server's address."""
        self._address = (host, port)
        for name in SYSTEM_NAMESPACES:
            self._restore_system_object((NAMESPACES.key, "", name))
        for resource in (_SERVICES, _SLICES, _ENDPOINTS):
            self._restore_system_object((resource.key, "default", _NAME))

    def _queue_deleted_system_object(self, resource: Resource, event: Event) -> None:
        """Queue a system object that was deleted, to be created again."""
        if event.type != DELETED:
            return
        names = SYSTEM_NAMESPACES if resource is NAMESPACES else (_NAME,)
        if event.record.name in names and event.record.namespace in ("", "default"):
            self._queue.add((resource.key, *event.record.key))

    def _restore_system_object(self, key: Key) -> None:
        """Create the system object unless it exists."""
        resource, namespace, name = BY_KEY[key[0]], key[1], key[2]
        if self._registry.store.get(resource, namespace, name) is None and (
            body := self._system_object_body(resource, name)
        ):
            self._registry.create(resource, namespace, body)

    def _system_object_body(self, resource: Resource, name: str) -> Object | None:
        """Make the body of a system object; None: the server's address, which it names, is not known yet."""
        if resource is NAMESPACES:
            return {"metadata": {"name": name}}
        if resource is _SERVICES:
            return _kubernetes_service()
        if self._address is None:
            return None
        host, port = self._address
        ports = [{"name": "https", "port": port, "protocol": "TCP"}]
        if resource is _ENDPOINTS:
            metadata = {"name": name, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}
            return {"metadata": metadata, "subsets": [{"addresses": [{"ip": host}], "ports": ports}]}
        endpoints = [{"addresses": [host], "conditions": {"ready": True}}]
        metadata = {"name": name, "labels": {"kubernetes.io/service-name": name}}
        return {"metadata": metadata, "addressType": "IPv4", "endpoints": endpoints, "ports": ports}
