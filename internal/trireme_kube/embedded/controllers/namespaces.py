"""Deleting a namespace: first everything in it, then the namespace itself.

Source: k8s.io/kubernetes, pkg/controller/namespace.

Tests: tests/unit/embedded/controllers/test_system_objects.py.
"""

from collections.abc import Callable

from trireme_kube.embedded.api.resources import NAMESPACES, Resource
from trireme_kube.embedded.controllers.work_queue import WorkQueue
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.storage.store import DELETED, Event


class NamespaceController:
    """Empties namespaces that are being deleted."""

    def __init__(self, registry: Registry, monotonic: Callable[[], float]) -> None:
        self._registry = registry
        self._ending: set[str] = set()
        self._queue: WorkQueue[str] = WorkQueue("namespaces", self._empty_and_release_namespace, monotonic)
        self.queues = (self._queue,)
        registry.store.listen_to_all(self._on_object_or_namespace)

    def _on_object_or_namespace(self, resource: Resource, event: Event) -> None:
        """Queue a namespace that begins to be deleted, and again at each write of an object in it."""
        if resource is NAMESPACES:
            if event.type == DELETED:
                self._ending.discard(event.record.name)
            elif "deletionTimestamp" in event.record.object["metadata"]:
                self._ending.add(event.record.name)
                self._queue.add(event.record.name)
        elif self._ending and event.record.namespace in self._ending:
            self._queue.add(event.record.namespace)

    def _empty_and_release_namespace(self, name: str) -> None:
        """Delete all objects in a namespace that is being deleted; once it is empty, release the namespace."""
        record = self._registry.store.get(NAMESPACES, "", name)
        if record is None or name not in self._ending:
            return
        remaining = 0
        for resource in self._registry.catalog.stored_in_namespaces():
            for one in self._registry.store.scan(resource, name):
                remaining += 1
                if "deletionTimestamp" not in one.object["metadata"]:
                    _, deleted = self._registry.delete(resource, *one.key, {"propagationPolicy": "Background"})
                    remaining -= deleted
        if remaining:
            return
        spec = {**record.object["spec"], "finalizers": []}
        self._registry.update_fields(NAMESPACES, record, spec=spec)
