"""Where a group waits: it is queued in place of its members, held back, or being asked about, and they go with it.

Whatever changes for a group (a member, its object, an answer) ends here, with the question where it belongs now. Why it
is asked is the business of `group_queue`.

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
from trireme.queueing.pre_enqueue import PreEnqueue, PreEnqueueResult
from trireme.queueing.queued_pod import Place, QueuedPodInfo
from trireme.queueing.remote_calls import RemoteCalls
from trireme.queueing.transitions import Transitions

ADDED: Final = cluster_event.UNSCHEDULED_POD_ADD.label
CHANGED: Final = "PodGroupUpdate"
_PREEMPTION: Final = "DefaultPreemption"


class GroupTransitions:
    """Puts groups where they belong."""

    def __init__(
        self,
        groups: PodGroups,
        places: Transitions,
        policy: BackoffPolicy,
        nominator: Nominator,
        questions: RemoteCalls,
        events: InFlightEvents,
        pre_enqueue: PreEnqueue,
        gang_profiles: frozenset[str],
        preempting: Callable[[str], bool],
    ) -> None:
        """`pre_enqueue` is asked about members; the rest as the queue has it."""
        self.asker = MemberCaller(questions, events)
        self._groups = groups
        self._places = places
        self._policy = policy
        self._nominator = nominator
        self._member_gate = pre_enqueue
        self._gang_profiles = gang_profiles
        self._preempting = preempting

    def forget(self, group: QueuedPodGroupInfo, uid: str, now: float, cause: str) -> None:
        """A member without a node is gone, or has one."""
        self._nominator.delete(uid)
        pod = group.members[uid]
        if pod.flight is None:
            self._places.count_refusals(pod, -1)
        else:
            pod.flight.deleted = True
        self._groups.drop_member(uid)
        self.asker.forget(group.entry, uid)
        if group.blocker is pod:
            group.blocker = None
        pod.place = Place.GONE
        self._places.story.tell(now, pod, Place.GONE, cause)

    def join(self, group: QueuedPodGroupInfo, pod: QueuedPodInfo, label: str, now: float) -> None:
        """A member that is nowhere waits with its group, wherever that is."""
        if group.tree is not None and group.attempt is not None:
            group.pending[pod.record.uid] = pod
            self.move(pod, Place.PENDING, label, now)
            return
        group.waiting[pod.record.uid] = pod
        entity = group.entity
        if group.tree is None:
            self.hold(group, now)
        elif entity is None:
            self.seat(group, Place.ACTIVE, label, now)
        elif entity.gated and group.entry.refused is not None:
            # It is held back for another member.
            self.move(pod, entity.place, label, now)
        elif entity.gated or self._refused(group, pod):
            self.reseat(group, label, now)
        elif self._to_be_asked(group, pod):
            self.seat(group, entity.place, label, now)
        else:
            self.move(pod, entity.place, label, now)

    def rehome(self, name: str, old: QueuedPodGroupInfo, new: QueuedPodGroupInfo) -> bool:
        """The PodGroup of this name belongs to another tree now, or to none; answers whether any member waits there
        now. Both trees are to be looked at again.
        """
        came = False
        for uid, pod in [(uid, pod) for uid, pod in old.members.items() if group_of(pod) == name]:
            waits = uid in old.waiting or uid in old.pending
            self._groups.drop_member(uid)
            self._groups.add_member(new, pod)
            self.asker.forget(old.entry, uid)
            old.blocker = None if old.blocker is pod else old.blocker
            if waits:
                new.waiting[uid] = pod
                came = True
        for uid in [uid for uid, whose in old.placed.items() if whose == name]:
            self._groups.drop_placed(uid)
            self._groups.add_placed(new, uid, name)
        return came

    def regrouped(self, group: QueuedPodGroupInfo, came: bool, now: float) -> None:
        """The group's tree is another, or there is none any more. `came`: members wait with it that were elsewhere."""
        entity = group.entity
        if group.tree is None:
            group.waiting |= group.pending
            group.pending = {}
            if group.attempt is None:
                self.unseat(group)
            self.hold(group, now)
            self._groups.tidy(group)
        elif group.attempt is not None:
            for pod in group.waiting.values():
                self.move(pod, Place.PENDING, ADDED, now)
            group.pending |= group.waiting
            group.waiting = {}
        elif entity is None and group.waiting:
            self.seat(group, Place.ACTIVE, ADDED, now)
        elif entity is None or not came:
            self.reseat(group, CHANGED, now)
        elif entity.gated and group.entry.refused is not None:
            # It is held back for another member.
            self.hold_back(group, entity.gated_by, ADDED, now, entity.gate_reason)
        else:
            self.seat(group, Place.BACKOFF if entity.gated else entity.place, ADDED, now)

    def hold(self, group: QueuedPodGroupInfo, now: float) -> None:
        """The members of a group without a tree wait for it."""
        if group.tree is None:
            for pod in group.waiting.values():
                if pod.place is not Place.INCOMPLETE:
                    self.move(pod, Place.INCOMPLETE, CHANGED, now)
        self.note_lack(group, now)

    def look_again(self, group: QueuedPodGroupInfo, label: str, now: float) -> None:
        """Whether the group, which is held back, still has to be."""
        entity = group.entity
        if entity is not None and entity.gated and group.attempt is None and not self._gated_by(group):
            self.seat(group, Place.BACKOFF, label, now)

    def reseat(self, group: QueuedPodGroupInfo, label: str, now: float) -> None:
        """The members of the group, or its object, changed: whether it waits where it did, or is held back now."""
        if group.entity is None or group.attempt is not None:
            self.note_lack(group, now)
        elif not group.waiting:
            self.unseat(group)
            self.note_lack(group, now)
        elif group.entity.gated and group.entry.refused is not None:
            self.note_lack(group, now)
        elif group.entity.gated:
            self.seat(group, Place.BACKOFF, label, now)
        elif group.entity.place is Place.ASKED or self._gated_by(group) or group.entity.record.level != -group.priority:
            self.seat(group, group.entity.place, label, now)

    def seat(self, group: QueuedPodGroupInfo, place: Place, label: str, now: float) -> None:
        """Queue the group, or hold it back. It enters the active queue once its back-off is over."""
        entity = group.entity
        if entity is None:
            first = next(iter(group.waiting.values()))
            entity = group.entity = QueuedPodInfo(group.record(), now)
            entity.timestamp, entity.initial_attempt_timestamp = first.timestamp, first.initial_attempt_timestamp
        else:
            self._leave_queue(entity)
            entity.record = group.record()
        if place is Place.ASKED:
            place = group.entry.destination
        gated_by = self._gated_by(group)
        if gated_by:
            self.asker.begin_anew(group.entry)
            self.hold_back(group, gated_by, label, now)
            return
        entity.gated_by = entity.gate_reason = ""
        asked = {uid: pod for uid, pod in group.waiting.items() if self._to_be_asked(group, pod)}
        if self.asker.ask(group.entry, asked, place, label):
            entity.place = Place.ASKED
        else:
            # Before it is computed without regard to how many they are.
            self._policy.expiry(entity, len(group.waiting))
            self._places.queued[entity.record.key] = entity
            self._places.settle(entity, place, label, now)
            self._places.incoming[entity.place.value, label] += len(group.waiting) - 1
        for pod in group.waiting.values():
            if pod.place is not entity.place:
                self.move(pod, entity.place, label, now)
        self.note_lack(group, now)

    def hold_back(self, group: QueuedPodGroupInfo, plugin: str, label: str, now: float, reason: str = "") -> None:
        """The plugin holds back the group, which is in no structure, for this reason."""
        assert group.entity is not None  # who holds it back was asked about an entity
        group.entity.gated_by, group.entity.gate_reason = plugin, reason
        group.entity.place = Place.UNSCHEDULABLE
        for pod in group.waiting.values():
            if pod.place is not Place.UNSCHEDULABLE:
                self.move(pod, Place.UNSCHEDULABLE, event_phrases.gated(label, plugin, reason), now)
        self.note_lack(group, now)

    def unseat(self, group: QueuedPodGroupInfo) -> None:
        """Nothing is queued for the group any more."""
        if group.entity is not None:
            self._leave_queue(group.entity)
            group.entity.place = Place.GONE
            group.entity = None
        self.asker.begin_anew(group.entry)
        group.blocker = None

    def move(self, pod: QueuedPodInfo, place: Place, label: str, now: float) -> None:
        """The member is there now."""
        pod.place = place
        if place is Place.ACTIVE and not pod.initial_attempt_timestamp:
            pod.initial_attempt_timestamp = now
        self._places.story.tell(now, pod, place, label)

    def note_lack(self, group: QueuedPodGroupInfo, now: float) -> None:
        """Since when the group has waiting members and lacks what only others can give."""
        if not (group.waiting and (group.tree is None or group.lacks_pods)):
            group.waiting_since, group.told = 0.0, False
        elif not group.waiting_since:
            group.waiting_since = now

    def _leave_queue(self, entity: QueuedPodInfo) -> None:
        if self._places.queued.get(entity.record.key) is entity:
            self._places.leave(entity)
            del self._places.queued[entity.record.key]

    def _gated_by(self, group: QueuedPodGroupInfo) -> str:
        """The plugin that holds the group back, or one of its members; empty: none does. Cheap while the reason is the
        same as before.
        """
        blocker, group.blocker = group.blocker, None
        profile = next(iter(group.waiting.values())).record.profile
        if group.lacks_pods and profile in self._gang_profiles:
            return GANG_SCHEDULING
        if self._preempting(group.entity_key):
            return _PREEMPTION
        if blocker is not None and blocker.record.uid in group.waiting:
            plugin = self._refused(group, blocker)
            if plugin:
                return plugin
        return next((plugin for pod in group.waiting.values() if (plugin := self._refused(group, pod))), "")

    def _refused(self, group: QueuedPodGroupInfo, pod: QueuedPodInfo) -> str:
        """The plugin that holds the member back; empty: none does."""
        verdict = self._member_gate(pod)
        if isinstance(verdict, PreEnqueueResult):
            return ""
        group.blocker = pod
        return verdict

    def _to_be_asked(self, group: QueuedPodGroupInfo, pod: QueuedPodInfo) -> bool:
        """Whether remote plugins have a say on the member and have not said it."""
        return pod.uid not in group.entry.passed and self._member_gate(pod) is PreEnqueueResult.CALL_REMOTE
