"""Garbage collection by owner references: dependents are deleted with, before, or without their owner.

Background: once the owner is gone, dependents without another owner are deleted. Foreground: the owner stays, marked by
a finalizer, until its dependents are gone. Orphan: the references to it are removed first, then it is deleted. An
object created under an owner that no longer exists is collected too, as in the real collector.

Source: k8s.io/kubernetes, pkg/controller/garbagecollector.

Tests: tests/unit/embedded/controllers/test_controllers.py.
"""

from collections.abc import Callable

from trireme_kube.embedded.api import api_errors
from trireme_kube.embedded.api.resources import Object, Resource
from trireme_kube.embedded.controllers.work_queue import WorkQueue
from trireme_kube.embedded.registry.registry import FOREGROUND, ORPHAN, Registry
from trireme_kube.embedded.storage.store import ADDED, DELETED, Event, Record

Key = tuple[Resource, str, str]
"""Resource, namespace, name."""


def _owner_references(obj: Object) -> list[Object]:
    return obj["metadata"].get("ownerReferences") or []


class GarbageCollector:
    """Deletes objects whose owners are gone, and has foreground deletion wait for dependents."""

    def __init__(self, registry: Registry, monotonic: Callable[[], float]) -> None:
        self._registry = registry
        self._store = registry.store
        self._dependents: dict[str, dict[Key, None]] = {}
        self._orphans: WorkQueue[Key] = WorkQueue("garbage collector", self._delete_or_remove_owners, monotonic)
        self._closing: WorkQueue[str] = WorkQueue("garbage collector (owners)", self._finish_owner_deletion, monotonic)
        self.queues = (self._orphans, self._closing)
        registry.store.listen_to_all(self._follow_object)

    def _follow_object(self, resource: Resource, event: Event) -> None:
        """Index a written object under its owners.

        Queue it if an owner is gone, its dependents if it was deleted, and itself as an owner whose deletion waits.
        """
        record = event.record
        metadata = record.object["metadata"]
        owners = metadata.get("ownerReferences")
        if owners or (event.before is not None and _owner_references(event.before.object)):
            self._update_index(resource, event)
        if event.type == DELETED:
            for key in self._dependents.get(record.uid, ()):
                self._orphans.add(key)
            return
        if "deletionTimestamp" in metadata and metadata.get("finalizers"):
            self._closing.add(record.uid)
        if event.type == ADDED and owners and any(self._store.by_uid(one["uid"]) is None for one in owners):
            self._orphans.add((resource, *record.key))

    def _update_index(self, resource: Resource, event: Event) -> None:
        """Index the object under its owners' UIDs; queue owners whose last dependent is gone."""
        key: Key = (resource, *event.record.key)
        now = {one["uid"] for one in _owner_references(event.record.object)} if event.type != DELETED else set()
        was = {one["uid"] for one in _owner_references(event.before.object)} if event.before is not None else set()
        for uid in was - now:
            dependents = self._dependents.get(uid, {})
            dependents.pop(key, None)
            if not dependents:
                self._dependents.pop(uid, None)
            self._closing.add(uid)
        for uid in now - was:
            self._dependents.setdefault(uid, {})[key] = None

    def _find_object(self, key: Key) -> tuple[Resource, Record] | None:
        """Find the object; None if it is gone."""
        record = self._store.get(*key)
        return (key[0], record) if record is not None else None

    def _delete_or_remove_owners(self, key: Key) -> None:
        """Delete an object whose owners are all deleted; else remove its references to deleted owners."""
        entry = self._find_object(key)
        if entry is None:
            return
        resource, record = entry
        owners = _owner_references(record.object)
        living = [one for one in owners if self._store.by_uid(one["uid"]) is not None]
        if not owners or len(living) == len(owners):
            return
        if living:
            self._registry.update_metadata(resource, record, "ownerReferences", living)
            return
        options = {"propagationPolicy": "Background", "preconditions": {"uid": record.uid}}
        finalizers = record.object["metadata"].get("finalizers") or ()
        if FOREGROUND in finalizers:
            options["propagationPolicy"] = "Foreground"
        self._registry.delete(resource, *record.key, options)

    def _finish_owner_deletion(self, uid: str) -> None:
        """Continue the deletion of an owner that waits for its dependents."""
        entry = self._store.by_uid(uid)
        if entry is None:
            return
        record = entry[1]
        finalizers = record.object["metadata"].get("finalizers") or ()
        if "deletionTimestamp" not in record.object["metadata"]:
            return
        if ORPHAN in finalizers:
            self._orphan_dependents(uid)
            self._remove_finalizer(uid, ORPHAN)
        elif FOREGROUND in finalizers and not self._delete_dependents(uid):
            self._remove_finalizer(uid, FOREGROUND)

    def _orphan_dependents(self, uid: str) -> None:
        """Remove the reference to this owner from all its dependents."""
        for key in list(self._dependents.get(uid, ())):
            entry = self._find_object(key)
            if entry is not None:
                others = [one for one in _owner_references(entry[1].object) if one["uid"] != uid]
                self._registry.update_metadata(*entry, "ownerReferences", others)

    def _delete_dependents(self, uid: str) -> int:
        """Delete the dependents that block their owner; return how many still do."""
        blocking = 0
        for key in list(self._dependents.get(uid, ())):
            entry = self._find_object(key)
            if entry is None:
                continue
            resource, record = entry
            blocking += any(
                one["uid"] == uid and one.get("blockOwnerDeletion") for one in _owner_references(record.object)
            )
            if "deletionTimestamp" not in record.object["metadata"]:
                options = {"propagationPolicy": "Foreground", "preconditions": {"uid": record.uid}}
                try:
                    _, deleted = self._registry.delete(resource, *record.key, options)
                except api_errors.ApiError:
                    continue
                blocking -= deleted
        return blocking

    def _remove_finalizer(self, uid: str, finalizer: str) -> None:
        """Remove a finalizer from the object with that UID, which may be gone."""
        if (entry := self._store.by_uid(uid)) is not None:
            self._registry.remove_finalizer(*entry, finalizer)
