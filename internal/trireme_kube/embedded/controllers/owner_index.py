"""An index of the objects that each workload owns, updated by events, by which controllers find their pods.

It also makes pods from templates, which is the same for every workload.

Also change: internal/trireme_kube/embedded/controllers/selector_index.py (who indexes owned and selected objects).

Tests: tests/unit/embedded/controllers/test_cron_jobs.py,
    tests/unit/embedded/controllers/test_controller_ref_manager.py.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

import orjson

from trireme_kube.embedded.api import pod_resources
from trireme_kube.embedded.api.resources import Object, Resource
from trireme_kube.embedded.controllers.work_queue import WorkQueue
from trireme_kube.embedded.storage.store import DELETED, Event, Record, Store

_FEW = 100
_GATHER_SECONDS_EACH = 50e-6
K = TypeVar("K")
OwnerKey = tuple[str, str]
"""Namespace and name of an owner."""
_Label = tuple[str, str, str]
"""Namespace, and key and value of a label; both empty for all objects."""


def controller_of(obj: Object) -> Object | None:
    """The owner reference of the managing controller."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            controller: Object = reference
            return controller
    return None


def owner_reference(record: Record) -> Object:
    """The reference by which a controller marks what it creates."""
    return {
        "apiVersion": record.object["apiVersion"],
        "kind": record.object["kind"],
        "name": record.name,
        "uid": record.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


class OwnerIndex:
    """Index of one resource's objects by the uid of their managing controller; those without one by their labels."""

    def __init__(self, store: Store, resource: Resource) -> None:
        self.resource = resource
        self._by_owner: dict[str, dict[OwnerKey, Record]] = {}
        self._orphans: dict[_Label, dict[OwnerKey, Record]] = {}
        self._queues: dict[str, list[tuple[WorkQueue[OwnerKey], float]]] = {}
        self._orphan_listeners: list[Callable[[Record], None]] = []
        store.listen(resource, self._index_written_object)

    def of(self, uid: str) -> list[Record]:
        """The children of the owner with that UID, in order of creation."""
        return list(self._by_owner.get(uid, {}).values())

    def orphans(self, namespace: str, labels: Mapping[str, str]) -> list[Record]:
        """The objects without a managing controller that have one of these labels; all of them if `labels` is empty."""
        keys = [(namespace, key, value) for key, value in labels.items()] or [(namespace, "", "")]
        return list(min((self._orphans.get(key, {}) for key in keys), key=len).values())

    def queue_owner_on_change(self, kind: str, queue: WorkQueue[OwnerKey], least: float = 0.0) -> None:
        """Queue the owner's key whenever a child of an owner of that kind changes, after `least` seconds or more."""
        self._queues.setdefault(kind, []).append((queue, least))

    def listen_to_orphans(self, listener: Callable[[Record], None]) -> None:
        """Call `listener` with each object without a managing controller that appears or changes."""
        self._orphan_listeners.append(listener)

    def _index_written_object(self, event: Event) -> None:
        """Index a written object under its controller, or as an orphan, and queue the controllers concerned."""
        record, before = event.record, event.before
        reference = controller_of(record.object)
        was = controller_of(before.object) if before is not None else None
        if was is not None and (reference is None or was["uid"] != reference["uid"]):
            self._remove_from_index(self._by_owner, was["uid"], record.key)
            self._queue_owner(was, record.namespace)
        if before is not None and was is None:
            for label in _labels_to_index_under(before):
                self._remove_from_index(self._orphans, label, record.key)
        if reference is None:
            self._index_orphan(event)
            return
        if event.type == DELETED:
            self._remove_from_index(self._by_owner, reference["uid"], record.key)
        else:
            self._by_owner.setdefault(reference["uid"], {})[record.key] = record
        self._queue_owner(reference, record.namespace)

    def _index_orphan(self, event: Event) -> None:
        """Index an object without a managing controller, and tell the listeners."""
        if event.type == DELETED:
            return
        for label in _labels_to_index_under(event.record):
            self._orphans.setdefault(label, {})[event.record.key] = event.record
        for listener in self._orphan_listeners:
            listener(event.record)

    @staticmethod
    def _remove_from_index(index: dict[K, dict[OwnerKey, Record]], at: K, key: OwnerKey) -> None:
        """Remove an object from one entry of an index, and the entry if it is empty."""
        records = index.get(at)
        if records is not None:
            records.pop(key, None)
            if not records:
                del index[at]

    def _queue_owner(self, reference: Object, namespace: str) -> None:
        """Queue the owner; one with many children waits a little, so that changes gather."""
        # Syncing an owner takes time in proportion to its children, so the more it has, the more of their changes share
        # one sync.
        count = len(self._by_owner.get(reference["uid"], ()))
        gathering = count * _GATHER_SECONDS_EACH if count > _FEW else 0.0
        for queue, least in self._queues.get(reference["kind"], ()):
            queue.add((namespace, reference["name"]), max(least, gathering))


def _labels_to_index_under(record: Record) -> list[_Label]:
    """Return the labels under which an object without a managing controller is indexed, and one for all of them."""
    labels = record.object["metadata"].get("labels") or {}
    return [(record.namespace, "", ""), *((record.namespace, key, value) for key, value in labels.items())]


def is_active(pod: Object) -> bool:
    """Whether a pod is neither finished nor terminating."""
    return not pod_resources.has_ended(pod) and "deletionTimestamp" not in pod["metadata"]


def pod_from_template(template: Object, owner: Record, *, name: str = "", generate_name: str = "") -> Object:
    """Make a pod from a copy of the template."""
    metadata = template.get("metadata") or {}
    own: Object = {"ownerReferences": [owner_reference(owner)]}
    if name:
        own["name"] = name
    else:
        own["generateName"] = generate_name
    for part in ("labels", "annotations", "finalizers"):
        if metadata.get(part):
            own[part] = metadata[part]
    pod: Object = orjson.loads(orjson.dumps({"metadata": own, "spec": template["spec"]}))
    return pod


def template_hash(template: Object, collisions: int = 0) -> str:
    """A short hash of a template, in the alphabet of generated names; a different one for each collision count."""
    alphabet = "bcdf456789vwxz2g"
    value = 0xCBF29CE484222325
    suffix = str(collisions).encode() if collisions else b""
    for byte in orjson.dumps(template, option=orjson.OPT_SORT_KEYS) + suffix:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return "".join(alphabet[value >> shift & 15] for shift in range(0, 40, 4))
