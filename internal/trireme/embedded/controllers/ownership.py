"""Adoption and release: a workload owns what its selector matches, as far as nobody else owns it.

Each controller claims before it counts: an object without a managing controller that the selector matches becomes the
workload's, and one of its own that the selector no longer matches is let go. Both sides are indexed by a label, so that
an object without an owner finds the workloads that might want it, and a workload such objects, without a search.
Source: k8s.io/kubernetes, pkg/controller/controller_ref_manager.go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from trireme.embedded import selection
from trireme.embedded.controllers.children import Children, OwnerKey, is_active, owner_reference
from trireme.embedded.reconciling import WorkQueue
from trireme.embedded.registry import Registry
from trireme.embedded.resources import Resource
from trireme.embedded.store import DELETED, Event, Object, Record

_Label = tuple[str, str, str]
"""Namespace, and key and value of a label; both empty for selectors without labels."""


def selector_of(obj: Object) -> Object:
    """A workload's selector; the plain map of labels of a ReplicationController as one."""
    selector: Object = (obj.get("spec") or {}).get("selector") or {}
    if obj["kind"] == "ReplicationController":
        return {"matchLabels": selector}
    return selector


@dataclass(slots=True)
class _Owner:
    """What is known of a workload."""

    selector: Object
    matches: selection.LabelPredicate = field(init=False)

    def __post_init__(self) -> None:
        # An empty selector selects nothing: a workload that took every pod would be no use to anybody.
        empty = not self.selector.get("matchLabels") and not self.selector.get("matchExpressions")
        self.matches = (lambda labels: False) if empty else selection.compile_selector(self.selector)

    def label(self, namespace: str) -> _Label:
        """Under which the workload is found."""
        labels = self.selector.get("matchLabels") or {}
        key = min(labels, default="")
        return (namespace, key, labels.get(key, ""))


class Ownership:
    """Whose children the objects of one kind are, for one kind of workload."""

    def __init__(
        self,
        registry: Registry,
        owners: Resource,
        children: Children,
        queue: WorkQueue[OwnerKey],
        may_adopt: Callable[[Record, Record], bool] = lambda owner, child: is_active(child.object),
    ) -> None:
        """`may_adopt` says of an owner and an object that its selector matches whether it takes it."""
        self._registry = registry
        self._resource = owners
        self._children = children
        self._queue = queue
        self._may_adopt = may_adopt
        self._owners: dict[OwnerKey, _Owner] = {}
        self._by_label: dict[_Label, dict[OwnerKey, _Owner]] = {}
        registry.store.listen(owners, self._on_owner)
        children.listen_to_orphans(self._on_orphan)

    def _on_owner(self, event: Event) -> None:
        key, namespace = event.record.key, event.record.namespace
        known = self._owners.get(key)
        selector = selector_of(event.record.object)
        if event.type != DELETED and known is not None and known.selector == selector:
            return
        if known is not None:
            label = known.label(namespace)
            found = self._by_label[label]
            del found[key], self._owners[key]
            if not found:
                del self._by_label[label]
        if event.type != DELETED:
            owner = self._owners[key] = _Owner(selector)
            self._by_label.setdefault(owner.label(namespace), {})[key] = owner

    def _on_orphan(self, record: Record) -> None:
        """Wakes the workloads that might adopt an object."""
        if not self._owners:
            return
        labels = record.object["metadata"].get("labels") or {}
        for label in ("", ""), *labels.items():
            for key, owner in self._by_label.get((record.namespace, *label), {}).items():
                if owner.matches(labels):
                    self._queue.add(key)

    def claim(self, owner: Record) -> list[Record]:
        """The children, after those that do not belong were released and those that do were adopted."""
        known = self._owners.get(owner.key)
        if known is None or "deletionTimestamp" in owner.object["metadata"]:
            return self._children.of(owner.uid)
        for child in self._children.of(owner.uid):
            if not known.matches(child.object["metadata"].get("labels") or {}):
                self._release(child, owner.uid)
        labels: Object = known.selector.get("matchLabels") or {}
        for child in self._children.orphans(owner.namespace, labels):
            metadata = child.object["metadata"]
            wanted = known.matches(metadata.get("labels") or {}) and "deletionTimestamp" not in metadata
            if wanted and self._may_adopt(owner, child):
                self._adopt(child, owner)
        return self._children.of(owner.uid)

    def _adopt(self, child: Record, owner: Record) -> None:
        references = child.object["metadata"].get("ownerReferences") or []
        others = [one for one in references if one["uid"] != owner.uid]
        self._write(child, [*others, owner_reference(owner)])

    def _release(self, child: Record, uid: str) -> None:
        references = child.object["metadata"].get("ownerReferences") or []
        self._write(child, [one for one in references if one["uid"] != uid])

    def _write(self, child: Record, references: list[Object]) -> None:
        metadata = dict(child.object["metadata"])
        metadata.pop("ownerReferences", None)
        if references:
            metadata["ownerReferences"] = references
        self._registry.store_changed(self._children.resource, child, {**child.object, "metadata": metadata})
