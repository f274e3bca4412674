"""Cluster events on their way to the queue: each is measured, and the queue's instructions are executed at once.

The steps before and after, down to a plugin's hint: docs/requeueing.md, "The way of an event".

Tests: tests/unit/scheduling/test_event_handlers.py, tests/unit/scheduling/test_pod_event_handlers.py.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from trireme.cache import assumed_objects
from trireme.framework import cluster_event
from trireme.queueing import event_audience, pod_info, remote_calls, scheduling_queue
from trireme.queueing.pending_pod import PendingPod
from trireme.scheduling import ports
from trireme.v1 import core_pb2, scheduling_pb2

# As metrics call these changes.
_POD_UPDATE = cluster_event.event(cluster_event.Resource.UNSCHEDULED_POD, cluster_event.ActionType.UPDATE).label
_POD_DELETE = cluster_event.event(cluster_event.Resource.UNSCHEDULED_POD, cluster_event.ActionType.DELETE).label


class PodInEvent(NamedTuple):
    """A pod for queueing hints: the fields of its class, and those of its own."""

    pod: core_pb2.Pod
    key: str
    uid: str
    node_name: str
    nominated_node: str


class GroupWatcher(Protocol):
    """Receives pod groups, and their members that have a node.

    Implementers: trireme.queueing.groups.queue_groups.QueueGroups.
    """

    def member_placed(self, key: str, uid: str, now: float) -> remote_calls.Instructions:
        """A member of the group (namespace/name) is on a node. Idempotent."""

    def member_removed(self, uid: str, now: float) -> remote_calls.Instructions:
        """A pod that was on a node is gone, whether or not it was a member of a group."""

    def set_group(
        self, group: scheduling_pb2.PodGroup | scheduling_pb2.CompositePodGroup, now: float
    ) -> remote_calls.Instructions:
        """The PodGroup or CompositePodGroup was added or changed."""

    def remove_group(self, key: str, uid: str, now: float, *, composite: bool = False) -> remote_calls.Instructions:
        """The PodGroup or CompositePodGroup (namespace/name, UID) is gone."""


class QueueNotifier:
    """Notifies the queue of changes of pending pods, and of cluster events."""

    def __init__(
        self,
        queue: scheduling_queue.SchedulingQueue,
        now: Callable[[], float],
        execute: Callable[[remote_calls.Instructions], None],
        observer: ports.Observer,
        groups: GroupWatcher | None,
    ) -> None:
        self._queue = queue
        self._now = now
        self._execute = execute
        self._observer = observer
        self._clock = observer.clock
        self._groups = groups

    def add(self, record: pod_info.PodInfo) -> None:
        """A pending pod was added."""
        started = self._clock()
        instructions = self._queue.add(record, self._now())
        self._observer.on_event_handled(cluster_event.UNSCHEDULED_POD_ADD.label, started)
        self._execute(instructions)

    def update(
        self, record: pod_info.PodInfo, events: Sequence[cluster_event.ClusterEvent], old: Any, new: Any
    ) -> None:
        """A pending pod was updated. Metrics count an update, and each of the changes that it consists of."""
        started = self._clock()
        instructions = self._queue.update(record, events, old, new, self._now())
        self._observer.on_event_handled(_POD_UPDATE, started)
        for event in events:
            label = cluster_event.event(cluster_event.Resource.UNSCHEDULED_POD, event.action).label
            if label != _POD_UPDATE:
                self._observer.on_event_handled(label, started)
        self._execute(instructions)

    def delete(self, key: str, uid: str, cause: str) -> None:
        """A pending pod is gone, or has a node."""
        started = self._clock()
        instructions = self._queue.delete(key, uid, self._now(), cause)
        self._observer.on_event_handled(_POD_DELETE, started)
        self._execute(instructions)

    def reclassify(self, key: str, uid: str, class_id: int) -> None:
        """A pending pod belongs to another class."""
        self._queue.reclassify(key, uid, class_id)

    def notify_of_event(self, event: cluster_event.ClusterEvent, old: Any, new: Any) -> None:
        """Something changed that may help pods that were refused."""
        if self._queue.needs_events():
            started = self._clock()
            instructions = self._queue.on_event(event, old, new, self._now())
            self._observer.on_event_handled(event.label, started)
            self._execute(instructions)
        else:
            self._observer.on_event_ignored(event.label)

    def notify_of_assumed(self, changes: Sequence[assumed_objects.Change]) -> None:
        """Assumed objects changed. The queue hears of claims at once: other pods wait for their devices."""
        for before, after in changes:
            if before is None or before.WhichOneof("object") != assumed_objects.DEVICE_CLAIM:
                continue
            # A claim that was still to be created is gone.
            action = cluster_event.ActionType.DELETE if after is None else cluster_event.ActionType.UPDATE
            event = cluster_event.event(cluster_event.Resource.RESOURCE_CLAIM, action)
            self.notify_of_event(event, before.resource_claim, None if after is None else after.resource_claim)

    def needs_events(self) -> bool:
        """Whether any event may help a pod. If not, `count_ignored` is enough, and the event need not be made."""
        return self._queue.needs_events()

    def count_ignored(self, event: cluster_event.ClusterEvent) -> None:
        """Count an event for which `needs_events` is false."""
        self._observer.on_event_ignored(event.label)

    def notify_of_lost_nomination(self, pending: PendingPod, pod: PodInEvent) -> None:
        """Wake pods of no higher priority: the room that was nominated to this pod is free."""
        started = self._clock()
        instructions = self._queue.on_event(
            cluster_event.ASSIGNED_POD_DELETE,
            pod,
            None,
            self._now(),
            event_audience.EventAudience(pending.parsed.priority, pending.parsed.uid),
        )
        self._observer.on_event_handled(cluster_event.ASSIGNED_POD_DELETE.label, started)
        self._execute(instructions)

    def member_placed(self, group_key: str, uid: str) -> None:
        """A member of the pod group (namespace/name) has a node."""
        if self._groups is not None:
            self._execute(self._groups.member_placed(group_key, uid, self._now()))

    def member_removed(self, uid: str) -> None:
        """A pod that had a node is gone; it may have been a member of a group."""
        if self._groups is not None:
            self._execute(self._groups.member_removed(uid, self._now()))

    def set_group(self, group: scheduling_pb2.PodGroup | scheduling_pb2.CompositePodGroup) -> None:
        """A pod group was added or changed."""
        if self._groups is not None:
            self._execute(self._groups.set_group(group, self._now()))

    def remove_group(self, key: str, uid: str, *, composite: bool) -> None:
        """A pod group (namespace/name, UID) is gone."""
        if self._groups is not None:
            self._execute(self._groups.remove_group(key, uid, self._now(), composite=composite))
