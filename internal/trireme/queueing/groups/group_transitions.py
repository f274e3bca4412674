"""The states of groups: a group is queued in place of its members, and they share its state.

Whatever changes for a group (a member, its object, an answer) ends here, with the state that it has now. What changed
is the business of `group_queue`.

Source: pkg/scheduler/backend/queue/scheduling_queue.go, pkg/scheduler/framework/plugins/gangscheduling.
"""

from collections.abc import Callable
from typing import Final

from trireme.framework import cluster_event, event_phrases
from trireme.queueing.backoff import BackoffPolicy
from trireme.queueing.groups.member_calls import MemberCaller
from trireme.queueing.groups.queued_group import GANG_SCHEDULING, PodGroups, QueuedPodGroupInfo, group_of
from trireme.queueing.in_flight_events import InFlightEvents
from trireme.queueing.nominator import Nominator
from trireme.queueing.pre_enqueue import DEFAULT_PREEMPTION, PreEnqueue, PreEnqueueResult
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.queueing.remote_calls import RemoteCalls
from trireme.queueing.states import (
    GONE,
    GROUP_IN_FLIGHT,
    GROUP_PRE_ENQUEUE_PENDING,
    Active,
    Destination,
    Gated,
    PreEnqueuePending,
    WaitingForGroup,
)
from trireme.queueing.transitions import Transitions

ADDED: Final = cluster_event.UNSCHEDULED_POD_ADD.label
CHANGED: Final = "PodGroupUpdate"


class GroupTransitions:
    """Puts groups where they belong."""

    def __init__(
        self,
        groups: PodGroups,
        transitions: Transitions,
        policy: BackoffPolicy,
        nominator: Nominator,
        calls: RemoteCalls,
        events: InFlightEvents,
        pre_enqueue: PreEnqueue,
        gang_profiles: frozenset[str],
        preempting: Callable[[str], bool],
    ) -> None:
        """`pre_enqueue` is for members; the rest as the queue has it."""
        self.caller = MemberCaller(calls, events)
        self._groups = groups
        self._transitions = transitions
        self._policy = policy
        self._nominator = nominator
        self._pre_enqueue = pre_enqueue
        self._gang_profiles = gang_profiles
        self._preempting = preempting

    def forget(self, group: QueuedPodGroupInfo, uid: str, now: float, cause: str) -> None:
        """A member without a node is gone, or has one."""
        self._nominator.delete(uid)
        pod = group.members[uid]
        if not pod.popped:
            self._transitions.count_rejectors(pod, -1)
        self._groups.drop_member(uid)
        self.caller.forget(group.calls, uid)
        if group.blocker is pod:
            group.blocker = None
        self._transitions.forget(pod, now, cause)

    def join(self, group: QueuedPodGroupInfo, pod: QueuedPodInfo, label: str, now: float) -> None:
        """A member that is nowhere waits with its group, wherever that is."""
        if group.tree is not None and group.attempt is not None:
            group.pending[pod.record.uid] = pod
            self._transitions.move(pod, GROUP_IN_FLIGHT, label, now)
            return
        group.waiting[pod.record.uid] = pod
        entity = group.entity
        if group.tree is None:
            self.hold(group, now)
        elif entity is None:
            self.enter(group, Destination.ACTIVE, label, now)
        elif entity.gated_by and group.calls.refused is not None:
            # It is held back for another member.
            self._transitions.move(pod, entity.state, label, now)
        elif entity.gated_by or self._refused(group, pod):
            self.reenter(group, label, now)
        elif self._needs_call(group, pod):
            self.enter(group, self.destination(group), label, now)
        else:
            self._transitions.move(pod, entity.state, label, now)

    def rehome(self, name: str, old: QueuedPodGroupInfo, new: QueuedPodGroupInfo) -> bool:
        """The PodGroup of this name belongs to another tree now, or to none; answers whether any member waits there
        now. Both trees are to be checked again.
        """
        came = False
        for uid, pod in [(uid, pod) for uid, pod in old.members.items() if group_of(pod) == name]:
            waits = uid in old.waiting or uid in old.pending
            self._groups.drop_member(uid)
            self._groups.add_member(new, pod)
            self.caller.forget(old.calls, uid)
            old.blocker = None if old.blocker is pod else old.blocker
            if waits:
                new.waiting[uid] = pod
                came = True
        for uid in [uid for uid, whose in old.placed.items() if whose == name]:
            self._groups.drop_placed(uid)
            self._groups.add_placed(new, uid, name)
        return came

    def tree_changed(self, group: QueuedPodGroupInfo, came: bool, now: float) -> None:
        """The group's tree is another, or there is none any more. `came`: members wait with it that were elsewhere."""
        entity = group.entity
        if group.tree is None:
            group.waiting |= group.pending
            group.pending = {}
            if group.attempt is None:
                self.dequeue(group)
            self.hold(group, now)
            self._groups.tidy(group)
        elif group.attempt is not None:
            for pod in group.waiting.values():
                self._transitions.move(pod, GROUP_IN_FLIGHT, ADDED, now)
            group.pending |= group.waiting
            group.waiting = {}
        elif entity is None and group.waiting:
            self.enter(group, Destination.ACTIVE, ADDED, now)
        elif entity is None or not came:
            self.reenter(group, CHANGED, now)
        elif entity.gated_by and group.calls.refused is not None:
            # It is held back for another member.
            self.hold_back(group, entity.gated_by, ADDED, now, entity.gate_reason)
        else:
            self.enter(group, self.destination(group), ADDED, now)

    def hold(self, group: QueuedPodGroupInfo, now: float) -> None:
        """The members of a group without a tree wait for it."""
        if group.tree is None:
            state = WaitingForGroup(self._groups.missing(group))
            for pod in group.waiting.values():
                self._transitions.move(pod, state, CHANGED, now)
        self.update_waiting_since(group, now)

    def recheck(self, group: QueuedPodGroupInfo, label: str, now: float) -> None:
        """Whether the group, which is held back, still has to be."""
        entity = group.entity
        if entity is not None and entity.gated_by and group.attempt is None and not self._gated_by(group):
            self.enter(group, Destination.BACKOFF, label, now)

    def reenter(self, group: QueuedPodGroupInfo, label: str, now: float) -> None:
        """The members of the group, or its object, changed: whether it waits where it did, or is held back now."""
        if group.entity is None or group.attempt is not None:
            self.update_waiting_since(group, now)
        elif not group.waiting:
            self.dequeue(group)
            self.update_waiting_since(group, now)
        elif group.entity.gated_by and group.calls.refused is not None:
            self.update_waiting_since(group, now)
        elif group.entity.gated_by:
            self.enter(group, Destination.BACKOFF, label, now)
        elif (
            isinstance(group.entity.state, PreEnqueuePending)
            or self._gated_by(group)
            or group.entity.record.level != -group.priority
        ):
            self.enter(group, self.destination(group), label, now)

    def destination(self, group: QueuedPodGroupInfo) -> Destination:
        """Where a group that waits goes if it enters again."""
        assert group.entity is not None  # only called for groups that are queued
        match group.entity.state:
            case Active():
                return Destination.ACTIVE
            case PreEnqueuePending():
                return group.calls.destination
            case _:
                return Destination.BACKOFF

    def enter(self, group: QueuedPodGroupInfo, destination: Destination, label: str, now: float) -> None:
        """Queue the group, or hold it back. It enters the active queue once its back-off is over."""
        entity = group.entity
        if entity is None:
            first = next(iter(group.waiting.values()))
            entity = group.entity = QueuedPodInfo(group.record(), now)
            entity.timestamp, entity.initial_attempt_timestamp = first.timestamp, first.initial_attempt_timestamp
        else:
            self._leave_queue(entity)
            entity.record = group.record()
        gated_by = self._gated_by(group)
        if gated_by:
            self.caller.begin_anew(group.calls)
            self.hold_back(group, gated_by, label, now)
            return
        members = {uid: pod for uid, pod in group.waiting.items() if self._needs_call(group, pod)}
        if self.caller.call(group.calls, members, destination, label):
            self._transitions.set_group_state(entity, GROUP_PRE_ENQUEUE_PENDING)
        else:
            # Before it is computed without regard to how many they are.
            self._policy.expiry(entity, len(group.waiting))
            self._transitions.queued[entity.record.key] = entity
            self._transitions.admit(entity, destination, label, now)
            self._transitions.incoming[entity.state.label, label] += len(group.waiting) - 1
        for pod in group.waiting.values():
            self._transitions.move(pod, entity.state, label, now)
        self.update_waiting_since(group, now)

    def hold_back(self, group: QueuedPodGroupInfo, plugin: str, label: str, now: float, reason: str = "") -> None:
        """The plugin holds back the group, which is in no structure, for this reason."""
        assert group.entity is not None  # only a queued group is held back
        state = Gated(plugin, reason)
        self._transitions.set_group_state(group.entity, state)
        for pod in group.waiting.values():
            self._transitions.move(pod, state, event_phrases.gated(label, plugin, reason), now)
        self.update_waiting_since(group, now)

    def dequeue(self, group: QueuedPodGroupInfo) -> None:
        """Nothing is queued for the group any more."""
        if group.entity is not None:
            self._leave_queue(group.entity)
            self._transitions.set_group_state(group.entity, GONE)
            group.entity = None
        self.caller.begin_anew(group.calls)
        group.blocker = None

    def update_waiting_since(self, group: QueuedPodGroupInfo, now: float) -> None:
        """Notes since when members wait and something is missing that only others can create."""
        if not (group.waiting and (group.tree is None or group.lacks_pods)):
            group.waiting_since, group.notified = 0.0, False
        elif not group.waiting_since:
            group.waiting_since = now

    def _leave_queue(self, entity: QueuedPodInfo) -> None:
        if self._transitions.queued.get(entity.record.key) is entity:
            self._transitions.detach(entity)
            del self._transitions.queued[entity.record.key]

    def _gated_by(self, group: QueuedPodGroupInfo) -> str:
        """The plugin that holds the group back, or one of its members; empty: none does. Cheap while the reason is the
        same as before.
        """
        blocker, group.blocker = group.blocker, None
        profile = next(iter(group.waiting.values())).record.profile
        if group.lacks_pods and profile in self._gang_profiles:
            return GANG_SCHEDULING
        if self._preempting(group.entity_key):
            return DEFAULT_PREEMPTION
        if blocker is not None and blocker.record.uid in group.waiting:
            plugin = self._refused(group, blocker)
            if plugin:
                return plugin
        return next((plugin for pod in group.waiting.values() if (plugin := self._refused(group, pod))), "")

    def _refused(self, group: QueuedPodGroupInfo, pod: QueuedPodInfo) -> str:
        """The plugin that holds the member back; empty: none does."""
        verdict = self._pre_enqueue(pod)
        if isinstance(verdict, PreEnqueueResult):
            return ""
        group.blocker = pod
        return verdict

    def _needs_call(self, group: QueuedPodGroupInfo, pod: QueuedPodInfo) -> bool:
        """Whether remote plugins have to be called for the member before the group enters."""
        return pod.uid not in group.calls.passed and self._pre_enqueue(pod) is PreEnqueueResult.CALL_REMOTE
