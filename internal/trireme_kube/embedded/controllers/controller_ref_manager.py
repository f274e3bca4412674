"""Adoption and release: a workload owns the objects that its selector matches and nobody else owns.

Each controller claims before it counts: an object without a managing controller that the selector matches is adopted,
and a child that the selector no longer matches is released. Both sides are indexed by a label, so that neither an
orphan nor a workload has to scan for the other.

Source: k8s.io/kubernetes, pkg/controller/controller_ref_manager.go.
"""

from collections.abc import Callable

from trireme_kube.embedded.api.resources import Object, Resource
from trireme_kube.embedded.controllers.owner_index import OwnerIndex, OwnerKey, is_active, owner_reference
from trireme_kube.embedded.controllers.selector_index import SelectorIndex
from trireme_kube.embedded.controllers.work_queue import WorkQueue
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.storage.store import Record


def selector_of(obj: Object) -> Object:
    """A workload's selector; a ReplicationController's label map is converted to one."""
    selector: Object = (obj.get("spec") or {}).get("selector") or {}
    if obj["kind"] == "ReplicationController":
        return {"matchLabels": selector}
    return selector


class ControllerRefManager:
    """Adoption and release of one kind of object by one kind of workload."""

    def __init__(
        self,
        registry: Registry,
        owners: Resource,
        children: OwnerIndex,
        queue: WorkQueue[OwnerKey],
        may_adopt: Callable[[Record, Record], bool] = lambda owner, child: is_active(child.object),
    ) -> None:
        """`may_adopt` returns whether an owner adopts an object that its selector matches."""
        self._registry = registry
        self._children = children
        self._queue = queue
        self._may_adopt = may_adopt
        self._owners = SelectorIndex(registry.store, owners, selector_of)
        children.listen_to_orphans(self._queue_possible_adopters)

    def _queue_possible_adopters(self, record: Record) -> None:
        """Queue the workloads that may adopt an object."""
        if self._owners:
            for key in self._owners.selecting(record.namespace, record.object["metadata"].get("labels") or {}):
                self._queue.add(key)

    def claim_objects(self, owner: Record) -> list[Record]:
        """Release children that no longer match, adopt orphans that do, and return the children."""
        current = self._owners.get(owner.key)
        if current is None or "deletionTimestamp" in owner.object["metadata"]:
            return self._children.of(owner.uid)
        for child in self._children.of(owner.uid):
            if not current.matches(child.object["metadata"].get("labels") or {}):
                self._remove_owner_reference(child, owner.uid)
        labels: Object = current.selector.get("matchLabels") or {}
        for child in self._children.orphans(owner.namespace, labels):
            metadata = child.object["metadata"]
            should_own = current.matches(metadata.get("labels") or {}) and "deletionTimestamp" not in metadata
            if should_own and self._may_adopt(owner, child):
                self._adopt_child(child, owner)
        return self._children.of(owner.uid)

    def _adopt_child(self, child: Record, owner: Record) -> None:
        others = _owner_references_except(child, owner.uid)
        references = [*others, owner_reference(owner)]
        self._registry.update_metadata(self._children.resource, child, "ownerReferences", references)

    def _remove_owner_reference(self, child: Record, uid: str) -> None:
        others = _owner_references_except(child, uid)
        self._registry.update_metadata(self._children.resource, child, "ownerReferences", others)


def _owner_references_except(child: Record, uid: str) -> list[Object]:
    return [one for one in child.object["metadata"].get("ownerReferences") or () if one["uid"] != uid]
