"""Events of nodes and of all other objects but pods.

Tests: tests/unit/scheduling/test_event_handlers.py.
"""

from collections.abc import Callable, Sequence
from typing import Any

from trireme.cache import cluster_cache, event_log, object_kinds
from trireme.framework import cluster_event
from trireme.scheduling import relists
from trireme.scheduling.queue_notifier import QueueNotifier
from trireme.v1 import core_pb2, resource_pb2, snapshot_pb2
from trireme_kube.client.informers.watch import Event, EventKind

ActionType = cluster_event.ActionType

# Kinds of object that the queue receives too: groups of pods.
_GROUPS = ("pod_group", "composite_pod_group")


class ObjectEventHandlers:
    """Applies events of objects to the cache, and notifies the queue."""

    def __init__(
        self,
        cache: cluster_cache.ClusterCache,
        notifier: QueueNotifier,
        json_of: Callable[[core_pb2.Node], bytes],
        *,
        reclassify: Callable[[], None],
    ) -> None:
        """`json_of` answers the JSON of a node that extenders want, once.

        `reclassify` gives pods other classes, if an object selects pods by more label keys than were read before.
        """
        self._cache = cache
        self._registry = cache.registry
        self._notifier = notifier
        self._json_of = json_of
        self._reclassify = reclassify
        self._relists = relists.RelistTracker()

    def on_nodes(self, events: Sequence[Event[core_pb2.Node]]) -> None:
        """Nodes were listed, added, changed or deleted."""
        for kind, node in events:
            json = b"" if node is None else self._json_of(node)
            if node is None:
                self._relists.on_list_marker(kind, "nodes", lambda: set(self._cache.node_names()), self._remove_node)
            elif kind == EventKind.DELETED:
                self._remove_node(node.metadata.name)
            else:
                if kind == EventKind.LISTED:
                    self._relists.add("nodes", node.metadata.name)
                self._set_node(node, json)

    def _set_node(self, node: core_pb2.Node, json: bytes) -> None:
        """Store a node that the informer shows, and notify the queue of it, or of each way in which it changed."""
        changed, before = self._cache.set_node(node, json)
        if not changed:
            return
        event_log.node_changed(before, node)
        if before is None:
            self._notifier.notify_of_event(cluster_event.NODE_ADD, None, node)
            return
        for event in cluster_event.node_update_events(before, node):
            self._notifier.notify_of_event(event, before, node)

    def _remove_node(self, name: str) -> None:
        """Remove a deleted node, and notify the queue."""
        before = self._cache.remove_node(name)
        if before is not None:
            event_log.node_deleted(before)
            self._notifier.notify_of_event(
                cluster_event.event(cluster_event.Resource.NODE, ActionType.DELETE), before, None
            )

    def on_objects(self, kind: object_kinds.ObjectKind, events: Sequence[Event[Any]]) -> None:
        """Apply events of objects of one kind: each is stored or removed, and the queue is notified of what changed.

        At the end of a list, what was known and is not in it counts as deleted. Raises nothing for an event that comes
        late.
        """
        for event_kind, entry in events:
            if entry is None:
                self._relists.on_list_marker(
                    event_kind,
                    kind.field,
                    lambda: self._cache.object_keys(kind.field),
                    lambda key: self._remove_object(kind, key),
                )
                continue
            key = (entry.metadata.namespace, entry.metadata.name)
            if event_kind == EventKind.DELETED:
                self._remove_object(kind, key)
                continue
            if event_kind == EventKind.LISTED:
                self._relists.add(kind.field, key)
            self._set_object(kind, key, entry)
        self._reclassify()

    def _set_object(self, kind: object_kinds.ObjectKind, key: tuple[str, str], entry: Any) -> None:
        """Store an object that the informer shows, and notify the queue if it differs from what the queue knows.

        Older versions, and what is equal to what is stored, change nothing. An update of a claim that only shows what
        the scheduler assumed is stored without an event.
        """
        known = self._cache.get_object(kind.field, *key)
        before = None if known is None else getattr(known, kind.field)
        if before == entry or (before is not None and cluster_cache.is_older_version(before, entry)):
            return
        if before is not None and kind.field in _GROUPS and before.metadata.uid != entry.metadata.uid:
            # It was deleted and made again while the watch was interrupted.
            self._remove_object(kind, key)
            before = None
        notified = self._last_notified(kind, key)
        self._registry.add_selector_keys(kind.selected_keys(entry))
        changed = snapshot_pb2.ClusterObject()
        getattr(changed, kind.field).CopyFrom(entry)
        self._cache.set_object(changed)
        if kind.field in _GROUPS:
            self._notifier.set_group(entry)
        if kind.event == cluster_event.Resource.RESOURCE_CLAIM:
            # The queue was notified of the scheduler's own allocations when they were assumed.
            before, entry = notified, self._last_notified(kind, key)
        if kind.event and before != entry:
            action = ActionType.ADD if before is None else ActionType.UPDATE
            self._notifier.notify_of_event(cluster_event.event(kind.event, action), before, entry)
        elif kind.message is resource_pb2.DeviceTaintRule and before is not None and before.spec != entry.spec:
            self._notify_of_taint_rule(before)

    def _remove_object(self, kind: object_kinds.ObjectKind, key: tuple[str, str]) -> None:
        """Remove a deleted object, and notify the queue."""
        known = self._cache.get_object(kind.field, *key)
        if known is None:
            return
        before = self._last_notified(kind, key)
        self._cache.remove_object(kind.field, *key)
        if kind.field in _GROUPS:
            uid = getattr(known, kind.field).metadata.uid
            composite = kind.field != _GROUPS[0]
            self._notifier.remove_group("/".join(key), uid, composite=composite)
        if kind.event:
            self._notifier.notify_of_event(cluster_event.event(kind.event, ActionType.DELETE), before, None)
        elif kind.message is resource_pb2.DeviceTaintRule:
            self._notify_of_taint_rule(known.device_taint_rule)

    def _last_notified(self, kind: object_kinds.ObjectKind, key: tuple[str, str]) -> Any:
        """The object as the queue was last notified of it: as it is assumed to be."""
        known = self._cache.get_assumed(kind.field, *key)
        return None if known is None else getattr(known, kind.field)

    def _notify_of_taint_rule(self, rule: resource_pb2.DeviceTaintRule) -> None:
        """Devices may have lost the taint that the rule put on them: notify as if their slices had changed."""
        selector = rule.spec.device_selector
        if not rule.spec.HasField("device_selector"):
            return
        event = cluster_event.event(cluster_event.Resource.RESOURCE_SLICE, ActionType.UPDATE)
        for key in sorted(self._cache.object_keys("resource_slice")):
            found = self._cache.get_object("resource_slice", *key)
            assert found is not None  # its key is that of an object
            if _may_select_devices_of(selector, found.resource_slice):
                self._notifier.notify_of_event(event, found.resource_slice, found.resource_slice)


def _may_select_devices_of(selector: resource_pb2.DeviceTaintSelector, entry: resource_pb2.ResourceSlice) -> bool:
    """Whether the selector may be about devices of the slice."""
    spec = entry.spec
    if selector.HasField("driver") and selector.driver != spec.driver:
        return False
    if selector.HasField("pool") and selector.pool != spec.pool.name:
        return False
    return not selector.HasField("device") or any(device.name == selector.device for device in spec.devices)
