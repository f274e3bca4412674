"""Which objects a workload owns, kept up to date by events: the controllers' only way to find their pods.

Also here: making a pod from a workload's template, since every workload does it alike.
"""

from __future__ import annotations

import orjson

from trireme.embedded.reconciling import WorkQueue
from trireme.embedded.resources import Resource
from trireme.embedded.store import DELETED, Event, Object, Record, Store

_FEW = 100
_GATHER_SECONDS_EACH = 50e-6
OwnerKey = tuple[str, str]
"""Namespace and name of an owner."""


def controller_of(obj: Object) -> Object | None:
    """The owner reference of the managing controller."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            found: Object = reference
            return found
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


class Children:
    """Index of one resource's objects by the uid of their managing controller."""

    def __init__(self, store: Store, resource: Resource) -> None:
        self._by_owner: dict[str, dict[OwnerKey, Record]] = {}
        self._told: dict[str, list[tuple[WorkQueue[OwnerKey], float]]] = {}
        store.listen(resource, self._on_event)

    def of(self, uid: str) -> list[Record]:
        """The children of the owner of that uid, in order of creation."""
        return list(self._by_owner.get(uid, {}).values())

    def tell(self, kind: str, queue: WorkQueue[OwnerKey], least: float = 0.0) -> None:
        """Queues the owner's key whenever a child of an owner of that kind changes, after `least` seconds or more."""
        self._told.setdefault(kind, []).append((queue, least))

    def _on_event(self, event: Event) -> None:
        reference = controller_of(event.record.object)
        if reference is None:
            return
        children = self._by_owner.setdefault(reference["uid"], {})
        if event.type == DELETED:
            children.pop(event.record.key, None)
            if not children:
                del self._by_owner[reference["uid"]]
        else:
            children[event.record.key] = event.record
        # A look at an owner takes as long as it has children, so the more there are, the more of their changes are
        # gathered for one look.
        gathering = len(children) * _GATHER_SECONDS_EACH if len(children) > _FEW else 0.0
        for queue, least in self._told.get(reference["kind"], ()):
            queue.add((event.record.namespace, reference["name"]), max(least, gathering))


def is_active(pod: Object) -> bool:
    """Whether a pod is neither finished nor going."""
    phase = (pod.get("status") or {}).get("phase")
    return phase not in ("Succeeded", "Failed") and "deletionTimestamp" not in pod["metadata"]


def pod_from(template: Object, owner: Record, *, name: str = "", generate_name: str = "") -> Object:
    """A pod to be created from a template, sharing nothing with it."""
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


def template_hash(template: Object) -> str:
    """A short name for the content of a template, in the alphabet of generated names."""
    alphabet = "bcdf456789vwxz2g"
    value = 0xCBF29CE484222325
    for byte in orjson.dumps(template, option=orjson.OPT_SORT_KEYS):
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return "".join(alphabet[value >> shift & 15] for shift in range(0, 40, 4))
