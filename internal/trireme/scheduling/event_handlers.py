"""What informers say, turned into changes of the cache and stimuli of the queue.

Pure: the informers call it with events in order, it neither waits nor calls anyone. Each pod is either placed (in the
cache) or pending (in the queue, or in flight and perhaps assumed); an event moves it from one to the other. A list that
had to be started over may leave out objects that are gone: they are dropped when it ends. What is told late, of an
object that is known as it was afterwards, is passed over.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from trireme.cache import (
    assumed_objects,
    class_registry,
    cluster_cache,
    event_log,
    label_keys,
    object_kinds,
    pod_projection,
)
from trireme.cache.pod_projection import ParsedPod
from trireme.framework import cluster_event
from trireme.queueing import pod_info, remote_calls, scheduling_queue
from trireme.queueing.pending_pod import PendingPod
from trireme.queueing.transition_log import BOUND, DELETED
from trireme.scheduling import ports
from trireme.v1 import core_pb2, resource_pb2, scheduling_pb2, snapshot_pb2
from trireme_kube.client.watch import Event, EventKind

ActionType = cluster_event.ActionType

# Kinds of object that the queue hears of too: of pods, and of such groups.
_GROUPS = ("pod_group", "composite_pod_group")

# As metrics call these changes.
_POD_UPDATE = cluster_event.event(cluster_event.Resource.UNSCHEDULED_POD, ActionType.UPDATE).label
_POD_DELETE = cluster_event.event(cluster_event.Resource.UNSCHEDULED_POD, ActionType.DELETE).label
_PLACED_POD_UPDATE = cluster_event.event(cluster_event.Resource.ASSIGNED_POD, ActionType.UPDATE).label


class PodInEvent(NamedTuple):
    """A pod as queueing hints see it: its class's fields, and what is its own."""

    pod: core_pb2.Pod
    key: str
    uid: str
    node_name: str
    nominated_node: str


class GroupWatcher(Protocol):
    """Who hears of pod groups, and of their members that have a node."""

    def member_placed(self, key: str, uid: str, now: float) -> remote_calls.Instructions:
        """A member of the group (namespace/name) is on a node; may be said again."""

    def member_removed(self, uid: str, now: float) -> remote_calls.Instructions:
        """A pod that was on a node is gone; it need not be anybody's member."""

    def set_group(
        self, group: scheduling_pb2.PodGroup | scheduling_pb2.CompositePodGroup, now: float
    ) -> remote_calls.Instructions:
        """The PodGroup or CompositePodGroup is this from now on."""

    def remove_group(self, key: str, uid: str, now: float, *, composite: bool = False) -> remote_calls.Instructions:
        """The PodGroup or CompositePodGroup (namespace/name, UID) is gone."""


class EventHandlers:
    """The consumer of all informers."""

    def __init__(
        self,
        cache: cluster_cache.ClusterCache,
        queue: scheduling_queue.SchedulingQueue,
        profiles: frozenset[str],
        now: Callable[[], float],
        execute: Callable[[remote_calls.Instructions], None],
        deleted: Callable[[str], None],
        observer: ports.Observer,
        groups: "GroupWatcher | None" = None,
        json_of: Callable[[core_pb2.Node], bytes] = lambda node: b"",
    ) -> None:
        """`execute` gets what the queue wants done; `deleted` the UID of each pending pod that is gone; `groups`
        hears of pod groups, where there are any; `json_of` answers the JSON of a node that plugins want, once.
        """
        self._cache = cache
        self._registry = cache.registry
        self._queue = queue
        self.profiles = profiles
        self._now = now
        self._execute = execute
        self._deleted = deleted
        self._groups = groups
        self._observer = observer
        self._clock = observer.clock
        self._json_of = json_of
        self._pending: dict[str, PendingPod] = {}
        self._label_keys = label_keys.LabelKeys()  # of these, and of pods whose resize is deferred
        # Pending pods that another scheduler is responsible for, by UID: namespace/name and spec.schedulerName.
        self._foreign: dict[str, tuple[str, str]] = {}
        # Pods that run and wait for room for a resize, which are in the queue, too.
        self._resized: dict[str, PendingPod] = {}
        self._listed: dict[str, set[Any]] = {}

    def pending(self, uid: str) -> PendingPod | None:
        """The pending pod of this UID, assumed or not."""
        return self._pending.get(uid)

    def scheduler_of(self, key: str) -> str:
        """The other scheduler that is responsible for a pending pod (namespace/name); empty: there is no such pod."""
        return next((scheduler for name, scheduler in self._foreign.values() if name == key), "")

    def version_of(self, uid: str) -> str:
        """The resourceVersion at which the pod was seen last; empty: it is not to be seen."""
        pending, placed = self._pending.get(uid), self._cache.pod(uid)
        if pending is not None:
            return str(pending.parsed.resource_version)
        return str(placed.version) if placed is not None and placed.version else ""

    # Pods

    def on_pods(self, events: Sequence[Event[ParsedPod]]) -> None:
        """Pods were listed, added, changed or deleted."""
        logged = event_log.enabled()
        listed = self._listed.get("pods", set())
        for kind, parsed in events:
            if logged and parsed is not None:
                self._log_pod(kind, parsed)
            if parsed is None:
                self._on_list(kind, "pods", self._known_pods, self._drop_pod)
                listed = self._listed.get("pods", set())
            elif kind is EventKind.DELETED:
                self._drop_pod(parsed.uid)
            else:
                if kind is EventKind.LISTED:
                    listed.add(parsed.uid)
                self._set_pod(parsed)
        self._intern_again()

    def _log_pod(self, kind: EventKind, parsed: ParsedPod) -> None:
        pending, placed = parsed.uid in self._pending, self._cache.pod(parsed.uid)
        if kind == EventKind.DELETED:
            if pending or placed is not None:
                event_log.pod_deleted(parsed.key, pending)
        elif parsed.node_name or parsed.scheduler_name in self.profiles:
            event_log.pod_changed(
                parsed.key, bool(parsed.node_name), pending, placed is not None and not placed.assumed
            )

    def _known_pods(self) -> set[Any]:
        return {pod.uid for pod in self._cache.pods() if not pod.assumed} | set(self._pending) | set(self._foreign)

    def _set_pod(self, parsed: ParsedPod) -> None:
        if not parsed.node_name:
            if parsed.scheduler_name in self.profiles:
                self._set_pending(parsed)
            else:
                self._foreign[parsed.uid] = parsed.key, parsed.scheduler_name
            return
        self._foreign.pop(parsed.uid, None)
        known = self._cache.pod(parsed.uid)
        if known is not None and known.version > parsed.resource_version:
            return
        if parsed.group and self._groups is not None:
            self._execute(self._groups.member_placed(f"{parsed.namespace}/{parsed.group}", parsed.uid, self._now()))
        if parsed.uid in self._pending:
            self._leave_pending(parsed)
        try:
            base = self._registry.base_of(parsed.base)
        except class_registry.InvalidPod:
            # It is there all the same; what it asks for cannot be read, so it counts as a pod that asks for nothing.
            base = self._registry.base_of(pod_projection.base_of_nothing(parsed.namespace))
        class_id = self._registry.intern(base, parsed.labels)
        if self._registry.keep_deferred:
            self._set_resized(parsed)
        started = self._clock()
        was_assumed = known is None or known.assumed
        before = None if known is None else self._registry[known.class_id].pod
        self._cache.set_pod(parsed, class_id, base)
        if was_assumed or before is None:
            if self._queue.listens():
                self._tell(cluster_event.ASSIGNED_POD_ADD, None, self._in_event(self._registry[class_id].pod, parsed))
            else:
                self._observer.event_ignored(cluster_event.ASSIGNED_POD_ADD.label)
            return
        after = self._registry[class_id].pod
        self._observer.event_handled(_PLACED_POD_UPDATE, started)
        if before is not after:
            for changed in self._pod_events(before, after, target=False):
                event = cluster_event.event(cluster_event.Resource.ASSIGNED_POD, changed.action)
                self._tell(event, self._in_event(before, parsed), self._in_event(after, parsed))

    def _set_pending(self, parsed: ParsedPod) -> None:
        pending = self._pending.get(parsed.uid)
        if pending is not None:
            if pending.parsed.resource_version > parsed.resource_version:
                return
            if pending.parsed.resource_version == parsed.resource_version:
                self._read_again(pending, parsed)
                return
        elif self._cache.pod(parsed.uid) is not None:
            # It is told late: a pod that has a node keeps it.
            return
        new = self._intern(parsed)
        self._pending[parsed.uid] = new
        self._index_labels(parsed, pending)
        record = self._record(new)
        if pending is None:
            self._add_to_queue(record)
            return
        events: list[cluster_event.ClusterEvent] = []
        old_object = new_object = None
        if pending.class_id and new.class_id:
            old_object = self._in_event(self._registry[pending.class_id].pod, pending.parsed)
            new_object = self._in_event(self._registry[new.class_id].pod, parsed)
            events = self._pod_events(old_object.pod, new_object.pod, target=True)
        self._update_in_queue(record, events, old_object, new_object)
        if pending.parsed.nominated_node and pending.parsed.nominated_node != parsed.nominated_node:
            self._nomination_gone(pending)
        if pending.class_id:
            self._registry.release(pending.class_id)

    def _pod_events(self, old: core_pb2.Pod, new: core_pb2.Pod, *, target: bool) -> list[cluster_event.ClusterEvent]:
        return cluster_event.pod_update_events(old, new, target=target, rules=self._registry.rules)

    def _set_resized(self, parsed: ParsedPod) -> None:
        """The pod runs; where a resize of it is deferred, room for that is looked for.

        Source: pkg/scheduler/eventhandlers.go (updatePod).
        """
        known = self._resized.get(parsed.uid)
        if not parsed.deferred or parsed.scheduler_name not in self.profiles:
            if known is not None:
                self._leave_resized(parsed.uid)
            return
        # It is no member of a group: it is tried alone.
        alone = parsed._replace(base=pod_projection.base_of_resize(parsed), group="")
        new = self._resized[parsed.uid] = self._intern(alone)
        self._index_labels(parsed, known)
        if known is None:
            self._add_to_queue(self._record(new))
            return
        events: list[cluster_event.ClusterEvent] = []
        old_object = new_object = None
        if known.class_id and new.class_id:
            old_object = self._in_event(self._registry[known.class_id].pod, known.parsed)
            new_object = self._in_event(self._registry[new.class_id].pod, alone)
            events = self._pod_events(old_object.pod, new_object.pod, target=True)
        self._update_in_queue(self._record(new), events, old_object, new_object)
        if known.class_id:
            self._registry.release(known.class_id)

    def _leave_resized(self, uid: str) -> None:
        gone = self._resized.pop(uid, None)
        if gone is not None:
            self._label_keys.remove(uid, gone.parsed.labels)
            self._delete_from_queue(gone.parsed.key, uid, DELETED)
            self._deleted(uid)
            if gone.class_id:
                self._registry.release(gone.class_id)

    def _read_again(self, pending: PendingPod, parsed: ParsedPod) -> None:
        """The same object came again. More of it may be read than before, which makes it another class."""
        if parsed == pending.parsed and not self._registry.all_labels:
            return
        new = self._intern(parsed)
        if not new.class_id or not pending.class_id or new.class_id == pending.class_id:
            if new.class_id:
                self._registry.release(new.class_id)
            return
        self._index_labels(parsed, pending)
        before, pending.parsed = pending.class_id, parsed
        pending.base, pending.class_id = new.base, new.class_id
        self._registry.release(before)
        self._queue.reclassify(parsed.key, parsed.uid, new.class_id)

    def _intern(self, parsed: ParsedPod) -> PendingPod:
        try:
            base = self._registry.base_of(parsed.base)
        except class_registry.InvalidPod as error:
            return PendingPod(parsed, 0, 0, str(error))
        return PendingPod(parsed, base, self._registry.intern(base, parsed.labels))

    def _record(self, pending: PendingPod) -> pod_info.PodInfo:
        parsed = pending.parsed
        return pod_info.by_priority(
            parsed.key,
            parsed.uid,
            pending.class_id,
            parsed.scheduler_name,
            parsed.priority,
            resource_version=str(parsed.resource_version),
            nominated_node=parsed.nominated_node,
            exclusive=not pending.class_id or bool(parsed.flags),
            pod=pending,
        )

    def _leave_pending(self, parsed: ParsedPod) -> None:
        pending = self._pending.pop(parsed.uid, None)
        if pending is not None:
            self._label_keys.remove(parsed.uid, pending.parsed.labels)
            self._delete_from_queue(parsed.key, parsed.uid, BOUND)
            if pending.class_id:
                self._registry.release(pending.class_id)

    def _add_to_queue(self, record: pod_info.PodInfo) -> None:
        started = self._clock()
        instructions = self._queue.add(record, self._now())
        self._observer.event_handled(cluster_event.UNSCHEDULED_POD_ADD.label, started)
        self._execute(instructions)

    def _update_in_queue(
        self, record: pod_info.PodInfo, events: Sequence[cluster_event.ClusterEvent], old: Any, new: Any
    ) -> None:
        """An update counts as such, and as each of the changes that it is made of."""
        started = self._clock()
        instructions = self._queue.update(record, events, old, new, self._now())
        self._observer.event_handled(_POD_UPDATE, started)
        for event in events:
            label = cluster_event.event(cluster_event.Resource.UNSCHEDULED_POD, event.action).label
            if label != _POD_UPDATE:
                self._observer.event_handled(label, started)
        self._execute(instructions)

    def _delete_from_queue(self, key: str, uid: str, cause: str) -> None:
        started = self._clock()
        instructions = self._queue.delete(key, uid, self._now(), cause)
        self._observer.event_handled(_POD_DELETE, started)
        self._execute(instructions)

    def _drop_pod(self, uid: str) -> None:
        self._foreign.pop(uid, None)
        pending = self._pending.pop(uid, None)
        if pending is not None:
            self._label_keys.remove(uid, pending.parsed.labels)
            self._delete_from_queue(pending.parsed.key, uid, DELETED)
            self._deleted(uid)
            if pending.parsed.nominated_node:
                self._nomination_gone(pending)
            if pending.class_id:
                self._registry.release(pending.class_id)
        # One that is assumed too: if it was bound before it went, nobody will tell of that any more.
        placed = self._cache.pod(uid)
        resized = self._resized.get(uid)
        if placed is not None:
            pod = self._registry[placed.class_id].pod
            gone = PodInEvent(pod, placed.key, uid, placed.node_name, "")
            self.on_assumed(self._cache.forget_objects(uid))
            self._cache.remove_pod(uid)
            if self._groups is not None:
                self._execute(self._groups.member_removed(uid, self._now()))
            self._tell(cluster_event.ASSIGNED_POD_DELETE, gone, None)
        if resized is not None:
            self._leave_resized(uid)

    def _nomination_gone(self, pending: PendingPod) -> None:
        """Pods of no higher priority may use the room that was promised to the pod, as it was until now."""
        if pending.class_id:
            gone = self._in_event(self._registry[pending.class_id].pod, pending.parsed)
            started = self._clock()
            instructions = self._queue.on_event(
                cluster_event.ASSIGNED_POD_DELETE,
                gone,
                None,
                self._now(),
                max_priority=pending.parsed.priority,
                exclude_uid=pending.parsed.uid,
            )
            self._observer.event_handled(cluster_event.ASSIGNED_POD_DELETE.label, started)
            self._execute(instructions)

    def _index_labels(self, parsed: ParsedPod, before: PendingPod | None) -> None:
        """The pod's labels are these from now on. `before`: as it was known; None: it was not."""
        if before is None:
            self._label_keys.add(parsed.uid, parsed.labels)
        elif before.parsed.labels != parsed.labels:
            self._label_keys.remove(parsed.uid, before.parsed.labels)
            self._label_keys.add(parsed.uid, parsed.labels)

    def _intern_again(self) -> None:
        """More label keys are selected by than before: pods that carry one belong to another class now."""
        keys = self._registry.take_new_keys()
        while keys:
            self._cache.reclassify(keys)
            for uid in self._label_keys.carrying(keys):
                pending = self._pending.get(uid) or self._resized[uid]
                if pending.class_id:
                    class_id = self._registry.intern(pending.base, pending.parsed.labels)
                    self._registry.release(pending.class_id)
                    pending.class_id = class_id
                    self._queue.reclassify(pending.parsed.key, uid, class_id)
            keys = self._registry.take_new_keys()

    def _in_event(self, pod: core_pb2.Pod, parsed: ParsedPod) -> PodInEvent:
        return PodInEvent(pod, parsed.key, parsed.uid, parsed.node_name, parsed.nominated_node)

    # Nodes

    def on_nodes(self, events: Sequence[Event[core_pb2.Node]]) -> None:
        """Nodes were listed, added, changed or deleted."""
        for kind, node in events:
            json = b"" if node is None else self._json_of(node)
            if node is None:
                self._on_list(kind, "nodes", lambda: set(self._cache.node_names()), self._drop_node)
            elif kind == EventKind.DELETED:
                self._drop_node(node.metadata.name)
            else:
                if kind == EventKind.LISTED:
                    self._listed.setdefault("nodes", set()).add(node.metadata.name)
                self._set_node(node, json)

    def _set_node(self, node: core_pb2.Node, json: bytes) -> None:
        changed, before = self._cache.set_node(node, json)
        if not changed:
            return
        event_log.node_changed(before, node)
        if before is None:
            self._tell(cluster_event.NODE_ADD, None, node)
            return
        for event in cluster_event.node_update_events(before, node):
            self._tell(event, before, node)

    def _drop_node(self, name: str) -> None:
        before = self._cache.remove_node(name)
        if before is not None:
            event_log.node_deleted(before)
            self._tell(cluster_event.event(cluster_event.Resource.NODE, ActionType.DELETE), before, None)

    # Other objects

    def on_objects(self, kind: object_kinds.ObjectKind, events: Sequence[Event[Any]]) -> None:
        """Objects of the kind were listed, added, changed or deleted."""
        for event_kind, entry in events:
            if entry is None:
                self._on_list(
                    event_kind,
                    kind.field,
                    lambda: self._cache.object_keys(kind.field),
                    lambda key: self._drop_object(kind, key),
                )
                continue
            key = (entry.metadata.namespace, entry.metadata.name)
            if event_kind == EventKind.DELETED:
                self._drop_object(kind, key)
                continue
            if event_kind == EventKind.LISTED:
                self._listed.setdefault(kind.field, set()).add(key)
            self._set_object(kind, key, entry)
        self._intern_again()

    def _set_object(self, kind: object_kinds.ObjectKind, key: tuple[str, str], entry: Any) -> None:
        known = self._cache.get_object(kind.field, *key)
        before = None if known is None else getattr(known, kind.field)
        if before == entry or (before is not None and cluster_cache.is_older_version(before, entry)):
            return
        told = self._as_told(kind, key)
        self._registry.select_by(kind.selected_keys(entry))
        changed = snapshot_pb2.ClusterObject()
        getattr(changed, kind.field).CopyFrom(entry)
        self._cache.set_object(changed)
        if kind.field in _GROUPS and self._groups is not None:
            self._execute(self._groups.set_group(entry, self._now()))
        if kind.event == cluster_event.Resource.RESOURCE_CLAIM:
            # The scheduler's own allocations were told when they were assumed, and may still be.
            before, entry = told, self._as_told(kind, key)
        if kind.event and before != entry:
            action = ActionType.ADD if before is None else ActionType.UPDATE
            self._tell(cluster_event.event(kind.event, action), before, entry)
        elif kind.message is resource_pb2.DeviceTaintRule and before is not None and before.spec != entry.spec:
            self._rule_changed(before)

    def _drop_object(self, kind: object_kinds.ObjectKind, key: tuple[str, str]) -> None:
        known = self._cache.get_object(kind.field, *key)
        if known is None:
            return
        before = self._as_told(kind, key)
        self._cache.remove_object(kind.field, *key)
        if kind.field in _GROUPS and self._groups is not None:
            uid = getattr(known, kind.field).metadata.uid
            composite = kind.field != _GROUPS[0]
            self._execute(self._groups.remove_group("/".join(key), uid, self._now(), composite=composite))
        if kind.event:
            self._tell(cluster_event.event(kind.event, ActionType.DELETE), before, None)
        elif kind.message is resource_pb2.DeviceTaintRule:
            self._rule_changed(known.device_taint_rule)

    def _as_told(self, kind: object_kinds.ObjectKind, key: tuple[str, str]) -> Any:
        """The object as plugins were told of it last."""
        known = self._cache.get_assumed(kind.field, *key)
        return None if known is None else getattr(known, kind.field)

    def on_assumed(self, changes: Sequence[assumed_objects.Change]) -> None:
        """Objects are assumed to be so, or no longer. Of claims plugins hear at once: others wait for their devices."""
        for before, after in changes:
            if before is None or before.WhichOneof("object") != "resource_claim":
                continue
            # One that was only to be made is gone.
            action = ActionType.DELETE if after is None else ActionType.UPDATE
            event = cluster_event.event(cluster_event.Resource.RESOURCE_CLAIM, action)
            self._tell(event, before.resource_claim, None if after is None else after.resource_claim)

    def _rule_changed(self, rule: resource_pb2.DeviceTaintRule) -> None:
        """Devices may have lost the taint that the rule put on them: told as if their slices had changed."""
        selector = rule.spec.device_selector
        if not rule.spec.HasField("device_selector"):
            return
        event = cluster_event.event(cluster_event.Resource.RESOURCE_SLICE, ActionType.UPDATE)
        for key in sorted(self._cache.object_keys("resource_slice")):
            found = self._cache.get_object("resource_slice", *key)
            if found is not None and _selects(selector, found.resource_slice):
                self._tell(event, found.resource_slice, found.resource_slice)

    # All

    def _tell(self, event: cluster_event.ClusterEvent, old: Any, new: Any) -> None:
        if self._queue.listens():
            started = self._clock()
            instructions = self._queue.on_event(event, old, new, self._now())
            self._observer.event_handled(event.label, started)
            self._execute(instructions)
        else:
            self._observer.event_ignored(event.label)

    def _on_list(self, kind: EventKind, name: str, known: Callable[[], set[Any]], drop: Callable[[Any], None]) -> None:
        if kind == EventKind.LIST_START:
            self._listed[name] = set()
        elif kind == EventKind.LIST_END:
            for gone in known() - self._listed.pop(name, set()):
                drop(gone)


def _selects(selector: resource_pb2.DeviceTaintSelector, entry: resource_pb2.ResourceSlice) -> bool:
    """Whether the selector may be about devices of the slice."""
    spec = entry.spec
    if selector.HasField("driver") and selector.driver != spec.driver:
        return False
    if selector.HasField("pool") and selector.pool != spec.pool.name:
        return False
    return not selector.HasField("device") or any(device.name == selector.device for device in spec.devices)
