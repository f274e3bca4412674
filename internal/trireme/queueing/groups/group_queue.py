"""PodGroupQueue: the scheduling queue of a cluster with pod groups. Members of a group are queued as one.

A pod that names a group is not queued by itself: it is kept with its group (`queued_group`), and while members wait,
the group is queued in their place, as an entry with a class of its own. Members have the state of their group while
they wait, and two states of their own (`states`): an object of the group is missing, or the group is being tried
without them. Remote PreEnqueue plugins are called for each member (`member_calls`).

Where groups are in groups, the group that is queued is the whole tree, named after its root.

Queueing hints are not evaluated for a group whose attempt failed: it is tried again after its back-off. A group that is
held back is checked again when an event happens that its PreEnqueue plugin registered, or when its members change.

Source: pkg/scheduler/backend/queue/scheduling_queue.go, pkg/scheduler/framework/plugins/gangscheduling.
"""

import dataclasses
import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from trireme.framework import cluster_event
from trireme.framework.cluster_event import ClusterEvent
from trireme.queueing.groups import group_statistics
from trireme.queueing.groups.forest import Group, GroupKey, key_of
from trireme.queueing.groups.group_transitions import ADDED, CHANGED, GroupTransitions
from trireme.queueing.groups.queued_group import PodGroups, QueuedPodGroupInfo, group_of
from trireme.queueing.pod_info import PodInfo
from trireme.queueing.pre_enqueue import PreEnqueue, PreEnqueueResult
from trireme.queueing.queue_status import QueueStatistics, QueueStatus
from trireme.queueing.queued_pod import NO_PLUGINS, QueuedPodInfo
from trireme.queueing.remote_calls import Instructions
from trireme.queueing.scheduling_queue import Batch, SchedulingQueue
from trireme.queueing.states import Active, BackOff, Destination, Gone, InFlight, PreEnqueuePending
from trireme.queueing.transition_log import DELETED, ImpossibleTransition

# A group of which an object or members are missing for so long is reported: its owner has to act. Seconds.
NOTIFY_AFTER: Final = 30.0

_ACTIVATED = cluster_event.FORCE_ACTIVATE.label
_TIMED_OUT = cluster_event.UNSCHEDULABLE_TIMEOUT.label
_FAILED = cluster_event.SCHEDULE_ATTEMPT_FAILURE


class Attempt(enum.Enum):
    """How the attempt to schedule a group ended. The values are those of metrics."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    WAITING = "waiting_on_preemption"
    ERROR = "error"


class PodGroupQueue(SchedulingQueue):
    """The scheduling queue, with groups in it."""

    def __init__(
        self,
        hints: Any,
        pre_enqueue: PreEnqueue,
        *,
        gang_profiles: frozenset[str],
        preempting: Callable[[str], bool],
        notify: Callable[[QueuedPodGroupInfo, str], None],
        gone: Callable[[str], None],
        composite: bool = False,
        **named: Any,
    ) -> None:
        """`gang_profiles` have GangScheduling at PreEnqueue. `preempting` says of an entity's key whether victims of
        the group are still to be deleted. `notify` is called once for a group that lacks something for long, with what
        it waits for if it is not members; `gone` with the UID of each PodGroup that is deleted. `composite`: groups may
        be made of groups.
        """
        self.groups = PodGroups(composite=composite)
        self._notify = notify
        self._gone = gone

        def gate(pod: QueuedPodInfo) -> str | PreEnqueueResult:
            # PreEnqueue has answered for the group's members before it comes this far.
            return PreEnqueueResult.ALLOWED if pod.record.class_id < 0 else pre_enqueue(pod)

        super().__init__(hints, gate, **named)
        self._group_transitions = GroupTransitions(
            self.groups,
            self._transitions,
            self._policy,
            self.nominator,
            self._calls,
            self._in_flight_events,
            pre_enqueue,
            gang_profiles,
            preempting,
        )

    # --- pods come, change and go ------------------------------------------------------------------------------------

    def add(self, record: PodInfo, now: float) -> Instructions:
        """As the queue's; a member joins its group."""
        name = record.pod.parsed.group
        if not name:
            return super().add(record, now)
        known = self.groups.of_member(record.uid)
        if known is not None:
            return self.update(record, (), None, None, now)
        name = f"{record.pod.parsed.namespace}/{name}"
        group = self.groups.home(name)
        for other in [pod for pod in group.members.values() if pod.record.key == record.key]:
            self._drop(group, other.record.uid, now)
        group = self.groups.home(name)
        pod = QueuedPodInfo(record, now)
        self.groups.add_member(group, pod)
        if record.nominated_node:
            self.nominator.nominate(record)
        self._group_transitions.join(group, pod, ADDED, now)
        return self._calls.take_instructions()

    def update(self, record: PodInfo, events: Sequence[ClusterEvent], old: Any, new: Any, now: float) -> Instructions:
        """As the queue's; a group that is held back for what the member was is checked again."""
        group = self.groups.of_member(record.uid)
        if group is None:
            return super().update(record, events, old, new, now)
        pod = group.members[record.uid]
        if pod.popped:
            self._transitions.update_attempt(pod, record)
            return ()
        before = pod.record
        if record.resource_version and record.resource_version == before.resource_version:
            return ()
        pod.record = record
        self.nominator.update(before, record)
        if group.blocker is pod or group.calls.refused is pod:
            self._group_transitions.recheck(group, CHANGED, now)
        elif record.uid in group.calls.open:
            # The answer under way is about the old object.
            self._group_transitions.caller.call_again(group.calls, pod, CHANGED)
        return self._calls.take_instructions()

    def reclassify(self, key: str, uid: str, class_id: int) -> None:
        """As the queue's."""
        group = self.groups.of_member(uid)
        if group is None:
            super().reclassify(key, uid, class_id)
            return
        pod = group.members[uid]
        if pod.popped:
            self._transitions.update_attempt(pod, pod.latest._replace(class_id=class_id))
            return
        pod.record = pod.record._replace(class_id=class_id)
        nominated_node = self.nominator.node_of(uid)
        if nominated_node:
            self.nominator.nominate(pod.record, nominated_node)

    def delete(self, key: str, uid: str, now: float, cause: str = DELETED) -> Instructions:
        """As the queue's; where members are too few now, the group is held back."""
        group = self.groups.of_member(uid)
        if group is None:
            return super().delete(key, uid, now, cause)
        self._drop(group, uid, now, cause)
        return self._calls.take_instructions()

    def activate(self, pods: Iterable[tuple[str, str]], now: float) -> Instructions:
        """As the queue's; of a member the whole group is activated, unless it is being tried."""
        singles = []
        for key, uid in pods:
            group = self.groups.entity(key) or self.groups.of_member(uid)
            if group is None:
                singles.append((key, uid))
            elif group.waiting and group.tree is not None and group.attempt is None:
                self._group_transitions.enter(group, Destination.ACTIVE, _ACTIVATED, now)
        return super().activate(singles, now)

    # --- groups come, change and go ----------------------------------------------------------------------------------

    def set_group(self, group: Group, now: float) -> Instructions:
        """The PodGroup or CompositePodGroup is this from now on."""
        self._regroup(key_of(group), lambda: self.groups.forest.set(group), now)
        return self._calls.take_instructions()

    def remove_group(self, key: str, uid: str, now: float, *, composite: bool = False) -> Instructions:
        """There is no such PodGroup, or CompositePodGroup, any more: whose tree it was part of is held until there is
        one again.
        """
        if not composite:
            self._gone(uid)
        gone = GroupKey(key, composite)
        self._regroup(gone, lambda: self.groups.forest.remove(gone), now)
        return self._calls.take_instructions()

    def member_placed(self, key: str, uid: str, now: float) -> Instructions:
        """The watch shows a member of the group on a node."""
        if self.groups.of_placed(uid) is not None:
            return ()
        group = self.groups.home(key)
        if uid in group.members:
            self._group_transitions.forget(group, uid, now, "bound")
        self.groups.add_placed(group, uid, key.partition("/")[2])
        self._group_transitions.reenter(group, CHANGED, now)
        return self._calls.take_instructions()

    def member_removed(self, uid: str, now: float) -> Instructions:
        """A member that had a node is gone."""
        group = self.groups.drop_placed(uid)
        if group is not None:
            self._group_transitions.reenter(group, CHANGED, now)
            self.groups.tidy(group)
        return self._calls.take_instructions()

    # --- attempts ----------------------------------------------------------------------------------------------------

    def pop(self, now: float, max_batch: int) -> Batch | None:
        """As the queue's; a group comes alone, as its entity, with all members that wait."""
        batch = super().pop(now, max_batch)
        if batch is None or batch.class_id >= 0:
            return batch
        group: QueuedPodGroupInfo = batch.pods[0].record.pod
        group.attempt = frozenset(group.waiting)
        self._group_transitions.caller.begin_anew(group.calls)
        self._transitions.start_member_attempts(group.waiting.values(), now)
        self._cycle += len(group.waiting) - 1
        group.waiting = {}
        return batch

    def finish_attempt(self, group: QueuedPodGroupInfo, how: Attempt, now: float) -> Instructions:
        """The attempt at the group is over, and its pods were requeued or are being bound. Those that were requeued,
        and those that came meanwhile, are the group from now on.
        """
        entity, tried = group.entity, group.attempt
        if entity is None or not isinstance(entity.state, InFlight) or tried is None:
            raise ValueError(f"group {group.key} is not being tried")
        group.attempt = None
        left, group.pending = group.pending, {}
        group.waiting |= left
        if not group.waiting or group.tree is None:
            group.entity = None
            self._transitions.drop(entity, entity.state, now, "attempted")
            self._group_transitions.hold(group, now)
            self.groups.tidy(group)
            return self._calls.take_instructions()
        self._transitions.return_to_queue(entity, entity.state)
        del self._transitions.queued[entity.record.key]
        if how is Attempt.SCHEDULED:
            entity.unschedulable_count = entity.consecutive_errors = 0
        elif how is Attempt.ERROR:
            entity.consecutive_errors += 1
        else:
            entity.unschedulable_count += 1
            entity.consecutive_errors = 0
        if how is not Attempt.SCHEDULED or tried.isdisjoint(left):
            # What is left of a group that went may be tried again at once, before what came since.
            entity.timestamp = now
        entity.backoff_expiration = 0.0
        self._group_transitions.enter(
            group, Destination.ACTIVE if how is Attempt.SCHEDULED else Destination.BACKOFF, _FAILED, now
        )
        return self._calls.take_instructions()

    def done(self, uid: str, now: float) -> None:
        """As the queue's."""
        group = self.groups.of_member(uid)
        if group is None:
            super().done(uid, now)
            return
        pod = group.members[uid]
        if isinstance(pod.state, InFlight):
            self._transitions.complete_member(pod, pod.state, now)

    def requeue(
        self,
        pod: QueuedPodInfo,
        now: float,
        *,
        rejectors: frozenset[str] = NO_PLUGINS,
        pending_plugins: frozenset[str] = NO_PLUGINS,
        record: PodInfo | None = None,
        nominated_node: str | None = None,
    ) -> Instructions:
        """As the queue's; a member joins its group again, whose back-off counts, not the member's."""
        if not pod.record.pod.parsed.group:
            return super().requeue(
                pod,
                now,
                rejectors=rejectors,
                pending_plugins=pending_plugins,
                record=record,
                nominated_node=nominated_node,
            )
        if isinstance(pod.state, Gone):
            return ()
        if not pod.popped:
            raise ImpossibleTransition(pod, "be requeued", self._transitions.log)
        group = self.groups.of_member(pod.record.uid)
        if group is None:
            self._transitions.forget(pod, now, "gone when requeued")
            return ()
        self._record_failure(pod, record or pod.latest, now, rejectors, pending_plugins, nominated_node)
        self._group_transitions.join(group, pod, _FAILED, now)
        return self._calls.take_instructions()

    # --- what happens in the cluster, and time -----------------------------------------------------------------------

    def listens(self) -> bool:
        """As the queue's; groups that are held back wait for events, too."""
        return super().listens() or bool(self._held())

    def on_event(
        self,
        event: ClusterEvent,
        old: Any,
        new: Any,
        now: float,
        *,
        max_priority: int | None = None,
        exclude_uid: str = "",
    ) -> Instructions:
        """As the queue's; groups held back by a plugin that registered the event are checked again."""
        instructions = super().on_event(event, old, new, now, max_priority=max_priority, exclude_uid=exclude_uid)
        for group in self._held():
            assert group.entity is not None  # what is held back is an entity
            if self._hints.interests(group.entity.gated_by, event):
                self._group_transitions.recheck(group, event.label, now)
        return [*instructions, *self._calls.take_instructions()]

    def flush_backoff(self, now: float) -> Instructions:
        """As the queue's; members go with their group."""
        instructions = super().flush_backoff(now)
        for group in self.groups:
            entity = group.entity
            if entity is not None and isinstance(entity.state, Active):
                for pod in group.waiting.values():
                    self._transitions.move(pod, entity.state, cluster_event.BACKOFF_COMPLETE, now)
        return instructions

    def flush_unschedulable(self, now: float) -> Instructions:
        """As the queue's; groups of which something is missing for long are reported, once."""
        for group in self._held():
            self._group_transitions.recheck(group, _TIMED_OUT, now)
        for group in list(self.groups):
            if group.waiting_since and not group.notified and now - group.waiting_since >= NOTIFY_AFTER:
                group.notified = True
                self._notify(group, self.groups.missing(group) if group.tree is None else "")
        return super().flush_unschedulable(now)

    def recheck_pre_enqueue(self, profile: str, event: ClusterEvent, now: float) -> Instructions:
        """As the queue's; a group is held back for its members."""
        instructions = super().recheck_pre_enqueue(profile, event, now)
        for group in self.groups:
            entity = group.entity
            waits = entity is not None and isinstance(entity.state, (Active, BackOff, PreEnqueuePending))
            if waits and entity is not None and entity.record.profile == profile and group.attempt is None:
                self._group_transitions.enter(group, self._group_transitions.destination(group), event.label, now)
        return [*instructions, *self._calls.take_instructions()]

    def _by_itself(self, pod: QueuedPodInfo) -> bool:
        return not isinstance(pod.record.pod, QueuedPodGroupInfo)

    def repeat_pre_enqueue(self, call_id: int) -> bool:
        """As the queue's."""
        pod = self._calls.pre_enqueue_pod(call_id)
        group = self.groups.of_member(pod.uid) if pod is not None else None
        if pod is None or group is None:
            return super().repeat_pre_enqueue(call_id)
        return self._group_transitions.caller.repeat(group.calls, pod.uid)

    def pre_enqueue_answered(self, call_id: int, gated_by: str, now: float, reason: str = "") -> Instructions:
        """As the queue's; a group enters when all of its members have passed."""
        pod = self._calls.pre_enqueue_pod(call_id)
        group = self.groups.of_member(pod.uid) if pod is not None else None
        if pod is None or group is None or group.entity is None:
            return super().pre_enqueue_answered(call_id, gated_by, now, reason)
        calls, label = group.calls, group.calls.open[pod.uid].label
        happened = self._group_transitions.caller.answered(calls, pod)
        if not gated_by:
            calls.passed.add(pod.uid)
            calls.refused = None
            if not calls.open:
                self._group_transitions.enter(group, calls.destination, label, now)
        elif happened is None or any(self._hints.interests(gated_by, each.event) for each in happened):
            self._group_transitions.caller.call_again(calls, pod, label)
        else:
            self._group_transitions.caller.begin_anew(calls, pod)
            self._group_transitions.hold_back(group, gated_by, label, now, reason)
        return self._calls.take_instructions()

    # --- what is where -----------------------------------------------------------------------------------------------

    def get(self, key: str) -> QueuedPodInfo | None:
        """As the queue's."""
        found = super().get(key)
        if found is not None:
            return found
        return next((pod for group in self.groups for pod in group.members.values() if pod.record.key == key), None)

    def status_of(self, pod: QueuedPodInfo) -> QueueStatus:
        """As the queue's; a member has the state of its group."""
        status = super().status_of(pod)
        group = self.groups.of_member(pod.record.uid)
        if group is None:
            return status
        return dataclasses.replace(status, group=f"{group.namespace}/{group_of(pod)}", root=group.entity_key)

    def waiting_pods(self) -> list[QueuedPodInfo]:
        """As the queue's: pods, not groups."""
        singles = [pod for pod in super().waiting_pods() if pod.record.class_id >= 0]
        return singles + [
            pod for group in self.groups for pods in (group.waiting, group.pending) for pod in pods.values()
        ]

    def pods(self) -> list[QueuedPodInfo]:
        """As the queue's: pods, not groups."""
        singles = [pod for pod in super().pods() if pod.record.class_id >= 0]
        return singles + [pod for group in self.groups for pod in group.members.values()]

    def in_flight_pods(self) -> list[QueuedPodInfo]:
        """As the queue's: pods, not groups."""
        singles = [pod for pod in super().in_flight_pods() if pod.record.class_id >= 0]
        return singles + [
            pod for group in self.groups for pod in group.members.values() if isinstance(pod.state, InFlight)
        ]

    def statistics(self) -> QueueStatistics:
        """As the queue's, in pods."""
        return group_statistics.with_groups(super().statistics(), self.groups)

    # --- within ------------------------------------------------------------------------------------------------------

    def _regroup(self, key: GroupKey, change: Callable[[], None], now: float) -> None:
        """Let the objects change, and then each tree that is another, and each PodGroup that is in another."""
        groups = self.groups
        names = groups.forest.below(key)
        before = [groups.home(name) for name in names]
        changed = dict.fromkeys((*before, *self._tree_of(key)), False)
        change()
        for name, old in zip(names, before, strict=True):
            new = groups.home(name)
            came = new is not old and self._group_transitions.rehome(name.partition("/")[2], old, new)
            changed[new] = changed.get(new, False) or came
        for group in dict.fromkeys((*changed, *self._tree_of(key))):
            rooted = groups.forest.root(group.group_key) == group.group_key
            group.tree = groups.forest.tree(group.group_key) if rooted else None
            self._group_transitions.tree_changed(group, changed.get(group, False), now)

    def _tree_of(self, key: GroupKey) -> list[QueuedPodGroupInfo]:
        """The tree that the group is in, if it is in one."""
        root = self.groups.forest.root(key)
        return [] if root is None else [self.groups.made(root)]

    def _drop(self, group: QueuedPodGroupInfo, uid: str, now: float, cause: str = DELETED) -> None:
        """A member is deleted, or has a node."""
        self._group_transitions.forget(group, uid, now, cause)
        self._group_transitions.reenter(group, CHANGED, now)
        self.groups.tidy(group)

    def _held(self) -> list[QueuedPodGroupInfo]:
        return [group for group in self.groups if group.entity is not None and group.entity.gated_by]
