"""PodGroupQueue: the scheduling queue of a cluster with pod groups. Members of a group are queued as one.

A pod that names a group is no entity of its own: it is kept with its group (`queued_group`), and while members wait,
the group is queued in their place, as an entity with a class of its own. Where the group is, its members are:

    incomplete     there is no such PodGroup, or somebody above it is missing: held, without back-off
    unschedulable  PreEnqueue holds back the group, or one of its members and so all of them
    asked          remote PreEnqueue plugins are asked about members (`member_calls`)
    active, back-off, in flight: as the entity
    pending        it came, or came back, while the group was being tried: it joins the group when that is over
    done           in the hands of who binds it

Where groups are in groups, the group that is queued is the whole tree, named after its root.

Queueing hints are not asked about a group whose attempt failed: it is tried again after its back-off. A group that is
held back is looked at again when something happens that the gate registered, or that changes what it looked at here.

Source: pkg/scheduler/backend/queue/scheduling_queue.go, pkg/scheduler/framework/plugins/gangscheduling.
"""

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from trireme.framework import cluster_event
from trireme.framework.cluster_event import ClusterEvent
from trireme.frontend.serving import metrics_observed
from trireme.queueing.groups import group_statistics
from trireme.queueing.groups.forest import Group, GroupKey, key_of
from trireme.queueing.groups.group_transitions import ADDED, CHANGED, GroupTransitions
from trireme.queueing.groups.queued_group import PodGroups, QueuedPodGroupInfo, group_of
from trireme.queueing.pre_enqueue import PreEnqueue, PreEnqueueResult
from trireme.queueing.queue_status import QueueStatistics, QueueStatus
from trireme.queueing.queued_pod import NO_PLUGINS, Asking, Flight, Place, PodInfo, QueuedPodInfo
from trireme.queueing.remote_calls import Instructions
from trireme.queueing.scheduling_queue import Batch
from trireme.queueing.transition_log import DELETED, ImpossibleTransition

# A group that lacks its object or members for so long is told of: nobody but its owner can help it. Seconds.
TELL_AFTER: Final = 30.0

_ACTIVATED = cluster_event.FORCE_ACTIVATE.label
_TIMED_OUT = cluster_event.UNSCHEDULABLE_TIMEOUT.label
_FAILED = cluster_event.SCHEDULE_ATTEMPT_FAILURE


class Attempt(enum.Enum):
    """How the attempt to schedule a group ended. The values are those of metrics."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    WAITING = "waiting_on_preemption"
    ERROR = "error"


class PodGroupQueue(metrics_observed.TimedQueue):
    """The scheduling queue, with groups in it."""

    def __init__(
        self,
        observed: metrics_observed.Observations,
        hints: Any,
        pre_enqueue: PreEnqueue,
        *,
        gang_profiles: frozenset[str],
        preempting: Callable[[str], bool],
        tell: Callable[[QueuedPodGroupInfo, str], None],
        gone: Callable[[str], None],
        composite: bool = False,
        **named: Any,
    ) -> None:
        """`gang_profiles` have GangScheduling at PreEnqueue. `preempting` says of an entity's key whether victims of
        the group are still to be deleted. `tell` is called once for a group that lacks something for long, with what it
        waits for if it is not members; `gone` with the UID of each PodGroup that is deleted. `composite`: groups may be
        made of groups.
        """
        self.groups = PodGroups(composite=composite)
        self._tell = tell
        self._gone = gone

        def gate(pod: QueuedPodInfo) -> str | PreEnqueueResult:
            # A group's members were asked about before it came this far.
            return PreEnqueueResult.ALLOWED if pod.record.class_id < 0 else pre_enqueue(pod)

        super().__init__(observed, hints, gate, **named)
        self._seats = GroupTransitions(
            self.groups,
            self._places,
            self._policy,
            self.nominator,
            self._questions,
            self._log,
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
        self._seats.join(group, pod, ADDED, now)
        return self._questions.take_instructions()

    def update(self, record: PodInfo, events: Sequence[ClusterEvent], old: Any, new: Any, now: float) -> Instructions:
        """As the queue's; a group that is held back for what the member was is looked at again."""
        group = self.groups.of_member(record.uid)
        if group is None:
            return super().update(record, events, old, new, now)
        pod = group.members[record.uid]
        if pod.flight is not None:
            pod.flight.newest = record
            return ()
        before = pod.record
        if record.resource_version and record.resource_version == before.resource_version:
            return ()
        pod.record = record
        self.nominator.update(before, record)
        if group.blocker is pod or group.entry.refused is pod:
            self._seats.look_again(group, CHANGED, now)
        elif record.uid in group.entry.open:
            # The answer under way is about the old object.
            self._seats.asker.ask_again(group.entry, pod, CHANGED)
        return self._questions.take_instructions()

    def reclassify(self, key: str, uid: str, class_id: int) -> None:
        """As the queue's."""
        group = self.groups.of_member(uid)
        if group is None:
            super().reclassify(key, uid, class_id)
            return
        pod = group.members[uid]
        if pod.flight is not None:
            pod.flight.newest = (pod.flight.newest or pod.record)._replace(class_id=class_id)
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
        return self._questions.take_instructions()

    def activate(self, pods: Iterable[tuple[str, str]], now: float) -> Instructions:
        """As the queue's; of a member the whole group is activated, unless it is being tried."""
        singles = []
        for key, uid in pods:
            group = self.groups.entity(key) or self.groups.of_member(uid)
            if group is None:
                singles.append((key, uid))
            elif group.waiting and group.tree is not None and group.attempt is None:
                self._seats.seat(group, Place.ACTIVE, _ACTIVATED, now)
        return super().activate(singles, now)

    # --- groups come, change and go ----------------------------------------------------------------------------------

    def set_group(self, group: Group, now: float) -> Instructions:
        """The PodGroup or CompositePodGroup is this from now on."""
        self._regroup(key_of(group), lambda: self.groups.forest.set(group), now)
        return self._questions.take_instructions()

    def remove_group(self, key: str, uid: str, now: float, *, composite: bool = False) -> Instructions:
        """There is no such PodGroup, or CompositePodGroup, any more: whose tree it was part of is held until there is
        one again.
        """
        if not composite:
            self._gone(uid)
        gone = GroupKey(key, composite)
        self._regroup(gone, lambda: self.groups.forest.remove(gone), now)
        return self._questions.take_instructions()

    def member_placed(self, key: str, uid: str, now: float) -> Instructions:
        """The watch shows a member of the group on a node."""
        if self.groups.of_placed(uid) is not None:
            return ()
        group = self.groups.home(key)
        if uid in group.members:
            self._seats.forget(group, uid, now, "bound")
        self.groups.add_placed(group, uid, key.partition("/")[2])
        self._seats.reseat(group, CHANGED, now)
        return self._questions.take_instructions()

    def member_removed(self, uid: str, now: float) -> Instructions:
        """A member that had a node is gone."""
        group = self.groups.drop_placed(uid)
        if group is not None:
            self._seats.reseat(group, CHANGED, now)
            self.groups.tidy(group)
        return self._questions.take_instructions()

    # --- attempts ----------------------------------------------------------------------------------------------------

    def pop(self, now: float, max_batch: int) -> Batch | None:
        """As the queue's; a group comes alone, as its entity, with all members that wait."""
        batch = super().pop(now, max_batch)
        if batch is None or batch.class_id >= 0:
            return batch
        group: QueuedPodGroupInfo = batch.pods[0].record.pod
        group.attempt = frozenset(group.waiting)
        self._seats.asker.begin_anew(group.entry)
        for pod in group.waiting.values():
            pod.flight = Flight(None)
            pod.place = Place.IN_FLIGHT
            pod.attempts += 1
            pod.popped_at = now
            self._places.count_refusals(pod, -1)
            self._places.story.tell(now, pod, Place.IN_FLIGHT, "popped")
        self._cycle += len(group.waiting) - 1
        group.waiting = {}
        return batch

    def finish_attempt(self, group: QueuedPodGroupInfo, how: Attempt, now: float) -> Instructions:
        """The attempt at the group is over, and its pods were put back or are being bound. Those that were put back,
        and those that came meanwhile, are the group from now on.
        """
        entity, tried = group.entity, group.attempt
        if entity is None or entity.flight is None or tried is None:
            raise ValueError(f"group {group.key} is not being tried")
        group.attempt = None
        left, group.pending = group.pending, {}
        group.waiting |= left
        if not group.waiting or group.tree is None:
            group.entity = None
            self._places.let_go(entity, entity.flight, now, "attempted")
            self._seats.hold(group, now)
            self.groups.tidy(group)
            return self._questions.take_instructions()
        self._places.take_back(entity, entity.flight)
        del self._places.queued[entity.record.key]
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
        entity.expiry = 0.0
        self._seats.seat(group, Place.ACTIVE if how is Attempt.SCHEDULED else Place.BACKOFF, _FAILED, now)
        return self._questions.take_instructions()

    def done(self, uid: str, now: float) -> None:
        """As the queue's."""
        group = self.groups.of_member(uid)
        if group is None:
            super().done(uid, now)
            return
        pod = group.members[uid]
        if pod.place is Place.IN_FLIGHT:
            pod.place = Place.DONE
            self._places.story.tell(now, pod, Place.DONE, "done")

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
        flight = pod.flight
        if pod.place is Place.GONE:
            return ()
        if flight is None:
            raise ImpossibleTransition(pod, "be put back", self._places.story)
        group = self.groups.of_member(pod.record.uid)
        if flight.deleted or group is None:
            pod.place = Place.GONE
            self._places.story.tell(now, pod, Place.GONE, "gone when put back")
            return ()
        pod.flight = None
        newest = record or flight.newest or pod.record
        self._note_failure(pod, newest, now, rejectors, pending_plugins, nominated_node)
        self._seats.join(group, pod, _FAILED, now)
        return self._questions.take_instructions()

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
        """As the queue's; groups that are held back by who registered the event are looked at again."""
        instructions = super().on_event(event, old, new, now, max_priority=max_priority, exclude_uid=exclude_uid)
        for group in self._held():
            assert group.entity is not None  # what is held back is an entity
            if self._hints.interests(group.entity.gated_by, event):
                self._seats.look_again(group, event.label, now)
        return [*instructions, *self._questions.take_instructions()]

    def flush_backoff(self, now: float) -> Instructions:
        """As the queue's; members go with their group."""
        instructions = super().flush_backoff(now)
        for group in self.groups:
            entity = group.entity
            if entity is not None and entity.place is Place.ACTIVE:
                for pod in group.waiting.values():
                    if pod.place is not Place.ACTIVE:
                        self._seats.move(pod, Place.ACTIVE, cluster_event.BACKOFF_COMPLETE, now)
        return instructions

    def flush_unschedulable(self, now: float) -> Instructions:
        """As the queue's; groups that lack something for long are told of, once."""
        for group in self._held():
            self._seats.look_again(group, _TIMED_OUT, now)
        for group in list(self.groups):
            if group.waiting_since and not group.told and now - group.waiting_since >= TELL_AFTER:
                group.told = True
                self._tell(group, self.groups.missing(group) if group.tree is None else "")
        return super().flush_unschedulable(now)

    def recheck_pre_enqueue(self, profile: str, event: ClusterEvent, now: float) -> Instructions:
        """As the queue's; a group is held back for its members."""
        instructions = super().recheck_pre_enqueue(profile, event, now)
        for group in self.groups:
            entity = group.entity
            waits = entity is not None and entity.place in (Place.ACTIVE, Place.BACKOFF, Place.ASKED)
            if waits and entity is not None and entity.record.profile == profile and group.attempt is None:
                self._seats.seat(group, entity.place, event.label, now)
        return [*instructions, *self._questions.take_instructions()]

    def _by_itself(self, pod: QueuedPodInfo) -> bool:
        return not isinstance(pod.record.pod, QueuedPodGroupInfo)

    def _asking(self, pod: QueuedPodInfo) -> Asking | None:
        group = self.groups.of_member(pod.uid)
        return super()._asking(pod) if group is None else group.entry.open.get(pod.uid)

    def pre_enqueue_answered(self, call_id: int, gated_by: str, now: float, reason: str = "") -> Instructions:
        """As the queue's; a group enters when all of its members have passed."""
        pod = self._questions.asked_about(call_id)
        group = self.groups.of_member(pod.uid) if pod is not None else None
        if pod is None or group is None or group.entity is None:
            return super().pre_enqueue_answered(call_id, gated_by, now, reason)
        entry, label = group.entry, group.entry.open[pod.uid].label
        happened = self._seats.asker.answered(entry, pod)
        if not gated_by:
            entry.passed.add(pod.uid)
            entry.refused = None
            if not entry.open:
                self._seats.seat(group, entry.destination, label, now)
        elif happened is None or any(self._hints.interests(gated_by, each.event) for each in happened):
            self._seats.asker.ask_again(entry, pod, label)
        else:
            self._seats.asker.begin_anew(entry, pod)
            self._seats.hold_back(group, gated_by, label, now, reason)
        return self._questions.take_instructions()

    # --- what is where -----------------------------------------------------------------------------------------------

    def get(self, key: str) -> QueuedPodInfo | None:
        """As the queue's."""
        found = super().get(key)
        if found is not None:
            return found
        return next((pod for group in self.groups for pod in group.members.values() if pod.record.key == key), None)

    def status_of(self, pod: QueuedPodInfo) -> QueueStatus:
        """As the queue's; a member is where its group is."""
        group = self.groups.of_member(pod.record.uid)
        if group is None:
            return super().status_of(pod)
        entity = group.entity
        gate = entity.gated_by if entity is not None else ""
        return QueueStatus(
            place=pod.place,
            since=pod.timestamp,
            attempts=pod.attempts,
            gate=gate,
            gate_reason=entity.gate_reason if entity is not None else "",
            until=entity.expiry if entity is not None and pod.place is Place.BACKOFF else 0.0,
            rejectors=tuple(sorted(pod.rejectors)),
            events=tuple(self._hints.registered(pod.record.profile, (gate,))) if gate else (),
            group=f"{group.namespace}/{group_of(pod)}",
            root=group.entity_key,
            lack="" if group.tree is not None else self.groups.missing(group),
        )

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
            pod for group in self.groups for pod in group.members.values() if pod.place is Place.IN_FLIGHT
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
            came = new is not old and self._seats.rehome(name.partition("/")[2], old, new)
            changed[new] = changed.get(new, False) or came
        for group in dict.fromkeys((*changed, *self._tree_of(key))):
            rooted = groups.forest.root(group.group_key) == group.group_key
            group.tree = groups.forest.tree(group.group_key) if rooted else None
            self._seats.regrouped(group, changed.get(group, False), now)

    def _tree_of(self, key: GroupKey) -> list[QueuedPodGroupInfo]:
        """The tree that the group is in, if it is in one."""
        root = self.groups.forest.root(key)
        return [] if root is None else [self.groups.made(root)]

    def _drop(self, group: QueuedPodGroupInfo, uid: str, now: float, cause: str = DELETED) -> None:
        """A member is deleted, or has a node."""
        self._seats.forget(group, uid, now, cause)
        self._seats.reseat(group, CHANGED, now)
        self.groups.tidy(group)

    def _held(self) -> list[QueuedPodGroupInfo]:
        return [group for group in self.groups if group.entity is not None and group.entity.gated]
