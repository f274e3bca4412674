"""CustomResourceDefinitions: served once their names are accepted, and emptied before they are deleted.

Source: k8s.io/apiextensions-apiserver, pkg/controller/establish, .../status and .../finalizer.
"""

from collections.abc import Callable

from trireme_kube.embedded.api import custom_resource_definitions
from trireme_kube.embedded.api.custom_resource_definitions import CLEANUP, DEFINITIONS
from trireme_kube.embedded.api.resources import Object, Resource
from trireme_kube.embedded.controllers.work_queue import WorkQueue
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.registry.subresources import with_condition
from trireme_kube.embedded.storage.store import DELETED, Event, Record


class CustomResourceController:
    """Updates the catalog from the definitions."""

    def __init__(self, registry: Registry, monotonic: Callable[[], float]) -> None:
        self._registry = registry
        self._storage: dict[str, Resource] = {}
        """By name of the definition."""
        self._specs: dict[str, Object] = {}
        """What is served now, by name of the definition."""
        self._queue: WorkQueue[str] = WorkQueue("custom resources", self._sync_definition, monotonic)
        self.queues = (self._queue,)
        registry.store.listen(DEFINITIONS, self._on_definition)
        registry.store.listen_to_all(self._on_custom_object)

    def _on_definition(self, event: Event) -> None:
        """Queue a definition that was created, changed or deleted."""
        self._queue.add(event.record.name)

    def _on_custom_object(self, resource: Resource, event: Event) -> None:
        """Queue the definition of a custom object that was deleted: one that is being deleted waits for the last."""
        if event.type == DELETED and resource.custom:
            self._queue.add(resource.key)

    def _sync_definition(self, name: str) -> None:
        """Serve a definition, or end serving it if it is deleted."""
        record = self._registry.store.get(DEFINITIONS, "", name)
        if record is None:
            self._stop_serving(name)
        elif "deletionTimestamp" in record.object["metadata"]:
            self._finalize_definition(record)
        else:
            self._serve_definition(record)

    def _stop_serving(self, name: str) -> None:
        if self._specs.pop(name, None) is not None:
            self._registry.catalog.replace(name, ())
            del self._storage[name]

    def _finalize_definition(self, record: Record) -> None:
        """Delete the objects of a definition that is being deleted; once there are none, take off its finalizer."""
        storage = self._storage.get(record.name)
        if storage is not None:
            for one in self._registry.store.scan(storage):
                if "deletionTimestamp" not in one.object["metadata"]:
                    self._registry.delete(storage, *one.key, {"propagationPolicy": "Background"})
            if self._registry.store.count(storage):
                return
        fresh = self._registry.get(DEFINITIONS, "", record.name)
        self._registry.remove_finalizer(DEFINITIONS, fresh, CLEANUP)

    def _serve_definition(self, record: Record) -> None:
        """Put the definition's resources into the catalog unless its names conflict, and write its status."""
        conflict = self._name_conflict(record)
        spec = record.object["spec"]
        if not conflict and self._specs.get(record.name) != spec:
            storage = self._storage.get(record.name) or custom_resource_definitions.storage_resource(record.object)
            self._storage[record.name] = storage
            self._specs[record.name] = spec
            self._registry.catalog.replace(
                record.name, custom_resource_definitions.served_resources(record.object, storage)
            )
        self._update_status(record, conflict)

    def _name_conflict(self, record: Record) -> str:
        """The name that another definition of the group has, or a built-in resource; empty if there is none."""
        spec = record.object["spec"]
        for one in self._registry.catalog.resources():
            if one.group != spec["group"] or one.key == record.name:
                continue
            if one.kind == spec["names"]["kind"]:
                return f'"{one.kind}" is already in use'
        if self._registry.catalog.fixed_group(spec["group"]):
            return f'the group "{spec["group"]}" is served by the cluster itself'
        return ""

    def _update_status(self, record: Record, conflict: str) -> None:
        """Write the conditions and names; `conflict` says why the names are not accepted, empty: they are."""
        obj, now = record.object, self._registry.clock_and_ids.now()
        status = dict(obj.get("status") or {})
        accepted: Object = {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts"}
        accepted["message"] = "no conflicts found"
        established: Object = {"type": "Established", "status": "True", "reason": "InitialNamesAccepted"}
        established["message"] = "the initial names have been accepted"
        if conflict:
            accepted |= {"status": "False", "reason": "KindConflict", "message": conflict}
            established |= {"status": "False", "reason": "NotAccepted", "message": "not all names are accepted"}
        conditions = status.get("conditions")
        for condition in (accepted, established):
            conditions = with_condition(conditions, condition, now)
        stored = next(one["name"] for one in obj["spec"]["versions"] if one["storage"])
        versions = status.get("storedVersions") or []
        status["conditions"] = conditions
        status["acceptedNames"] = {"plural": "", "kind": ""} if conflict else obj["spec"]["names"]
        status["storedVersions"] = versions if stored in versions else [*versions, stored]
        status["observedGeneration"] = obj["metadata"].get("generation", 1)
        self._registry.update_fields(DEFINITIONS, record, status=status)
