"""The states of groups: a group is queued in place of its members, and they share its state.

`queue_groups` decides what a change (of a member, an object, an answer) means and counts failures; this module then
sets the group's state.

Source: pkg/scheduler/backend/queue/scheduling_queue.go, pkg/scheduler/framework/plugins/gangscheduling.

Tests: tests/unit/queueing/test_group_queue.py, tests/unit/queueing/test_group_changes.py,
tests/unit/queueing/test_group_state_machine.py.
"""

from typing import Final

from trireme.framework import cluster_event, event_phrases
from trireme.queueing.groups.group_settings import GroupSettings
from trireme.queueing.groups.member_pre_enqueue_calls import MemberPreEnqueueCaller
from trireme.queueing.groups.queued_group import PodGroups, QueuedPodGroupInfo, pod_group_name
from trireme.queueing.in_flight_events import InFlightEvents
from trireme.queueing.nominator import Nominator
from trireme.queueing.pre_enqueue import PreEnqueue, PreEnqueueResult
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.queueing.states import (
    ACTIVE,
    DONE,
    GONE,
    GROUP_IN_FLIGHT,
    GROUP_PRE_ENQUEUE_PENDING,
    Active,
    Destination,
    Done,
    Gated,
    InFlight,
    PreEnqueuePending,
    QueueState,
    WaitingForGroup,
)
from trireme.queueing.transitions import Transitions
from trireme.registry.in_tree import GANG_PLUGIN, PREEMPTION_PLUGIN

ADDED: Final = cluster_event.UNSCHEDULED_POD_ADD.label
CHANGED: Final = "PodGroupUpdate"


class GroupTransitions:
    """The state of each group and of its members. Nothing else assigns those, but for `Transitions` as groups enter."""

    def __init__(
        self,
        registry: PodGroups,
        transitions: Transitions,
        caller: MemberPreEnqueueCaller,
        settings: GroupSettings,
        *,
        events: InFlightEvents,
        nominator: Nominator,
        pre_enqueue: PreEnqueue,
    ) -> None:
        """`pre_enqueue` is for members; the rest is what the queue has."""
        self.caller = caller
        self._registry = registry
        self._transitions = transitions
        self._events = events
        self._nominator = nominator
        self._pre_enqueue = pre_enqueue
        self._gang_profiles = settings.gang_profiles
        self._preempting = settings.preempting

    def remove_member(self, group: QueuedPodGroupInfo, uid: str, now: float, cause: str) -> None:
        """A member without a node is gone, or has one."""
        self._nominator.delete(uid)
        pod = group.members[uid]
        if not pod.popped:
            self._transitions.count_rejectors(pod, -1)
        self._registry.drop_member(uid)
        self.caller.drop_call(group.calls, uid)
        pod.state = GONE
        self._transitions.log.append(now, pod, cause)

    def join(self, group: QueuedPodGroupInfo, pod: QueuedPodInfo, label: str, now: float) -> None:
        """A member that is in no structure waits with its group, in the state of the group."""
        if group.tree is not None and group.attempt is not None:
            group.pending[pod.record.uid] = pod
            self._set_member_state(pod, GROUP_IN_FLIGHT, label, now)
            return
        group.waiting[pod.record.uid] = pod
        if group.tree is None:
            self.wait_for_tree(group, now)
        elif not group.queued:
            self.enter(group, Destination.ACTIVE, label, now)
        elif group.gated_by and group.calls.refused is not None:
            # It is held back for another member.
            self._set_member_state(pod, group.state, label, now)
        elif group.gated_by or self._plugin_gating_member(group, pod):
            self.recheck_group(group, label, now)
        elif self._needs_pre_enqueue_call(group, pod):
            self.enter(group, self.reentry_destination(group), label, now)
        else:
            self._set_member_state(pod, group.state, label, now)

    def move_pod_group(self, name: str, old: QueuedPodGroupInfo, new: QueuedPodGroupInfo) -> bool:
        """Move the PodGroup of this name with its members to tree `new`; returns whether any member waits there now.

        Members keep their state, but their PreEnqueue calls are forgotten. The caller has to check both trees again.
        """
        joined = False
        for uid, pod in [(uid, pod) for uid, pod in old.members.items() if pod_group_name(pod) == name]:
            waits = uid in old.waiting or uid in old.pending
            self._registry.drop_member(uid)
            self._registry.add_member(new, pod)
            self.caller.drop_call(old.calls, uid)
            if waits:
                new.waiting[uid] = pod
                joined = True
        for uid in [uid for uid, group in old.placed.items() if group == name]:
            self._registry.drop_placed(uid)
            self._registry.add_placed(new, uid, name)
        return joined

    def follow_tree_change(self, group: QueuedPodGroupInfo, joined: bool, now: float) -> None:
        """Follow a change of the group's tree: queue the group, check it again, or let it wait for a missing object.

        During an attempt nothing is queued: members that are new wait for its end. `joined`: members wait with it that
        waited elsewhere before.
        """
        if group.tree is None:
            group.waiting |= group.pending
            group.pending = {}
            if group.attempt is None:
                self.dequeue(group)
            self.wait_for_tree(group, now)
            self._registry.drop_if_empty(group)
        elif group.attempt is not None:
            for pod in group.waiting.values():
                self._set_member_state(pod, GROUP_IN_FLIGHT, ADDED, now)
            group.pending |= group.waiting
            group.waiting = {}
        elif not group.queued and group.waiting:
            self.enter(group, Destination.ACTIVE, ADDED, now)
        elif not joined:
            self.recheck_group(group, CHANGED, now)
        elif group.gated_by and group.calls.refused is not None:
            # It is held back for another member.
            self.gate(group, group.gated_by, ADDED, now, group.gate_reason)
        else:
            self.enter(group, self.reentry_destination(group), ADDED, now)

    def wait_for_tree(self, group: QueuedPodGroupInfo, now: float) -> None:
        """The waiting members of a group have no tree, and wait for it."""
        state = WaitingForGroup(self._registry.missing_text(group))
        for pod in group.waiting.values():
            self._set_member_state(pod, state, CHANGED, now)
        self.update_waiting_since(group, now)

    def recheck_gate(self, group: QueuedPodGroupInfo, label: str, now: float) -> None:
        """Queue a gated group, with its back-off, unless a plugin gates it still."""
        if group.gated_by:
            self.enter(group, Destination.BACKOFF, label, now)

    def recheck_group(self, group: QueuedPodGroupInfo, label: str, now: float) -> None:
        """Check a group again whose members or object changed: leave, requeue or gate it, or take it out.

        A group that is being tried, or that a remote plugin holds back, stays as it is; one that is no longer gated
        backs off; one without waiting members leaves the queue.
        """
        if not group.queued or group.attempt is not None:
            self.update_waiting_since(group, now)
        elif not group.waiting:
            self.dequeue(group)
            self.update_waiting_since(group, now)
        elif group.gated_by and group.calls.refused is not None:
            self.update_waiting_since(group, now)
        elif group.gated_by:
            self.enter(group, Destination.BACKOFF, label, now)
        elif (
            isinstance(group.state, PreEnqueuePending)
            or self._plugin_gating_group(group)
            or group.record.priority != group.priority
        ):
            self.enter(group, self.reentry_destination(group), label, now)

    def reentry_destination(self, group: QueuedPodGroupInfo) -> Destination:
        """The queue that a queued group is to enter if it has to enter again."""
        match group.state:
            case Active():
                return Destination.ACTIVE
            case PreEnqueuePending():
                return group.calls.destination
            case _:
                return Destination.BACKOFF

    def enter(self, group: QueuedPodGroupInfo, destination: Destination, label: str, now: float) -> None:
        """Queue the group, or hold it back. It enters the active queue once its back-off is over.

        A plugin that gates one member gates the group; where remote plugins have to be called for members, it waits for
        them.
        """
        if group.queued:
            _take_out_of_queue(group)
        else:
            group.start_queueing()
        group.refresh_record()
        gated_by = self._plugin_gating_group(group)
        if gated_by:
            self.caller.drop_all_calls(group.calls)
            self.gate(group, gated_by, label, now)
            return
        members = {uid: pod for uid, pod in group.waiting.items() if self._needs_pre_enqueue_call(group, pod)}
        if self.caller.call(group.calls, members, destination, label):
            group.state = GROUP_PRE_ENQUEUE_PENDING
        else:
            # Computes and stores the back-off of a group of this size; `admit` would take it for one pod.
            self._transitions.policy.expiry(group, len(group.waiting))
            self._transitions.admit(group, group.group_key, destination, label, now)
            self._transitions.incoming[group.state.label, label] += len(group.waiting) - 1
        for pod in group.waiting.values():
            self._set_member_state(pod, group.state, label, now)
        self.update_waiting_since(group, now)

    def sort_anew(self, group: QueuedPodGroupInfo) -> None:
        """Give a group in the active or back-off queue the position that follows from its members' sort keys."""
        if group.container is None:
            return
        before = group.record
        group.refresh_record()
        if group.record != before:
            self._transitions.move_within(group, group.group_key)

    def gate(self, group: QueuedPodGroupInfo, plugin: str, label: str, now: float, reason: str = "") -> None:
        """The plugin holds back the group, which is in no structure, for this reason."""
        state = group.state = Gated(plugin, reason)
        for pod in group.waiting.values():
            self._set_member_state(pod, state, event_phrases.gated_phrase(label, plugin, reason), now)
        self.update_waiting_since(group, now)

    def dequeue(self, group: QueuedPodGroupInfo) -> None:
        """Takes the group out of the queue."""
        _take_out_of_queue(group)
        group.state = GONE
        self.caller.drop_all_calls(group.calls)
        group.blocker = None

    def update_waiting_since(self, group: QueuedPodGroupInfo, now: float) -> None:
        """Sets since when members wait for an object, or for members that they have to be bound with."""
        if not (group.waiting and (group.tree is None or self._lacks_required_pods(group))):
            group.waiting_since, group.notified = 0.0, False
        elif not group.waiting_since:
            group.waiting_since = now

    # --- attempts ----------------------------------------------------------------------------------------------------

    def start_attempt(self, group: QueuedPodGroupInfo, now: float) -> None:
        """The group, which is in no structure, is in flight now with all members that wait."""
        group.state = InFlight(self._events.open_cursor(1))
        self._transitions.log.append(now, group, cluster_event.POPPED)
        group.attempt = frozenset(group.waiting)
        self.caller.drop_all_calls(group.calls)
        state = InFlight(None)
        for pod in group.waiting.values():
            pod.state = state
            pod.attempts += 1
            pod.popped_at = now
            self._transitions.count_rejectors(pod, -1)
            self._transitions.log.append(now, pod, cluster_event.POPPED)
        group.waiting = {}

    def end_attempt(self, group: QueuedPodGroupInfo) -> None:
        """The group needs the events since its attempt began no more. The caller chooses its next state."""
        assert isinstance(group.state, InFlight)
        assert group.state.cursor is not None  # only members have none
        self._events.close_cursor(group.state.cursor)

    def end_queueing(self, group: QueuedPodGroupInfo, now: float, cause: str) -> None:
        """End the state of a group that is in no structure and not queued again now; history shows `cause`."""
        group.state = GONE
        self._transitions.log.append(now, group, cause)

    def complete_member(self, pod: QueuedPodInfo, state: InFlight, now: float) -> None:
        """The attempt at the member needs no more events: it is being bound, or deleted."""
        pod.state = DONE if state.latest is None else Done(state.latest)
        self._transitions.log.append(now, pod, cluster_event.PLACED)

    def backoff_completed(self, group: QueuedPodGroupInfo, now: float) -> None:
        """The group, which was taken out of the back-off queue, is active, and its members with it."""
        label = cluster_event.BACKOFF_COMPLETE
        self._transitions.admit(group, group.group_key, Destination.ACTIVE, label, now)
        for pod in group.waiting.values():
            self._set_member_state(pod, ACTIVE, label, now)

    # --- within ------------------------------------------------------------------------------------------------------

    def _set_member_state(self, pod: QueuedPodInfo, state: QueueState, label: str, now: float) -> None:
        """Set a member's state; it is logged only if the state is of another kind."""
        logged = type(pod.state) is not type(state)
        pod.state = state
        if logged:
            if type(state) is Active and not pod.initial_attempt_timestamp:
                pod.initial_attempt_timestamp = now
            self._transitions.log.append(now, pod, label)

    def _lacks_required_pods(self, group: QueuedPodGroupInfo) -> bool:
        """Whether members wait for others, in a profile where enough of them have to be bound at once."""
        return group.lacks_pods and next(iter(group.waiting.values())).record.profile in self._gang_profiles

    def _plugin_gating_group(self, group: QueuedPodGroupInfo) -> str:
        """Find the plugin that gates the group, or one of its members; empty: none does.

        First the group's own reasons: too few pods (gang), or victims that are still to go. Cheap while the reason is
        the same as before: the member that held the group back last (`blocker`) is checked first.
        """
        blocker, group.blocker = group.blocker, None
        if self._lacks_required_pods(group):
            return GANG_PLUGIN
        if self._preempting(group.uid):
            return PREEMPTION_PLUGIN
        if blocker is not None and blocker.record.uid in group.waiting:
            plugin = self._plugin_gating_member(group, blocker)
            if plugin:
                return plugin
        return next(
            (plugin for pod in group.waiting.values() if (plugin := self._plugin_gating_member(group, pod))), ""
        )

    def _plugin_gating_member(self, group: QueuedPodGroupInfo, pod: QueuedPodInfo) -> str:
        """The plugin that gates the member, found without calls of remote ones; then the member is the `blocker`.

        Empty: none does, as far as that is known without calls.
        """
        result = self._pre_enqueue(pod)
        if isinstance(result, PreEnqueueResult):
            return ""
        group.blocker = pod
        return result

    def _needs_pre_enqueue_call(self, group: QueuedPodGroupInfo, pod: QueuedPodInfo) -> bool:
        return pod.uid not in group.calls.passed and self._pre_enqueue(pod) is PreEnqueueResult.CALL_REMOTE


def _take_out_of_queue(group: QueuedPodGroupInfo) -> None:
    """Takes the group out of the active or back-off queue, if it is in one."""
    if group.container is not None:
        group.container.discard(group)
