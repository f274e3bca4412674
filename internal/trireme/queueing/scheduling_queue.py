"""SchedulingQueue: which pods are tried next, and when the others are tried again. A pure state machine.

Nothing here waits, reads a clock or calls another process. Each public method is a stimulus: it is given the time,
moves pods, and returns instructions for what only the shell can do (calling a remote plugin). Rules and names are those
of kube-scheduler's queue; what is added is that pods leave it in batches of one class, and that an event is evaluated
once for pods of one class that the same plugins refused.

The invariant: every pod is in exactly one state (`states`), and only a stimulus gives it another, through
`Transitions`.

An illegal transition, such as requeueing a pod that waits, raises `ImpossibleTransition` with the pod's last
transitions. What informers are known to do (report twice, late, or a pod that was deleted and made again) is not
impossible.

Where there are pod groups, `groups` is the part that knows them: what concerns a member is handled there.

Times are Unix seconds of the steady clock (`trireme_kube.componentbase.clocks.steady`). Not safe for use from several
threads.

Also change: docs/requeueing.md.

Tests: tests/unit/queueing/test_scheduling_queue.py, tests/unit/queueing/test_attempts.py,
tests/unit/queueing/test_remote.py, tests/unit/queueing/test_group_queue.py.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from trireme.framework import cluster_event
from trireme.framework.cluster_event import ClusterEvent
from trireme.queueing.active import ActiveQueue, NextClass
from trireme.queueing.backoff import BackoffQueue
from trireme.queueing.batch_key import ClassId
from trireme.queueing.event_audience import ALL_PODS, EventAudience
from trireme.queueing.event_requeuer import EventRequeuer
from trireme.queueing.groups.queue_groups import QueueGroups
from trireme.queueing.groups.queued_group import PodGroupBatch
from trireme.queueing.hints.hint_evaluation import HintEvaluator
from trireme.queueing.hints.queueing_hint_map import HintAnswer
from trireme.queueing.in_flight_event_evaluator import InFlightEventEvaluator
from trireme.queueing.in_flight_events import InFlightEvent, InFlightEvents
from trireme.queueing.nominator import Nominator
from trireme.queueing.pod_info import PodInfo
from trireme.queueing.pre_enqueue_answers import PreEnqueueAnswers
from trireme.queueing.queue_contents import QueueContents
from trireme.queueing.queue_status import QueueStatistics
from trireme.queueing.queued_pod import NO_PLUGINS, QueuedPodInfo, are_pods
from trireme.queueing.recent_events import RecentEvents
from trireme.queueing.remote_calls import Instructions, PodTarget, RemoteCalls
from trireme.queueing.states import (
    BackOff,
    Destination,
    Done,
    Gated,
    Gone,
    InFlight,
    PreEnqueueCall,
    PreEnqueuePending,
    Unschedulable,
)
from trireme.queueing.transition_log import ImpossibleTransition
from trireme.queueing.transitions import Transitions
from trireme.queueing.unschedulable import UnschedulablePods

DEFAULT_MAX_IN_UNSCHEDULABLE: Final = 300.0
# How often the shell calls `flush_unschedulable`.
FLUSH_PERIOD: Final = 30.0

_ADDED = cluster_event.UNSCHEDULED_POD_ADD.label
_ACTIVATED = cluster_event.FORCE_ACTIVATE.label
_FAILED = cluster_event.SCHEDULE_ATTEMPT_FAILURE
_BACKED_OFF = cluster_event.BACKOFF_COMPLETE
_POPPED_EARLY = cluster_event.POP_FROM_BACKOFF_Q


class PodBatch(NamedTuple):
    """What `pop` hands out: pods of one class, in order."""

    class_id: ClassId
    profile: str
    pods: list[QueuedPodInfo]


Batch = PodBatch | PodGroupBatch


class SchedulingQueue:
    """The pods that wait to be scheduled, and those that are being scheduled."""

    def __init__(
        self,
        transitions: Transitions,
        active: ActiveQueue,
        backoff: BackoffQueue,
        unschedulable: UnschedulablePods,
        *,
        in_flight_events: InFlightEvents,
        hints: HintEvaluator,
        nominator: Nominator,
        calls: RemoteCalls,
        max_in_unschedulable: float = DEFAULT_MAX_IN_UNSCHEDULABLE,
        groups: QueueGroups | None = None,
    ) -> None:
        """`assembly.build_queue` makes the parts. Without `groups` each pod is scheduled by itself."""
        self.nominator = nominator
        self._transitions = transitions
        self._active = active
        self._backoff = backoff
        self._unschedulable = unschedulable
        self._in_flight_events = in_flight_events
        self._hints = hints
        self._calls = calls
        self._groups = groups
        self.max_in_unschedulable_seconds = max_in_unschedulable
        """Refused pods are tried again after that without an event."""
        self.recent_events = RecentEvents()
        """What happened last, to explain a pod that nothing woke."""
        self._evaluator = InFlightEventEvaluator(hints, in_flight_events, calls)
        self._requeuer = EventRequeuer(transitions, unschedulable, hints, calls)
        self._pre_enqueue_answers = PreEnqueueAnswers(transitions, in_flight_events, self._evaluator, calls, groups)
        self.contents = QueueContents(
            transitions, active, backoff, unschedulable, in_flight_events, hints, calls=calls, groups=groups
        )

    @property
    def groups(self) -> QueueGroups | None:
        """The pod groups, where there may be any."""
        return self._groups

    # --- pods come, change and go ------------------------------------------------------------------------------------

    def add(self, record: PodInfo, now: float) -> Instructions:
        """Take in a pod without a node: it enters the active queue, or is gated. One that is known already is updated.

        A queued pod of the same name and another UID is replaced. A member of a group joins its group instead.
        """
        groups, transitions = self._groups, self._transitions
        if groups is not None and record.pod.parsed.group:
            if groups.group_of_member(record.uid) is not None:
                return self.update(record, (), None, None, now)
            groups.add(record, now)
            return self._calls.take_instructions()
        if self._popped_pod(record.uid) is not None:
            return self.update(record, (), None, None, now)
        known = transitions.queued.get(record.key)
        if known is not None:
            if known.record.uid == record.uid:
                return self.update(record, (), None, None, now)
            self.nominator.delete(known.record.uid)
            transitions.remove_waiting_pod(known, now, "replaced")
        pod = transitions.queued[record.key] = QueuedPodInfo(record, now)
        self.nominator.nominate(record)
        transitions.enter(pod, Destination.ACTIVE, _ADDED, now)
        return self._calls.take_instructions()

    def update(self, record: PodInfo, events: Sequence[ClusterEvent], old: Any, new: Any, now: float) -> Instructions:
        """Follow a change of a pod without a node; `events`: how it changed, as `pod_update_events(target=True)`.

        A refused or gated pod moves if one of the events helps it; one in flight or done is not moved, and its failure
        sees the change. An unknown pod is added. An object of the version that is known changes nothing.
        """
        groups = self._groups
        self._transitions.log.object_changed(record.key, record.uid)
        if groups is not None and (group := groups.group_of_member(record.uid)) is not None:
            groups.update(group, record, now)
            return self._calls.take_instructions()
        popped = self._popped_pod(record.uid)
        if popped is not None:
            if isinstance(popped.state, InFlight):
                self._transitions.update_attempt(popped, popped.state.updated(record, events, old, new))
            else:
                self._update_latest(popped, record)
            return ()
        pod = self._transitions.queued.get(record.key)
        if pod is None or pod.record.uid != record.uid:
            return self.add(record, now)
        before = pod.record
        if record.resource_version and record.resource_version == before.resource_version:
            return ()
        self.nominator.update(before, record)
        self._transitions.replace_record(pod, self.nominator.with_nomination(record))
        self._calls.renew_sort_key(pod, before)
        match pod.state:
            case PreEnqueuePending(PreEnqueueCall() as call):
                # The open call is about the old object.
                self._transitions.close_pre_enqueue_call(call)
                self._transitions.enter(pod, call.destination, call.label, now)
            case Unschedulable() | Gated():
                self._requeuer.on_own_events(pod, events, old, new, now)
        return self._calls.take_instructions()

    def reclassify(self, key: str, uid: str, class_id: int) -> None:
        """The pod belongs to another class now, though its object is the same: plugins distinguish more than before."""
        self._transitions.log.object_changed(key, uid)
        groups, popped, pod = self._groups, self._popped_pod(uid), self._transitions.queued.get(key)
        if groups is not None and (group := groups.group_of_member(uid)) is not None:
            groups.reclassify(group, uid, class_id)
        elif popped is not None:
            self._update_latest(popped, popped.latest._replace(class_id=class_id))
        elif pod is not None and pod.record.uid == uid:
            self._transitions.replace_record(pod, pod.record._replace(class_id=class_id))
            self.nominator.nominate(pod.record, self.nominator.node_of(uid))

    def sort_anew(self, key: str, uid: str) -> None:
        """A QueueSort plugin gave the pod another key, or none any more: it moves in the queue that it is in."""
        groups, popped, pod = self._groups, self._popped_pod(uid), self._transitions.queued.get(key)
        if groups is not None and (group := groups.group_of_member(uid)) is not None:
            groups.sort_anew(group, uid)
        elif popped is not None:
            self._update_latest(popped, popped.latest.sorted_anew())
        elif pod is not None and pod.record.uid == uid:
            self._transitions.replace_record(pod, pod.record.sorted_anew())

    def delete(self, key: str, uid: str, now: float, cause: str = cluster_event.DELETED) -> Instructions:
        """The pod is gone, or has a node. Without effect if it is unknown. If it was popped, its attempt goes on.

        `cause` is shown in the pod's history: `cluster_event.DELETED` or `BOUND`.
        """
        groups = self._groups
        if groups is not None and (group := groups.group_of_member(uid)) is not None:
            groups.delete(group, uid, now, cause)
            return self._calls.take_instructions()
        self.nominator.delete(uid)
        popped = self._popped_pod(uid)
        if popped is not None:
            match popped.state:
                case Done() as state:
                    self._transitions.remove_popped_pod(popped, state, now, cause)
                case InFlight() as state:
                    self._transitions.update_attempt(popped, replace(state, deleted=True))
        pod = self._transitions.queued.get(key)
        if pod is not None and pod.record.uid == uid:
            self._transitions.remove_waiting_pod(pod, now, cause)
        return ()

    def activate(self, pods: Iterable[tuple[str, str]], now: float) -> Instructions:
        """Moves these pods (key, uid) to the active queue at once, back-off or not, as plugins ask for it.

        Unknown ones are ignored. A member's whole group is activated, unless it is being tried. The key may be
        that of a group.
        """
        groups, transitions = self._groups, self._transitions
        for key, uid in pods:
            if groups is not None:
                groups.activate(key, uid, now)
            popped = self._popped_pod(uid)
            if popped is not None:
                if isinstance(popped.state, InFlight):
                    transitions.update_attempt(popped, replace(popped.state, activated=True))
                continue
            pod = transitions.queued.get(key)
            if pod is None or pod.record.uid != uid:
                continue
            match pod.state:
                case PreEnqueuePending(PreEnqueueCall() as call):
                    transitions.replace_pre_enqueue_call(
                        pod, call._replace(destination=Destination.ACTIVE, label=_ACTIVATED)
                    )
                case Unschedulable() | Gated():
                    transitions.detach(pod)
                    transitions.enter(pod, Destination.ACTIVE, _ACTIVATED, now, counted=False)
                case BackOff():
                    transitions.detach(pod)
                    passed = transitions.policy.pop_early
                    transitions.enter(pod, Destination.ACTIVE, _ACTIVATED, now, pre_enqueue=not passed)
        return self._calls.take_instructions()

    # --- attempts ----------------------------------------------------------------------------------------------------

    def pop(self, now: float, max_batch: int) -> Batch | None:
        """The next batch: pods of one class, at most `max_batch`, or one group. None: there is nothing to do now.

        When nothing is active, pods that back off after a refusal are taken early.
        """
        transitions = self._transitions
        transitions.stamp += 1
        if self._active.size:
            entities = self._active.take(max_batch, now, transitions.stamp)
        else:
            entities = self._backoff.take_early(max_batch, now, transitions.stamp)
            if not entities:
                return None
            transitions.incoming["active", _POPPED_EARLY] += len(entities)
        transitions.popped_batches += 1
        if are_pods(entities):
            transitions.start_attempts(entities, now)
            transitions.popped_pods += len(entities)
            record = entities[0].record
            return PodBatch(record.class_id, record.profile, entities)
        assert self._groups is not None  # only they queue what is no pod
        batch = self._groups.start_attempt(entities[0], now)
        transitions.popped_pods += batch.size
        return batch

    def done(self, uid: str, now: float) -> None:
        """The attempt needs no more events: the pod is being bound, or deleted. Idempotent."""
        groups = self._groups
        if groups is not None and (group := groups.group_of_member(uid)) is not None:
            groups.done(group, uid, now)
            return
        pod = self._transitions.in_flight.get(uid)
        if pod is not None and isinstance(pod.state, InFlight):
            self._transitions.complete(pod, pod.state, now)

    def requeue(
        self,
        pod: QueuedPodInfo,
        now: float,
        *,
        rejectors: frozenset[str] = NO_PLUGINS,
        pending_plugins: frozenset[str] = NO_PLUGINS,
        record: PodInfo | None = None,
        nominated_node: str | None = None,
        had_node: bool = False,
    ) -> Instructions:
        """The attempt failed: refused by these plugins, or by error if there are none.

        `pending_plugins` are those that returned Pending. `record` is the latest the caller knows, if later than what
        this queue knows. `nominated_node`: nominate it to this node; empty: to none; None: leave the nomination as it
        is, unless its object was given another one during the attempt. A pod that was deleted, or made again, meanwhile
        is dropped. `had_node`: it had a node, which was refused at a later step. It may also come back after `done`
        (binding failed): the events since are not recorded then, so it is tried again after its back-off.

        Raises: ImpossibleTransition if the pod waits already.
        """
        transitions = self._transitions
        state = pod.state
        if isinstance(state, Gone):
            return ()
        if not isinstance(state, (InFlight, Done)):
            raise ImpossibleTransition(pod, "be requeued", transitions.log)
        latest, groups = record or pod.latest, self._groups
        pod.had_node = had_node
        if groups is not None and pod.record.pod.parsed.group:
            groups.requeue(pod, latest, now, rejectors, pending_plugins, nominated_node)
            return self._calls.take_instructions()
        if not pod.in_attempt or latest.uid != pod.record.uid or latest.key in transitions.queued:
            transitions.remove_popped_pod(pod, state, now, cluster_event.GONE)
            return ()
        # The order matters: the evaluation needs the plugins that refused, which `record_failure` records, and the
        # events during the attempt, which `return_to_queue` drops.
        transitions.record_failure(pod, latest, now, rejectors, pending_plugins, nominated_node)
        decision, calls = self._evaluator.evaluate(pod, state)
        transitions.return_to_queue(pod, state)
        transitions.requeue(pod, decision, _FAILED, now)
        # Only a pod that waits depends on the answers of remote hints: they move it.
        for call in calls:
            call.targets[0].append(PodTarget(pod, pod.stamp))
        return self._calls.take_instructions()

    # --- what happens in the cluster, and time -----------------------------------------------------------------------

    def needs_events(self) -> bool:
        """Whether any pod waits for an event, or is tried and may wait then. If not, `on_event` need not be called."""
        if self._in_flight_events.recording or self._unschedulable.group_count:
            return True
        return self._groups is not None and self._groups.needs_events()

    def on_event(
        self,
        event: ClusterEvent,
        old: Any,
        new: Any,
        now: float,
        audience: EventAudience = ALL_PODS,
    ) -> Instructions:
        """Wake the waiting pods that a change in the cluster may help, and record it for those in flight.

        An event that no plugin registered is only remembered.
        """
        self.recent_events.append(now, event, old, new)
        if not self._hints.registrations.matching_by_profile(event):
            return ()
        self._in_flight_events.append(InFlightEvent(event, old, new, audience))
        if self._unschedulable.group_count:
            self._requeuer.on_cluster_event(event, old, new, now, audience)
        if self._groups is not None:
            self._groups.on_event(event, now)
        return self._calls.take_instructions()

    def flush_backoff(self, now: float) -> Instructions:
        """Moves the pods whose back-off is over. To be called at `next_backoff`: on whole seconds."""
        transitions, groups = self._transitions, self._groups
        for entity in self._backoff.take_completed(now):
            if isinstance(entity, QueuedPodInfo):
                passed = transitions.policy.pop_early
                transitions.enter(entity, Destination.ACTIVE, _BACKED_OFF, now, pre_enqueue=not passed)
            else:
                assert groups is not None  # only they queue what is no pod
                groups.backoff_completed(entity, now)
        return self._calls.take_instructions()

    def flush_unschedulable(self, now: float) -> Instructions:
        """Gives another try to what no event woke for five minutes, gated or not; every `FLUSH_PERIOD`.

        Groups that lack something for long are reported, once.
        """
        before = now - self.max_in_unschedulable_seconds
        if self._groups is not None:
            self._groups.flush_unschedulable(before, now)
        self._requeuer.flush_unschedulable(before, now)
        return self._calls.take_instructions()

    def wake_missed(self, pods: Iterable[QueuedPodInfo], now: float) -> Instructions:
        """Wake pods that were found to fit though no event had woken them; those that have moved since stay."""
        self._requeuer.move_missed(pods, now)
        return self._calls.take_instructions()

    def retry_all(self, event: ClusterEvent, now: float) -> Instructions:
        """Give another try, after their back-off, to all pods that plugins refused: `event` changed the plugins.

        A pod that is being tried gets another try at once if this one fails: it began with the previous plugins.
        """
        for pod in self._transitions.in_flight.values():
            assert isinstance(pod.state, InFlight)
            self._transitions.update_attempt(pod, replace(pod.state, activated=True))
        if self._groups is not None:
            self._groups.recheck_held_back(event, now)
        self._requeuer.move_all(event, now)
        return self._calls.take_instructions()

    # --- answers of remote plugins -----------------------------------------------------------------------------------

    def recheck_pre_enqueue(self, profile: str, event: ClusterEvent, now: float) -> Instructions:
        """PreEnqueue may refuse now pods of the profile that it allowed, or for which it is called."""
        self._pre_enqueue_answers.recheck_profile(profile, event, now)
        return self._calls.take_instructions()

    def repeat_pre_enqueue(self, call_id: int) -> bool:
        """The call failed and is made again now: its answer will take all events until now into account.

        False: the answer is not used any more.
        """
        return self._pre_enqueue_answers.repeat_call(call_id)

    def pre_enqueue_answered(self, call_id: int, gated_by: str, now: float, reason: str = "") -> Instructions:
        """Remote plugins allowed the pod (empty), or this one refused it, for this reason. Old answers are void."""
        self._pre_enqueue_answers.apply_answer(call_id, gated_by, now, reason)
        return self._calls.take_instructions()

    def hint_answered(self, call_id: int, hints: Sequence[HintAnswer] | None, now: float) -> Instructions:
        """The remote plugin answered, one hint for each pod of the call; None: the call failed."""
        self._requeuer.on_hint_answered(call_id, hints, now)
        return self._calls.take_instructions()

    # --- what comes next -------------------------------------------------------------------------------------------

    def ready(self) -> bool:
        """Whether `pop` would hand something out: an active pod, or one that may be taken early from back-off."""
        return self._active.size > 0 or self._backoff.refused_count > 0

    def peek_next_batch(self) -> NextClass | None:
        """The class of the batch that `pop` hands out now; None: no pod is active."""
        return self._active.next_batch() if self._active.size else None

    def peek_active_classes(self, count: int) -> list[NextClass]:
        """The classes of the next batches of active pods, at most `count`; nearly in the order of `pop`."""
        return self._active.next_classes(count)

    def peek_next_classes(self, count: int) -> list[NextClass]:
        """The classes that come next, in order, at most `count`, so that their columns can be prepared.

        After the active ones, those that back off until the earliest second: what is taken early when nothing is left.
        """
        ahead = self._active.next_classes(count)
        if len(ahead) < count:
            active = {each.key for each in ahead}
            ahead += [each for each in self._backoff.next_classes(count) if each.key not in active]
        return ahead[:count]

    @property
    def held_preemptors(self) -> dict[str, str]:
        """Key to UID of the preemptors that are gated until their preemption ends; its executor maintains it."""
        return self._transitions.held_preemptors

    def next_backoff(self) -> float | None:
        """When `flush_backoff` has something to do; None: not before a pod fails."""
        return self._backoff.next_expiry()

    def statistics(self) -> QueueStatistics:
        """The queue in numbers, of pods; members of groups count as such (`groups.group_statistics`)."""
        return self.contents.statistics()

    # --- within ------------------------------------------------------------------------------------------------------

    def _popped_pod(self, uid: str) -> QueuedPodInfo | None:
        """The pod, if it is in flight or done."""
        return self._transitions.in_flight.get(uid) or self._transitions.done.get(uid)

    def _update_latest(self, pod: QueuedPodInfo, record: PodInfo) -> None:
        """Record the newest object of a pod that is in flight or done, for when its attempt fails."""
        if isinstance(pod.state, (InFlight, Done)):
            self._transitions.update_attempt(pod, replace(pod.state, latest=record))
