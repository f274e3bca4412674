"""SchedulingQueue: which pods are tried next, and when the others are tried again. A pure state machine.

Nothing here waits, reads a clock or calls another process. Each public method is a stimulus: it is told the time, moves
pods, and returns instructions for what only the shell can do (asking a remote plugin). Rules and names are those of
kube-scheduler's queue; what is added is that pods leave it in batches of one class, and that pods which no event can
tell apart are weighed once.

The invariant: every pod is in exactly one place, and only a stimulus moves it.

    active         may be tried now, in QueueSort's order (`active`)
    back-off       failed, and waits a time (`backoff`)
    unschedulable  refused, and waits for an event; or held back by a gate (`unschedulable`)
    asked          a remote PreEnqueue plugin is asked whether it may enter (`remote_calls`)
    in flight      popped and not done; what happens meanwhile is kept for it (`in_flight_events`, `requeue_evaluator`)
    done           in the hands of who binds it, until it is put back, or `delete` says that it has a node or is gone

A stimulus that cannot be, such as putting back a pod that is queued, raises `ImpossibleTransition` with the pod's
story. What informers are known to do (tell twice, late, or of a pod that was deleted and made again) is not impossible.

Times are Unix seconds of the steady clock (`framework.clocks`). Not safe for use from several threads.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from trireme.framework import cluster_event
from trireme.framework.cluster_event import ClusterEvent
from trireme.queueing.active import ClassAhead
from trireme.queueing.backoff import BackoffPolicy
from trireme.queueing.in_flight_events import DEFAULT_LIMIT, InFlightEvent, InFlightEvents
from trireme.queueing.nominator import Nominator
from trireme.queueing.pre_enqueue import PreEnqueue
from trireme.queueing.queue_hints import Decision, Hint, HintTable
from trireme.queueing.queue_status import QueueStatistics, QueueStatus
from trireme.queueing.queued_pod import NO_PLUGINS, Asking, Flight, Place, PodInfo, QueuedPodInfo
from trireme.queueing.remote_calls import GroupTarget, Instructions, PodTarget, RemoteCalls, Target
from trireme.queueing.requeue_evaluator import RequeueEvaluator
from trireme.queueing.transition_log import DELETED, ImpossibleTransition, Transition
from trireme.queueing.transitions import Transitions
from trireme.queueing.unschedulable import Group

DEFAULT_MAX_IN_UNSCHEDULABLE: Final = 300.0
# How often the shell calls `flush_unschedulable`.
FLUSH_PERIOD: Final = 30.0
# An own update more than this during one attempt, and the pod is tried again without weighing them.
_MAX_OWN_EVENTS = 64

_ADDED = cluster_event.UNSCHEDULED_POD_ADD.label
_ACTIVATED = cluster_event.FORCE_ACTIVATE.label
_FAILED = cluster_event.SCHEDULE_ATTEMPT_FAILURE
_BACKED_OFF = cluster_event.BACKOFF_COMPLETE
_POPPED_EARLY = cluster_event.POP_FROM_BACKOFF_Q
_DEFAULT_POLICY = BackoffPolicy()


class Batch(NamedTuple):
    """What `pop` hands out: pods of one class, in order."""

    class_id: int
    profile: str
    pods: list[QueuedPodInfo]


class SchedulingQueue:
    """The pods that wait to be scheduled, and those that are being scheduled."""

    def __init__(
        self,
        hints: HintTable,
        pre_enqueue: PreEnqueue,
        *,
        policy: BackoffPolicy = _DEFAULT_POLICY,
        max_in_unschedulable: float = DEFAULT_MAX_IN_UNSCHEDULABLE,
        nominator: Nominator | None = None,
        event_limit: int = DEFAULT_LIMIT,
    ) -> None:
        # One without nominations is as good as any, though its length is 0.
        self.nominator = Nominator() if nominator is None else nominator
        self._hints = hints
        self._policy = policy
        self._max_in_unschedulable = max_in_unschedulable
        self._log = InFlightEvents(event_limit)
        self._questions = RemoteCalls()
        self._judge = RequeueEvaluator(hints, self._log, self._questions)
        self._places = Transitions(policy, pre_enqueue, self._log, self._questions)
        self._cycle = 0
        self._batches = 0

    # --- pods come, change and go ------------------------------------------------------------------------------------

    def add(self, record: PodInfo, now: float) -> Instructions:
        """A pod without a node appeared. One that is known already is updated."""
        places = self._places
        if self._popped(record.uid) is not None:
            return self.update(record, (), None, None, now)
        known = places.queued.get(record.key)
        if known is not None:
            if known.record.uid == record.uid:
                return self.update(record, (), None, None, now)
            self.nominator.delete(known.record.uid)
            places.remove(known, now, "replaced")
        pod = places.queued[record.key] = QueuedPodInfo(record, now)
        if record.nominated_node:
            self.nominator.nominate(record)
        places.enter(pod, Place.ACTIVE, _ADDED, now)
        return self._questions.take_instructions()

    def update(self, record: PodInfo, events: Sequence[ClusterEvent], old: Any, new: Any, now: float) -> Instructions:
        """The object of a pod without a node changed; `events` says how, as `pod_update_events(target=True)`.

        Of a pod that is in flight or done the change is only recorded. An unknown pod is added.
        """
        popped = self._popped(record.uid)
        if popped is not None and popped.flight is not None:
            _update_in_flight(popped.flight, record, events, old, new)
            return ()
        pod = self._places.queued.get(record.key)
        if pod is None or pod.record.uid != record.uid:
            return self.add(record, now)
        before = pod.record
        if record.resource_version and record.resource_version == before.resource_version:
            return ()
        self.nominator.update(before, record)
        self._places.replace_record(pod, self._as_promised(record))
        if pod.asking is not None:
            # The answer under way is about the old object.
            asking = self._places.stop_asking(pod)
            self._places.enter(pod, asking.destination, asking.label, now)
        elif pod.place is Place.UNSCHEDULABLE:
            self._weigh_own(pod, events, old, new, now)
        return self._questions.take_instructions()

    def reclassify(self, key: str, uid: str, class_id: int) -> None:
        """The pod belongs to another class now, though its object is the same: more is looked at than before."""
        popped = self._popped(uid)
        pod = self._places.queued.get(key)
        if popped is not None and popped.flight is not None:
            popped.flight.newest = (popped.flight.newest or popped.record)._replace(class_id=class_id)
        elif pod is not None and pod.record.uid == uid:
            self._places.replace_record(pod, pod.record._replace(class_id=class_id))
            nominated_node = self.nominator.node_of(uid)
            if nominated_node:
                self.nominator.nominate(pod.record, nominated_node)

    def delete(self, key: str, uid: str, now: float, cause: str = DELETED) -> Instructions:
        """The pod is gone, or has a node. Without effect if it is unknown. If it was popped, it is not taken back.

        `cause` is shown in the pod's history: DELETED or BOUND.
        """
        self.nominator.delete(uid)
        popped = self._popped(uid)
        if popped is not None and popped.flight is not None:
            if popped.place is Place.DONE:
                self._places.let_go(popped, popped.flight, now, cause)
            else:
                popped.flight.deleted = True
        pod = self._places.queued.get(key)
        if pod is not None and pod.record.uid == uid:
            self._places.remove(pod, now, cause)
        return ()

    def activate(self, pods: Iterable[tuple[str, str]], now: float) -> Instructions:
        """Plugins want these pods (key, uid) tried at once, back-off or not. Unknown ones are passed over."""
        places = self._places
        for key, uid in pods:
            popped = self._popped(uid)
            if popped is not None and popped.flight is not None:
                popped.flight.woken = True
                continue
            pod = places.queued.get(key)
            if pod is None or pod.record.uid != uid:
                continue
            if pod.asking is not None:
                pod.asking.destination, pod.asking.label = Place.ACTIVE, _ACTIVATED
            elif pod.place is Place.UNSCHEDULABLE:
                places.leave(pod)
                places.enter(pod, Place.ACTIVE, _ACTIVATED, now, counted=False)
            elif pod.place is Place.BACKOFF:
                places.leave(pod)
                places.enter(pod, Place.ACTIVE, _ACTIVATED, now, gate=not self._policy.pop_early)
        return self._questions.take_instructions()

    # --- attempts ----------------------------------------------------------------------------------------------------

    def pop(self, now: float, max_batch: int) -> Batch | None:
        """The next batch: pods of one class, at most `max_batch`. None: there is nothing to do now.

        When nothing is active, pods that back off after a refusal are taken early.
        """
        places = self._places
        places.stamp += 1
        if places.active.size:
            pods = places.active.take(max_batch, now, places.stamp)
        else:
            pods = places.backoff.take_early(max_batch, now, places.stamp)
            if not pods:
                return None
            places.incoming["active", _POPPED_EARLY] += len(pods)
        places.take_off(pods, now)
        self._cycle += len(pods)
        self._batches += 1
        record = pods[0].record
        return Batch(record.class_id, record.profile, pods)

    def done(self, uid: str, now: float) -> None:
        """The attempt needs no more events: the pod is being bound, or left to be deleted. Idempotent."""
        pod = self._places.in_flight.get(uid)
        if pod is not None and pod.flight is not None:
            self._places.finish(pod, pod.flight, now)

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
        """The attempt failed: refused by these plugins, or by error if there are none.

        `pending_plugins` are those that said Pending. `record` is the newest the caller knows, if newer than what this
        queue was told. `nominated_node`: promise it this node; empty: take the promise back; None: leave the promise as
        it is, unless its object was given another one during the attempt.
        A pod that was deleted, or made again, meanwhile is let go. It may also come back after `done` (binding failed):
        what happened since is not known then, so it is tried again after its back-off.

        Raises: ImpossibleTransition if the pod waits already.
        """
        places = self._places
        flight = pod.flight
        if flight is None:
            raise ImpossibleTransition(pod, "be put back", places.story)
        if pod.place is Place.GONE:
            return ()
        newest = record or flight.newest or pod.record
        if flight.deleted or newest.uid != pod.record.uid or newest.key in places.queued:
            places.let_go(pod, flight, now, "gone when put back")
            return ()
        self._note_failure(pod, newest, now, rejectors, pending_plugins, nominated_node)
        decision, questions = self._judge.returning(pod, flight)
        places.take_back(pod, flight)
        places.requeue(pod, decision, _FAILED, now)
        if pod.place is Place.UNSCHEDULABLE:
            for question in questions:
                question.targets[0].append(PodTarget(pod, pod.stamp))
        return self._questions.take_instructions()

    # --- what happens in the cluster, and time -----------------------------------------------------------------------

    def listens(self) -> bool:
        """Whether anybody waits for an event, or is tried and may wait then. If not, `skip_event` says all of it."""
        return self._log.wanted or bool(self._places.unschedulable.group_count)

    def skip_event(self, event: ClusterEvent) -> None:
        """Something changed while nobody listened."""

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
        """Something changed: wakes the pods that it may help, and keeps it for those in flight.

        `max_priority`: it can only help pods of at most this priority. `exclude_uid`: nor this waiting pod.
        """
        matching = self._hints.matching(event)
        if not matching:
            return ()
        self._log.append(InFlightEvent(event, old, new, max_priority))
        if not self._places.unschedulable.group_count:
            return self._questions.take_instructions()
        for profile, registrations in matching.items():
            groups = [
                group
                for group in self._places.unschedulable.refused_by(profile, (r.plugin for r in registrations))
                if (max_priority is None or group.priority <= max_priority)
                and (not group.key.gated_by or self._hints.interests(group.key.gated_by, event))
            ]
            if groups:
                self._weigh_groups(profile, groups, (event, old, new), now, exclude_uid)
        return self._questions.take_instructions()

    def flush_backoff(self, now: float) -> Instructions:
        """Moves the pods whose back-off is over. To be called when `next_backoff` comes: on whole seconds."""
        for pod in self._places.backoff.completed(now):
            self._places.enter(pod, Place.ACTIVE, _BACKED_OFF, now, gate=not self._policy.pop_early)
        return self._questions.take_instructions()

    def flush_unschedulable(self, now: float) -> Instructions:
        """Gives another try to the pods that no event woke for five minutes, gated ones too; every `FLUSH_PERIOD`."""
        for pod in self._places.unschedulable.parked_before(now - self._max_in_unschedulable):
            pod.flushed = True
            pod.flushed_at = now
            self._wake(pod, Decision.AFTER_BACKOFF, cluster_event.UNSCHEDULABLE_TIMEOUT, now)
        return self._questions.take_instructions()

    def recheck_pre_enqueue(self, profile: str, event: ClusterEvent, now: float) -> Instructions:
        """PreEnqueue may refuse now pods of the profile that it let in, or that it was asked about."""
        places = self._places
        for pod in [pod for pod in places.queued.values() if pod.record.profile == profile and self._by_itself(pod)]:
            if pod.place in (Place.ACTIVE, Place.BACKOFF, Place.ASKED):
                place = pod.place if pod.asking is None else pod.asking.destination
                places.leave(pod)
                places.enter(pod, place, event.label, now, counted=False)
        return self._questions.take_instructions()

    # --- answers of remote plugins -----------------------------------------------------------------------------------

    def repeat_pre_enqueue(self, call_id: int) -> bool:
        """The call failed and is made again now: its answer will know of all that has happened before.

        False: the answer is not wanted any more.
        """
        pod = self._questions.asked_about(call_id)
        asking = None if pod is None else self._asking(pod)
        if asking is None:
            return False
        self._log.close(asking.cell)
        asking.cell = self._log.open(1)
        return True

    def pre_enqueue_answered(self, call_id: int, gated_by: str, now: float, reason: str = "") -> Instructions:
        """Remote plugins let the pod in (empty), or this one refused it, for this reason. Old answers are void."""
        pod = self._questions.close_pre_enqueue(call_id)
        if pod is None or pod.asking is None:
            return ()
        asking = pod.asking
        if not gated_by:
            self._places.stop_asking(pod)
            pod.gated_by = pod.gate_reason = ""
            self._places.settle(pod, asking.destination, asking.label, now)
            return ()
        self._places.note_gate(pod, gated_by, reason)
        ask_again = self._judge.helped(pod, asking.cell)
        self._places.stop_asking(pod)
        if ask_again:
            self._places.ask(pod, asking.destination, asking.label, now)
        else:
            self._places.park(pod, asking.label, now)
        return self._questions.take_instructions()

    def hint_answered(self, call_id: int, hints: Sequence[Hint] | None, now: float) -> Instructions:
        """The remote plugin answered, one hint for each pod asked about; None: it could not be asked."""
        question = self._questions.close_hint(call_id, hints)
        if question is None or question.answers is None:
            return ()
        for targets, hint in zip(question.targets, question.answers, strict=True):
            self._hints.results[question.plugin, question.event.label, hint.value] += 1
            if hint is not Hint.SKIP:
                for pod in [pod for target in targets for pod in self._pods_of(target)]:
                    pending = question.plugin in pod.pending_plugins
                    self._wake(pod, Decision.IMMEDIATELY if pending else Decision.AFTER_BACKOFF, question.event, now)
        return self._questions.take_instructions()

    # --- what is where -----------------------------------------------------------------------------------------------

    def ready(self) -> bool:
        """`pop` would hand something out."""
        return self._places.active.size > 0 or self._places.backoff.refused > 0

    def peek_next_classes(self, count: int) -> list[ClassAhead]:
        """The classes that come next, in order, at most `count`, so that their columns can be prepared.

        After the active ones, those that back off until the earliest second: what is taken early when nothing is left.
        """
        ahead = self._places.active.ahead(count)
        if len(ahead) < count:
            active = {each.class_id for each in ahead}
            ahead += [each for each in self._places.backoff.ahead(count) if each.class_id not in active]
        return ahead[:count]

    @property
    def held(self) -> dict[str, str]:
        """The pods, by key their UID, that whoever preempts for them holds back for sure. It is theirs to change."""
        return self._places.held

    def next_backoff(self) -> float | None:
        """When `flush_backoff` has something to do; None: not before a pod fails."""
        return self._places.backoff.next_expiry()

    def get(self, key: str) -> QueuedPodInfo | None:
        """The waiting pod of that name; one in flight or done only if none waits."""
        places = self._places
        pod = places.queued.get(key)
        popped = itertools.chain(places.in_flight.values(), places.done.values())
        return pod or next((pod for pod in popped if pod.record.key == key), None)

    def status_of(self, pod: QueuedPodInfo) -> QueueStatus:
        """Where the pod is and what it waits for."""
        waits_for = (pod.gated_by,) if pod.gated_by else pod.rejectors
        parked = pod.place is Place.UNSCHEDULABLE
        return QueueStatus(
            place=pod.place,
            since=pod.timestamp,
            attempts=pod.attempts,
            gate=pod.gated_by,
            gate_reason=pod.gate_reason,
            until=pod.expiry if pod.place is Place.BACKOFF else 0.0,
            rejectors=tuple(sorted(pod.rejectors)),
            events=tuple(self._hints.registered(pod.record.profile, waits_for)) if parked else (),
        )

    def transitions_of(self, key: str) -> list[Transition]:
        """The pod's last moves, as far as they are remembered."""
        return self._places.story.of(key)

    def waiting_pods(self) -> list[QueuedPodInfo]:
        """All pods that wait, in no particular order."""
        return list(self._places.queued.values())

    def pods(self) -> list[QueuedPodInfo]:
        """All pods: those that wait, those in flight, and those that are done."""
        places = self._places
        return [*places.queued.values(), *places.in_flight.values(), *places.done.values()]

    def in_flight_pods(self) -> list[QueuedPodInfo]:
        """All pods that are being scheduled."""
        return list(self._places.in_flight.values())

    def statistics(self) -> QueueStatistics:
        """The queue in numbers."""
        places = self._places
        return QueueStatistics(
            active=places.active.size,
            backoff=places.backoff.refused,
            error_backoff=places.backoff.errors,
            unschedulable=places.unschedulable.refused,
            gated=places.unschedulable.gated,
            asked=self._questions.asked,
            in_flight=len(places.in_flight),
            done=len(places.done),
            in_flight_events=self._log.by_label(),
            dropped_events=self._log.dropped,
            groups=places.unschedulable.group_count,
            open_questions=self._questions.open_hints,
            scheduling_cycle=self._cycle,
            batches=self._batches,
            incoming=dict(places.incoming),
            refused_by={key: count for key, count in places.refused_by.items() if count},
            hints=dict(self._hints.results),
        )

    # --- within ------------------------------------------------------------------------------------------------------

    def _asking(self, pod: QueuedPodInfo) -> Asking | None:
        """The question about the pod that is open."""
        return pod.asking

    def _by_itself(self, pod: QueuedPodInfo) -> bool:
        """It is a pod, and not queued for others."""
        return True

    def _popped(self, uid: str) -> QueuedPodInfo | None:
        """The pod, if it is in flight or done."""
        return self._places.in_flight.get(uid) or self._places.done.get(uid)

    def _note_failure(
        self,
        pod: QueuedPodInfo,
        newest: PodInfo,
        now: float,
        rejectors: frozenset[str],
        pending_plugins: frozenset[str],
        nominated_node: str | None,
    ) -> None:
        if nominated_node is None and newest.nominated_node == pod.record.nominated_node:
            # Its object may not show yet what was promised to it in an earlier attempt.
            nominated_node = self.nominator.node_of(pod.uid)
        pod.record = newest
        self._places.note_refusal(pod, rejectors, pending_plugins)
        if pod.rejectors:
            pod.unschedulable_count += 1
            pod.consecutive_errors = 0
        else:
            pod.consecutive_errors += 1
        pod.timestamp = now
        pod.expiry = 0.0
        pod.flushed = False
        self.nominator.nominate(pod.record, nominated_node)
        pod.record = self._as_promised(pod.record)

    def _as_promised(self, record: PodInfo) -> PodInfo:
        """The record of a pod that may have been promised a node, though its object does not say so yet."""
        known = record.nominated or not self.nominator.node_of(record.uid)
        return record if known else record._replace(nominated=True)

    def _wake(
        self, pod: QueuedPodInfo, decision: Decision, event: ClusterEvent, now: float, *, counted: bool = True
    ) -> None:
        """Moves an unschedulable pod. `counted`: as incoming, if a gate sends it back to where it was."""
        self._places.leave(pod)
        self._places.requeue(pod, decision, event.label, now, counted=counted)

    def _weigh_own(self, pod: QueuedPodInfo, events: Sequence[ClusterEvent], old: Any, new: Any, now: float) -> None:
        """What changes of its own object mean for an unschedulable pod: the first that helps moves it."""
        profile = pod.record.profile
        for event in events:
            if pod.place is not Place.UNSCHEDULABLE:
                return
            decisions, wanted = self._hints.weigh(profile, event, old, new, [pod])
            if decisions[0] is not Decision.STAY:
                self._wake(pod, decisions[0], event, now, counted=False)
                continue
            for registration, _ in wanted:
                targets: list[list[Target]] = [[PodTarget(pod, pod.stamp)]]
                if self._questions.ask_hint(profile, registration, (event, old, new), [pod], targets) is None:
                    self._wake(pod, Decision.AFTER_BACKOFF, event, now, counted=False)
                    break

    def _weigh_groups(
        self,
        profile: str,
        groups: list[Group],
        happened: tuple[ClusterEvent, Any, Any],
        now: float,
        exclude_uid: str,
    ) -> None:
        """Asks about one pod of each group, and moves the pods of the groups that the event may help."""
        event, old, new = happened
        examples = [group.example() for group in groups]
        decisions, wanted = self._hints.weigh(profile, event, old, new, examples)
        for registration, indexes in wanted:
            asked = [examples[index] for index in indexes]
            targets: list[list[Target]] = [[GroupTarget(groups[index].key, self._places.stamp)] for index in indexes]
            if self._questions.ask_hint(profile, registration, happened, asked, targets) is None:
                for index in indexes:
                    decisions[index] = Decision.AFTER_BACKOFF
        for group, decision in zip(groups, decisions, strict=True):
            if decision is not Decision.STAY:
                for pod in self._places.loose(group):
                    if pod.record.uid != exclude_uid and not self._places.still_gated(pod):
                        self._wake(pod, decision, event, now)

    def _pods_of(self, target: Target) -> list[QueuedPodInfo]:
        """The pods that an answer concerns: those that have not moved since the question."""
        if isinstance(target, PodTarget):
            pod = target.pod
            return [pod] if pod.place is Place.UNSCHEDULABLE and pod.stamp == target.stamp else []
        group = self._places.unschedulable.get(target.group)
        return [pod for pod in group.pods.values() if pod.stamp <= target.stamp] if group else []


def _update_in_flight(flight: Flight, record: PodInfo, events: Sequence[ClusterEvent], old: Any, new: Any) -> None:
    flight.newest = record
    flight.deleted = False
    if len(flight.own_events) + len(events) > _MAX_OWN_EVENTS:
        flight.own_events.clear()
        flight.woken = True
    flight.own_events += [(event, old, new) for event in events]
