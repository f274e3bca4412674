"""Pod events: each pod is either placed (in the cache) or pending (in the queue, or in flight and perhaps assumed).

An event moves the pod from one to the other. A pod whose resize is deferred is both: it runs, and waits in the queue
until there is room for the resize. Late events, of an object that is known in a later version, are ignored.

Tests: tests/unit/scheduling/test_event_handlers.py, tests/unit/scheduling/test_pod_event_handlers.py.
"""

from collections.abc import Callable, Sequence
from typing import Any

from trireme.cache import class_registry, cluster_cache, event_log, label_keys, pod_projection
from trireme.cache.pod_projection import ParsedPod
from trireme.framework import cluster_event
from trireme.queueing import pod_info
from trireme.queueing.pending_pod import PendingPod
from trireme.scheduling import pending_pods, ports, relists
from trireme.scheduling.queue_notifier import PodInEvent, QueueNotifier
from trireme.v1 import core_pb2
from trireme_kube.client.informers.watch import Event, EventKind

# As metrics call this change.
_PLACED_POD_UPDATE = cluster_event.event(cluster_event.Resource.ASSIGNED_POD, cluster_event.ActionType.UPDATE).label


class PodEventHandlers:
    """Applies pod events to the cache, the queue and the pending pods."""

    def __init__(
        self,
        cache: cluster_cache.ClusterCache,
        notifier: QueueNotifier,
        pending: pending_pods.PendingPods,
        profiles: frozenset[str],
        *,
        deleted: Callable[[str], None],
        bound: Callable[[str], None],
        observer: ports.Observer,
    ) -> None:
        """Take the receivers of what follows from events.

        `deleted` receives the UID of each pending pod that is gone, `bound` of each that has a node by now, no matter
        who bound it.
        """
        self._cache = cache
        self._registry = cache.registry
        self._notifier = notifier
        self.profiles = profiles
        self._deleted = deleted
        self._bound = bound
        self._observer = observer
        self._clock = observer.clock
        self._pending = pending.by_uid
        self._label_keys = label_keys.LabelKeys()  # of these, and of pods whose resize is deferred
        # Pending pods that another scheduler is responsible for, by UID: namespace/name and spec.schedulerName.
        self._foreign: dict[str, tuple[str, str]] = {}
        # Running pods whose resize is deferred, by UID. They are in the queue, too.
        self._deferred_resizes: dict[str, PendingPod] = {}
        self._relists = relists.RelistTracker()

    def set_profiles(self, profiles: frozenset[str]) -> None:
        """Be responsible for the pods of these profiles from now on.

        Pending pods of a profile that is gone are dropped as if they were deleted, waits on Permit included; one that
        is being bound goes on. They are another scheduler's from now on.
        """
        gone, self.profiles = self.profiles - profiles, profiles
        for uid, resized in list(self._deferred_resizes.items()):
            if resized.parsed.scheduler_name in gone:
                self._remove_deferred_resize(uid)
        for uid, pending in list(self._pending.items()):
            parsed = pending.parsed
            if parsed.scheduler_name not in gone:
                continue
            self._drop_pending(uid)
            self._foreign[uid] = parsed.key, parsed.scheduler_name

    def other_scheduler_of(self, key: str) -> str:
        """The schedulerName of a pending pod (namespace/name) that is not ours; empty: there is no such pod."""
        return next((scheduler for name, scheduler in self._foreign.values() if name == key), "")

    def on_pods(self, events: Sequence[Event[ParsedPod]]) -> None:
        """Apply events of pods, placed, pending and those of other schedulers, to the cache and the queue.

        At the end of a list, pods that were known and are not in it count as deleted. Afterwards all pods whose class
        depends on label keys that are read only now are reclassified.
        """
        logged = event_log.logs_each_event()
        listed = self._relists.seen_keys("pods")
        for kind, parsed in events:
            if logged and parsed is not None:
                self._log_pod_event(kind, parsed)
            if parsed is None:
                self._relists.on_list_marker(kind, "pods", self._known_uids, self._remove_pod)
                listed = self._relists.seen_keys("pods")
            elif kind is EventKind.DELETED:
                self._remove_pod(parsed.uid)
            else:
                if kind is EventKind.LISTED:
                    listed.add(parsed.uid)
                self._set_pod(parsed)
        self.reclassify()

    def _log_pod_event(self, kind: EventKind, parsed: ParsedPod) -> None:
        """Log a pod event in kube-scheduler's words, unless the pod has no node and is another scheduler's."""
        pending, placed = parsed.uid in self._pending, self._cache.pod(parsed.uid)
        if kind == EventKind.DELETED:
            if pending or placed is not None:
                event_log.pod_deleted(parsed.key, pending)
        elif parsed.node_name or parsed.scheduler_name in self.profiles:
            event_log.pod_changed(
                parsed.key, bool(parsed.node_name), pending, placed is not None and not placed.assumed
            )

    def _known_uids(self) -> set[Any]:
        """The UIDs of all pods that an informer has shown, which a new list may leave out."""
        return {pod.uid for pod in self._cache.pods() if not pod.assumed} | set(self._pending) | set(self._foreign)

    def _set_pod(self, parsed: ParsedPod) -> None:
        """Apply an added or changed pod: as placed, as pending, or as another scheduler's."""
        if parsed.node_name:
            self._foreign.pop(parsed.uid, None)
            self._set_placed(parsed)
        elif parsed.scheduler_name in self.profiles:
            self._set_pending(parsed)
        else:
            self._foreign[parsed.uid] = parsed.key, parsed.scheduler_name

    def _set_placed(self, parsed: ParsedPod) -> None:
        """Apply an informer's pod that has a node: it is in the cache from now on, and no longer pending.

        An older version than the known one is ignored. The queue is notified of a new placed pod (confirming an assumed
        one counts as new), or of how a known one changed; a change that no plugin reads notifies nobody.
        """
        known = self._cache.pod(parsed.uid)
        if known is not None and known.version > parsed.resource_version:
            return
        if parsed.group:
            self._notifier.member_placed(f"{parsed.namespace}/{parsed.group}", parsed.uid)
        if parsed.uid in self._pending:
            self._remove_pending(parsed)
        base = self._intern_base_of_placed(parsed)
        class_id = self._registry.intern(base, parsed.labels)
        if self._registry.keep_deferred:
            self._set_deferred_resize(parsed)
        started = self._clock()
        before = None if known is None or known.assumed else self._registry[known.class_id].pod
        self._cache.set_pod(parsed, class_id, base)
        after = self._registry[class_id].pod
        if before is None:
            self._notify_of_placed(parsed, after)
            return
        self._observer.on_event_handled(_PLACED_POD_UPDATE, started)
        if before is not after:
            for changed in self._events_of_update(before, after, target=False):
                event = cluster_event.event(cluster_event.Resource.ASSIGNED_POD, changed.action)
                self._notifier.notify_of_event(
                    event, self._pod_in_event(before, parsed), self._pod_in_event(after, parsed)
                )

    def _intern_base_of_placed(self, parsed: ParsedPod) -> int:
        """Intern the base of a pod that has a node; an invalid pod counts as one without requests."""
        try:
            return self._registry.intern_base(parsed.base)
        except class_registry.InvalidPod:
            # Its node runs it all the same. Its requests cannot be read, so it counts as a pod without any.
            return self._registry.intern_base(pod_projection.base_without_requests(parsed.namespace))

    def _notify_of_placed(self, parsed: ParsedPod, pod: core_pb2.Pod) -> None:
        """Notify the queue of a pod that the watch shows on a node for the first time."""
        if self._notifier.needs_events():
            self._notifier.notify_of_event(cluster_event.ASSIGNED_POD_ADD, None, self._pod_in_event(pod, parsed))
        else:
            self._notifier.count_ignored(cluster_event.ASSIGNED_POD_ADD)

    def _set_pending(self, parsed: ParsedPod) -> None:
        """Apply an informer's pod without a node: queue it, or update it. Older versions change nothing.

        An event that comes after the pod was assumed is ignored: a pod that has a node keeps it. A nomination that
        others removed from its status is an event for the pods that it kept out.
        """
        pending = self._pending.get(parsed.uid)
        if pending is not None:
            if pending.parsed.resource_version > parsed.resource_version:
                return
            if pending.parsed.resource_version == parsed.resource_version:
                self._reclassify_if_more_is_read(pending, parsed)
                return
        elif self._cache.pod(parsed.uid) is not None:
            # The event is late: a pod that has a node keeps it.
            return
        new = self._intern_class(parsed)
        if pending is not None:
            new.given_sort_key = pending.given_sort_key
        self._pending[parsed.uid] = new
        self._index_labels(parsed, pending)
        record = self._make_pod_info(new)
        if pending is None:
            self._notifier.add(record)
            return
        self._notify_of_update(record, pending, new)
        if pending.parsed.nominated_node and pending.parsed.nominated_node != parsed.nominated_node:
            self._notify_of_lost_nomination(pending)
        if pending.class_id:
            self._registry.release(pending.class_id)

    def _notify_of_update(self, record: pod_info.PodInfo, before: PendingPod, after: PendingPod) -> None:
        """Notify the queue that a pending pod changed, and how; not how if its fields cannot be read."""
        events: list[cluster_event.ClusterEvent] = []
        old = new = None
        if before.class_id and after.class_id:
            old = self._pod_in_event(self._registry[before.class_id].pod, before.parsed)
            new = self._pod_in_event(self._registry[after.class_id].pod, after.parsed)
            events = self._events_of_update(old.pod, new.pod, target=True)
        self._notifier.update(record, events, old, new)

    def _events_of_update(
        self, old: core_pb2.Pod, new: core_pb2.Pod, *, target: bool
    ) -> list[cluster_event.ClusterEvent]:
        """How the pod changed, as events for hints; `target`: for this pod itself, which waits, else for other pods."""
        return cluster_event.pod_update_events(old, new, target=target, rules=self._registry.rules)

    def _set_deferred_resize(self, parsed: ParsedPod) -> None:
        """The pod runs. If a resize of it is deferred, it is queued until there is room for the resize.

        Source: pkg/scheduler/eventhandlers.go (updatePod).
        """
        known = self._deferred_resizes.get(parsed.uid)
        if not parsed.deferred or parsed.scheduler_name not in self.profiles:
            self._remove_deferred_resize(parsed.uid)
            return
        # It is scheduled alone, not with its group.
        alone = parsed._replace(base=pod_projection.unique_base_of_deferred_resize(parsed), group="")
        new = self._deferred_resizes[parsed.uid] = self._intern_class(alone)
        if known is not None:
            new.given_sort_key = known.given_sort_key
        self._index_labels(parsed, known)
        if known is None:
            self._notifier.add(self._make_pod_info(new))
            return
        self._notify_of_update(self._make_pod_info(new), known, new)
        if known.class_id:
            self._registry.release(known.class_id)

    def _remove_deferred_resize(self, uid: str) -> None:
        """Take a pod out of the queue whose resize is not deferred any more, or that is gone."""
        gone = self._deferred_resizes.pop(uid, None)
        if gone is not None:
            self._label_keys.remove(uid, gone.parsed.labels)
            self._notifier.delete(gone.parsed.key, uid, cluster_event.DELETED)
            self._deleted(uid)
            if gone.class_id:
                self._registry.release(gone.class_id)

    def _reclassify_if_more_is_read(self, pending: PendingPod, parsed: ParsedPod) -> None:
        """Give a pod that is listed again unchanged another class, if plugins read more of its fields than before."""
        if parsed == pending.parsed and not self._registry.uses_all_labels:
            return
        new = self._intern_class(parsed)
        if not new.class_id or not pending.class_id or new.class_id == pending.class_id:
            if new.class_id:
                self._registry.release(new.class_id)
            return
        self._index_labels(parsed, pending)
        before, pending.parsed = pending.class_id, parsed
        pending.base, pending.class_id = new.base, new.class_id
        self._registry.release(before)
        self._notifier.reclassify(parsed.key, parsed.uid, new.class_id)

    def _intern_class(self, parsed: ParsedPod) -> PendingPod:
        """Find the pod's class, and count it there; class 0, with the reason, if its fields are invalid."""
        try:
            base = self._registry.intern_base(parsed.base)
        except class_registry.InvalidPod as error:
            return PendingPod(parsed, 0, 0, str(error))
        return PendingPod(parsed, base, self._registry.intern(base, parsed.labels))

    def _make_pod_info(self, pending: PendingPod) -> pod_info.PodInfo:
        """Make what the queue has to know of the pod from its object and class."""
        parsed = pending.parsed
        return pod_info.make_pod_info(
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

    def _remove_pending(self, parsed: ParsedPod) -> None:
        """Drop a pending pod that has a node now, from the queue too."""
        pending = self._pending.pop(parsed.uid)
        self._label_keys.remove(parsed.uid, pending.parsed.labels)
        self._notifier.delete(parsed.key, parsed.uid, cluster_event.BOUND)
        self._bound(parsed.uid)
        if pending.class_id:
            self._registry.release(pending.class_id)

    def _remove_pod(self, uid: str) -> None:
        """The pod is deleted: drop it wherever it is known, and notify the queue of the room that it leaves."""
        self._foreign.pop(uid, None)
        self._drop_pending(uid)
        # An assumed pod too: if it was bound before it was deleted, no event will show that any more.
        placed = self._cache.pod(uid)
        if placed is not None:
            pod = self._registry[placed.class_id].pod
            gone = PodInEvent(pod, placed.key, uid, placed.node_name, "")
            self._notifier.notify_of_assumed(self._cache.forget_objects(uid))
            self._cache.remove_pod(uid)
            self._notifier.member_removed(uid)
            self._notifier.notify_of_event(cluster_event.ASSIGNED_POD_DELETE, gone, None)
        self._remove_deferred_resize(uid)

    def _drop_pending(self, uid: str) -> None:
        """Drop a pod that is deleted, or no longer ours, if it is pending: from the queue, and from all that waits."""
        pending = self._pending.pop(uid, None)
        if pending is not None:
            self._label_keys.remove(uid, pending.parsed.labels)
            self._notifier.delete(pending.parsed.key, uid, cluster_event.DELETED)
            self._deleted(uid)
            if pending.parsed.nominated_node:
                self._notify_of_lost_nomination(pending)
            if pending.class_id:
                self._registry.release(pending.class_id)

    def _notify_of_lost_nomination(self, pending: PendingPod) -> None:
        """Notify the queue that the pod, as it was until now, is no longer nominated for its node."""
        if pending.class_id:
            self._notifier.notify_of_lost_nomination(
                pending, self._pod_in_event(self._registry[pending.class_id].pod, pending.parsed)
            )

    def _index_labels(self, parsed: ParsedPod, before: PendingPod | None) -> None:
        """Index the pod's labels. `before`: the pod as it was known; None: it is new."""
        if before is None:
            self._label_keys.add(parsed.uid, parsed.labels)
        elif before.parsed.labels != parsed.labels:
            self._label_keys.remove(parsed.uid, before.parsed.labels)
            self._label_keys.add(parsed.uid, parsed.labels)

    def reclassify(self) -> None:
        """If selectors use more label keys than before, pods with such labels belong to another class now."""
        keys = self._registry.take_new_selector_keys()
        while keys:
            self._cache.reclassify(keys)
            for uid in self._label_keys.pods_with_any(keys):
                pending = self._pending.get(uid) or self._deferred_resizes[uid]
                if pending.class_id:
                    class_id = self._registry.intern(pending.base, pending.parsed.labels)
                    self._registry.release(pending.class_id)
                    pending.class_id = class_id
                    self._notifier.reclassify(pending.parsed.key, uid, class_id)
            keys = self._registry.take_new_selector_keys()

    def _pod_in_event(self, pod: core_pb2.Pod, parsed: ParsedPod) -> PodInEvent:
        """The pod as hints get it: what its class shares (`pod`), with its own key, UID, node and nomination."""
        return PodInEvent(pod, parsed.key, parsed.uid, parsed.node_name, parsed.nominated_node)
