"""QueueGroups: the part of the scheduling queue that knows pod groups. Members of a group are queued as one.

A pod that names a group is not queued by itself: it is in `members` of its group (`queued_group`), and while members
wait, the group is queued in their place. Members have the state of their group while they wait, and two states of their
own (`states`): an object of the group is missing, or the group is being tried without them. Remote PreEnqueue plugins
are called for each member (`member_pre_enqueue_calls`).

Where groups are in groups, the group that is queued is the whole tree, named after its root.

Queueing hints are not evaluated for a group whose attempt failed: it is tried again after its back-off. A group that is
held back is checked again when an event happens that its PreEnqueue plugin registered, or when its members change.

What concerns pods too arrives through `SchedulingQueue`, which returns the instructions. What concerns groups alone is
called here, and returns them.

Source: pkg/scheduler/backend/queue/scheduling_queue.go, pkg/scheduler/framework/plugins/gangscheduling.

Tests: tests/unit/queueing/test_group_queue.py, tests/unit/queueing/test_group_changes.py,
tests/unit/scheduling/test_pod_group_trees.py.
"""

import enum
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from trireme.framework import cluster_event
from trireme.framework.cluster_event import ClusterEvent
from trireme.queueing.batch_key import GroupKey
from trireme.queueing.groups.forest import Group, key_of
from trireme.queueing.groups.group_settings import GroupSettings
from trireme.queueing.groups.group_transitions import ADDED, CHANGED, GroupTransitions
from trireme.queueing.groups.queued_group import PodGroupBatch, PodGroups, QueuedPodGroupInfo
from trireme.queueing.hints.queueing_hint_map import QueueingHintMap
from trireme.queueing.nominator import Nominator
from trireme.queueing.pod_info import PodInfo
from trireme.queueing.queued_entity import QueuedEntity
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.queueing.remote_calls import Instructions, RemoteCalls
from trireme.queueing.states import Active, BackOff, Destination, Done, InFlight, PreEnqueuePending
from trireme.queueing.transitions import Transitions

# A group that lacks an object or members for so long is reported: its owner has to act. Seconds.
NOTIFY_AFTER: Final = 30.0

_ACTIVATED = cluster_event.FORCE_ACTIVATE.label
_TIMED_OUT = cluster_event.UNSCHEDULABLE_TIMEOUT.label
_FAILED = cluster_event.SCHEDULE_ATTEMPT_FAILURE


class GroupAttemptResult(enum.Enum):
    """How the attempt to schedule a group ended. The values are those of metrics."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    WAITING = "waiting_on_preemption"
    ERROR = "error"


class QueueGroups:
    """The pod groups of a scheduling queue, which queues each tree of groups as one entity."""

    def __init__(
        self,
        settings: GroupSettings,
        registry: PodGroups,
        group_transitions: GroupTransitions,
        *,
        transitions: Transitions,
        registrations: QueueingHintMap,
        nominator: Nominator,
        calls: RemoteCalls,
    ) -> None:
        self.registry = registry
        self._notify = settings.notify
        self._gone = settings.gone
        self._group_transitions = group_transitions
        self._transitions = transitions
        self._registrations = registrations
        self._nominator = nominator
        self._calls = calls

    # --- members come, change and go ---------------------------------------------------------------------------------

    def add(self, record: PodInfo, now: float) -> None:
        """A member without a node, which is not known yet, joins its group."""
        parsed = record.pod.parsed
        name = f"{parsed.namespace}/{parsed.group}"
        group = self.registry.group_for(name)
        for other in [pod for pod in group.members.values() if pod.record.key == record.key]:
            self.delete(group, other.record.uid, now, cluster_event.DELETED)
        group = self.registry.group_for(name)
        pod = QueuedPodInfo(record, now)
        self.registry.add_member(group, pod)
        self._nominator.nominate(record)
        self._group_transitions.join(group, pod, ADDED, now)

    def update(self, group: QueuedPodGroupInfo, record: PodInfo, now: float) -> None:
        """Follow a change of a member's object: a group that is held back for what it was is checked again.

        For a member in flight or done it is only recorded; an object of the version that is known changes nothing.
        """
        pod = group.members[record.uid]
        if isinstance(pod.state, (InFlight, Done)):
            self._transitions.update_attempt(pod, replace(pod.state, latest=record))
            return
        before = pod.record
        if record.resource_version and record.resource_version == before.resource_version:
            return
        pod.record = record
        self._nominator.update(before, record)
        self._calls.renew_sort_key(pod, before)
        if group.blocker is pod or group.calls.refused is pod:
            self._group_transitions.recheck_gate(group, CHANGED, now)
        elif record.uid in group.calls.open:
            # The answer under way is about the old object.
            self._group_transitions.caller.call_again(group.calls, pod, CHANGED)

    def reclassify(self, group: QueuedPodGroupInfo, uid: str, class_id: int) -> None:
        """The member belongs to another class now, though its object is the same."""
        pod = group.members[uid]
        if isinstance(pod.state, (InFlight, Done)):
            self._transitions.update_attempt(pod, replace(pod.state, latest=pod.latest._replace(class_id=class_id)))
            return
        pod.record = pod.record._replace(class_id=class_id)
        self._nominator.nominate(pod.record, self._nominator.node_of(uid))

    def sort_anew(self, group: QueuedPodGroupInfo, uid: str) -> None:
        """The member has another sort key: the group may come earlier or later."""
        pod = group.members[uid]
        if isinstance(pod.state, (InFlight, Done)):
            self._transitions.update_attempt(pod, replace(pod.state, latest=pod.latest.sorted_anew()))
            return
        pod.record = pod.record.sorted_anew()
        self._group_transitions.sort_anew(group)

    def delete(self, group: QueuedPodGroupInfo, uid: str, now: float, cause: str) -> None:
        """The member is gone, or has a node; where members are too few now, the group is held back."""
        self._group_transitions.remove_member(group, uid, now, cause)
        self._group_transitions.recheck_group(group, CHANGED, now)
        self.registry.drop_if_empty(group)

    def activate(self, key: str, uid: str, now: float) -> None:
        """Activate the group of this key, or that of the member, unless it is being tried; others are ignored."""
        group = self.registry.with_queue_key(key) or self.registry.group_of_member(uid)
        if group is not None and group.waiting and group.tree is not None and group.attempt is None:
            self._group_transitions.enter(group, Destination.ACTIVE, _ACTIVATED, now)

    def member_placed(self, key: str, uid: str, now: float) -> Instructions:
        """The watch shows a member of the group (namespace/name) on a node."""
        if self.registry.group_of_placed(uid) is not None:
            return ()
        group = self.registry.group_for(key)
        if uid in group.members:
            self._group_transitions.remove_member(group, uid, now, cluster_event.BOUND)
        self.registry.add_placed(group, uid, key.partition("/")[2])
        self._group_transitions.recheck_group(group, CHANGED, now)
        return self._calls.take_instructions()

    def member_removed(self, uid: str, now: float) -> Instructions:
        """A member that had a node is gone."""
        group = self.registry.drop_placed(uid)
        if group is not None:
            self._group_transitions.recheck_group(group, CHANGED, now)
            self.registry.drop_if_empty(group)
        return self._calls.take_instructions()

    # --- groups come, change and go ----------------------------------------------------------------------------------

    def set_group(self, group: Group, now: float) -> Instructions:
        """Add or replace the object of a PodGroup or CompositePodGroup, and queue the trees that change by it."""
        self._change_group_objects(key_of(group), lambda: self.registry.forest.set(group), now)
        return self._calls.take_instructions()

    def remove_group(self, key: str, uid: str, now: float, *, composite: bool = False) -> Instructions:
        """The PodGroup, or CompositePodGroup, is deleted.

        The members of the tree that it was part of wait until there is one again.
        """
        if not composite:
            self._gone(uid)
        gone = GroupKey(key, composite)
        self._change_group_objects(gone, lambda: self.registry.forest.remove(gone), now)
        return self._calls.take_instructions()

    # --- attempts ----------------------------------------------------------------------------------------------------

    def start_attempt(self, entity: QueuedEntity, now: float) -> PodGroupBatch:
        """The group was taken out of the active queue: it is tried now, with all members that wait."""
        assert isinstance(entity, QueuedPodGroupInfo)  # there is no third kind
        self._group_transitions.start_attempt(entity, now)
        return PodGroupBatch(entity.group_key, entity.record.profile, entity)

    def finish_attempt(self, group: QueuedPodGroupInfo, how: GroupAttemptResult, now: float) -> Instructions:
        """The attempt at the group is over: each of its pods was requeued or is being bound.

        The group is queued again with the pods that were requeued, and with those that were added meanwhile.
        """
        tried = group.attempt
        if tried is None:
            raise ValueError(f"group {group.full_name} is not being tried")
        group.attempt = None
        left, group.pending = group.pending, {}
        group.waiting |= left
        self._group_transitions.end_attempt(group)
        if not group.waiting or group.tree is None:
            self._group_transitions.end_queueing(group, now, "attempted")
            self._group_transitions.wait_for_tree(group, now)
            self.registry.drop_if_empty(group)
            return self._calls.take_instructions()
        if how is GroupAttemptResult.SCHEDULED:
            group.unschedulable_count = group.consecutive_errors = 0
        elif how is GroupAttemptResult.ERROR:
            group.consecutive_errors += 1
        else:
            group.unschedulable_count += 1
            group.consecutive_errors = 0
        if how is not GroupAttemptResult.SCHEDULED or tried.isdisjoint(left):
            # The remaining members of a group that was scheduled are tried again at once, before what was added since.
            group.timestamp = now
        group.backoff_expiration = 0.0
        destination = Destination.ACTIVE if how is GroupAttemptResult.SCHEDULED else Destination.BACKOFF
        self._group_transitions.enter(group, destination, _FAILED, now)
        return self._calls.take_instructions()

    def done(self, group: QueuedPodGroupInfo, uid: str, now: float) -> None:
        """The attempt at the member needs no more events."""
        pod = group.members[uid]
        if isinstance(pod.state, InFlight):
            self._group_transitions.complete_member(pod, pod.state, now)

    def requeue(
        self,
        pod: QueuedPodInfo,
        latest: PodInfo,
        now: float,
        rejectors: frozenset[str],
        pending_plugins: frozenset[str],
        nominated_node: str | None,
    ) -> None:
        """Have a member whose attempt failed join its group again; it backs off with the group."""
        group = self.registry.group_of_member(pod.record.uid)
        assert group is not None  # one that was removed from its group is in no attempt
        self._transitions.record_failure(pod, latest, now, rejectors, pending_plugins, nominated_node)
        self._group_transitions.join(group, pod, _FAILED, now)

    # --- what happens in the cluster, and time -----------------------------------------------------------------------

    def needs_events(self) -> bool:
        """Whether any group is held back, and so waits for an event."""
        return any(True for _ in self._groups_held_back())

    def on_event(self, event: ClusterEvent, now: float) -> None:
        """Checks the groups again that are held back by a plugin that registered the event."""
        for group in list(self._groups_held_back()):
            if self._registrations.has_registered(group.gated_by, event):
                self._group_transitions.recheck_gate(group, event.label, now)

    def recheck_held_back(self, event: ClusterEvent, now: float) -> None:
        """Checks all groups again that a plugin holds back: `event` changed the plugins."""
        for group in list(self._groups_held_back()):
            self._group_transitions.recheck_gate(group, event.label, now)

    def backoff_completed(self, entity: QueuedEntity, now: float) -> None:
        """The back-off of the group is over, and it was taken out of the back-off queue."""
        assert isinstance(entity, QueuedPodGroupInfo)  # there is no third kind
        self._group_transitions.backoff_completed(entity, now)

    def flush_unschedulable(self, before: float, now: float) -> None:
        """Check the groups again that have been held back since before that moment.

        Reports those that have lacked something for long.
        """
        for group in list(self._groups_held_back()):
            if max(group.timestamp, group.flushed_at) < before:
                group.flushed_at = now
                self._group_transitions.recheck_gate(group, _TIMED_OUT, now)
        for group in list(self.registry):
            overdue = group.waiting_since and now - group.waiting_since >= NOTIFY_AFTER
            # A group that is in flight has no members that wait; it may be tried although it lacks some.
            if overdue and group.waiting and not group.notified:
                group.notified = True
                self._notify(group, self.registry.missing_text(group) if group.tree is None else "")

    def recheck_pre_enqueue(self, profile: str, event: ClusterEvent, now: float) -> None:
        """PreEnqueue may refuse now members of the profile that it allowed, or for which it is called."""
        for group in self.registry:
            waits = isinstance(group.state, (Active, BackOff, PreEnqueuePending))
            if waits and group.record.profile == profile:
                self._group_transitions.enter(
                    group, self._group_transitions.reentry_destination(group), event.label, now
                )

    # --- answers of remote plugins -----------------------------------------------------------------------------------

    def repeat_pre_enqueue(self, group: QueuedPodGroupInfo, uid: str) -> None:
        """The call for a member that has such a call open failed, and is made again now."""
        self._group_transitions.caller.repeat_call(group.calls, uid)

    def apply_pre_enqueue_answer(
        self, group: QueuedPodGroupInfo, pod: QueuedPodInfo, gated_by: str, now: float, reason: str
    ) -> None:
        """Apply the answer to the PreEnqueue call for a member that has such a call open.

        `gated_by` is the plugin that refused the member, and `reason` its text; empty: all plugins allowed it. The last
        open call that allows its member lets the group enter the queue. One refused member gates the whole group.
        """
        calls, label = group.calls, group.calls.open[pod.uid].label
        events = self._group_transitions.caller.close_answered_call(calls, pod)
        if not gated_by:
            calls.passed.add(pod.uid)
            if not calls.open:
                # This calls plugins for members that came meanwhile; the group then waits for those calls, too.
                self._group_transitions.enter(group, calls.destination, label, now)
        elif events is None or any(self._registrations.has_registered(gated_by, each.event) for each in events):
            # An event during the call may help the member, or the queue no longer has all of those events.
            self._group_transitions.caller.call_again(calls, pod, label)
        else:
            self._group_transitions.caller.drop_all_calls(calls, pod)
            self._group_transitions.gate(group, gated_by, label, now, reason)

    # --- what is where -----------------------------------------------------------------------------------------------

    def group_of_member(self, uid: str) -> QueuedPodGroupInfo | None:
        """The group of a member without a node."""
        return self.registry.group_of_member(uid)

    def is_activated(self, key: str, uid: str) -> bool:
        """Whether the group of this key, or that of the member, is in the active queue or enters it.

        It enters if remote PreEnqueue plugins let its members in.
        """
        group = self.registry.with_queue_key(key) or self.registry.group_of_member(uid)
        if group is None:
            return False
        pending = isinstance(group.state, PreEnqueuePending) and group.calls.destination is Destination.ACTIVE
        return pending or isinstance(group.state, Active)

    def members(self) -> Iterator[QueuedPodInfo]:
        """All members without a node."""
        return (pod for group in self.registry for pod in group.members.values())

    def waiting_members(self) -> Iterator[QueuedPodInfo]:
        """The members that wait."""
        return (pod for group in self.registry for pods in (group.waiting, group.pending) for pod in pods.values())

    # --- within ------------------------------------------------------------------------------------------------------

    def _change_group_objects(self, key: GroupKey, change: Callable[[], None], now: float) -> None:
        """Changes the objects, moves each PodGroup that belongs to another tree now, and updates the trees."""
        groups = self.registry
        names = groups.forest.pod_groups_below(key)
        before = [groups.group_for(name) for name in names]
        changed = dict.fromkeys((*before, *self._tree_of(key)), False)
        change()
        for name, old in zip(names, before, strict=True):
            new = groups.group_for(name)
            joined = new is not old and self._group_transitions.move_pod_group(name.partition("/")[2], old, new)
            changed[new] = changed.get(new, False) or joined
        for group in dict.fromkeys((*changed, *self._tree_of(key))):
            rooted = groups.forest.root(group.group_key) == group.group_key
            group.tree = groups.forest.tree(group.group_key) if rooted else None
            self._group_transitions.follow_tree_change(group, changed.get(group, False), now)

    def _tree_of(self, key: GroupKey) -> list[QueuedPodGroupInfo]:
        """The tree that the group is in, if it is in one."""
        root = self.registry.forest.root(key)
        return [] if root is None else [self.registry.get_or_add(root)]

    def _groups_held_back(self) -> Iterator[QueuedPodGroupInfo]:
        return (group for group in self.registry if group.gated_by)
