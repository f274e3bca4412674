"""SchedulingQueue: which pods are tried next, and when the others are tried again. A pure state machine.

Nothing here waits, reads a clock or calls another process. Each public method is a stimulus: it is given the time,
moves pods, and returns instructions for what only the shell can do (calling a remote plugin). Rules and names are those
of kube-scheduler's queue; what is added is that pods leave it in batches of one class, and that pods which no event can
tell apart are evaluated once.

The invariant: every pod is in exactly one state (`states`), and only a stimulus gives it another, through
`Transitions`.

A stimulus that cannot be, such as requeueing a pod that waits, raises `ImpossibleTransition` with the pod's last
transitions. What informers are known to do (report twice, late, or a pod that was deleted and made again) is not
impossible.

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
from trireme.queueing.pod_info import PodInfo
from trireme.queueing.pre_enqueue import PreEnqueue
from trireme.queueing.queue_hints import Decision, Hint, HintTable
from trireme.queueing.queue_status import QueueStatistics, QueueStatus
from trireme.queueing.queued_pod import NO_PLUGINS, QueuedPodInfo
from trireme.queueing.remote_calls import Instructions, PodTarget, RefusalGroupTarget, RemoteCalls, Target
from trireme.queueing.requeue_evaluator import RequeueEvaluator
from trireme.queueing.states import (
    Active,
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
from trireme.queueing.transition_log import DELETED, ImpossibleTransition, Transition
from trireme.queueing.transitions import Transitions
from trireme.queueing.unschedulable import RefusalGroup

DEFAULT_MAX_IN_UNSCHEDULABLE: Final = 300.0
# How often the shell calls `flush_unschedulable`.
FLUSH_PERIOD: Final = 30.0
# With more own updates than this during one attempt the pod is tried again without evaluating them.
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
        self._in_flight_events = InFlightEvents(event_limit)
        self._calls = RemoteCalls()
        self._evaluator = RequeueEvaluator(hints, self._in_flight_events, self._calls)
        self._transitions = Transitions(policy, pre_enqueue, self._in_flight_events, self._calls)
        self._cycle = 0
        self._batches = 0

    # --- pods come, change and go ------------------------------------------------------------------------------------

    def add(self, record: PodInfo, now: float) -> Instructions:
        """A pod without a node appeared. One that is known already is updated."""
        transitions = self._transitions
        if self._popped(record.uid) is not None:
            return self.update(record, (), None, None, now)
        known = transitions.queued.get(record.key)
        if known is not None:
            if known.record.uid == record.uid:
                return self.update(record, (), None, None, now)
            self.nominator.delete(known.record.uid)
            transitions.remove(known, now, "replaced")
        pod = transitions.queued[record.key] = QueuedPodInfo(record, now)
        if record.nominated_node:
            self.nominator.nominate(record)
        transitions.enter(pod, Destination.ACTIVE, _ADDED, now)
        return self._calls.take_instructions()

    def update(self, record: PodInfo, events: Sequence[ClusterEvent], old: Any, new: Any, now: float) -> Instructions:
        """The object of a pod without a node changed; `events` says how, as `pod_update_events(target=True)`.

        Of a pod that is in flight or done the change is only recorded. An unknown pod is added.
        """
        popped = self._popped(record.uid)
        if popped is not None:
            self._update_popped(popped, record, events, old, new)
            return ()
        pod = self._transitions.queued.get(record.key)
        if pod is None or pod.record.uid != record.uid:
            return self.add(record, now)
        before = pod.record
        if record.resource_version and record.resource_version == before.resource_version:
            return ()
        self.nominator.update(before, record)
        self._transitions.replace_record(pod, self._with_nomination(record))
        match pod.state:
            case PreEnqueuePending(PreEnqueueCall() as call):
                # The answer under way is about the old object.
                self._transitions.end_call(call)
                self._transitions.enter(pod, call.destination, call.label, now)
            case Unschedulable() | Gated():
                self._evaluate_own(pod, events, old, new, now)
        return self._calls.take_instructions()

    def reclassify(self, key: str, uid: str, class_id: int) -> None:
        """The pod belongs to another class now, though its object is the same: plugins distinguish more than before."""
        popped = self._popped(uid)
        pod = self._transitions.queued.get(key)
        if popped is not None:
            self._transitions.update_attempt(popped, popped.latest._replace(class_id=class_id))
        elif pod is not None and pod.record.uid == uid:
            self._transitions.replace_record(pod, pod.record._replace(class_id=class_id))
            nominated_node = self.nominator.node_of(uid)
            if nominated_node:
                self.nominator.nominate(pod.record, nominated_node)

    def delete(self, key: str, uid: str, now: float, cause: str = DELETED) -> Instructions:
        """The pod is gone, or has a node. Without effect if it is unknown. If it was popped, it is not taken back.

        `cause` is shown in the pod's history: DELETED or BOUND.
        """
        self.nominator.delete(uid)
        popped = self._popped(uid)
        if popped is not None:
            if isinstance(popped.state, Done):
                self._transitions.drop(popped, popped.state, now, cause)
            else:
                self._transitions.change_attempt(popped, deleted=True)
        pod = self._transitions.queued.get(key)
        if pod is not None and pod.record.uid == uid:
            self._transitions.remove(pod, now, cause)
        return ()

    def activate(self, pods: Iterable[tuple[str, str]], now: float) -> Instructions:
        """Plugins want these pods (key, uid) tried at once, back-off or not. Unknown ones are passed over."""
        transitions = self._transitions
        for key, uid in pods:
            popped = self._popped(uid)
            if popped is not None:
                if isinstance(popped.state, InFlight):
                    transitions.change_attempt(popped, activated=True)
                continue
            pod = transitions.queued.get(key)
            if pod is None or pod.record.uid != uid:
                continue
            match pod.state:
                case PreEnqueuePending(PreEnqueueCall() as call):
                    transitions.change_call(pod, call._replace(destination=Destination.ACTIVE, label=_ACTIVATED))
                case Unschedulable() | Gated():
                    transitions.detach(pod)
                    transitions.enter(pod, Destination.ACTIVE, _ACTIVATED, now, counted=False)
                case BackOff():
                    transitions.detach(pod)
                    passed = self._policy.pop_early
                    transitions.enter(pod, Destination.ACTIVE, _ACTIVATED, now, pre_enqueue=not passed)
        return self._calls.take_instructions()

    # --- attempts ----------------------------------------------------------------------------------------------------

    def pop(self, now: float, max_batch: int) -> Batch | None:
        """The next batch: pods of one class, at most `max_batch`. None: there is nothing to do now.

        When nothing is active, pods that back off after a refusal are taken early.
        """
        transitions = self._transitions
        transitions.stamp += 1
        if transitions.active.size:
            pods = transitions.active.take(max_batch, now, transitions.stamp)
        else:
            pods = transitions.backoff.take_early(max_batch, now, transitions.stamp)
            if not pods:
                return None
            transitions.incoming["active", _POPPED_EARLY] += len(pods)
        transitions.start_attempts(pods, now)
        self._cycle += len(pods)
        self._batches += 1
        record = pods[0].record
        return Batch(record.class_id, record.profile, pods)

    def done(self, uid: str, now: float) -> None:
        """The attempt needs no more events: the pod is being bound, or left to be deleted. Idempotent."""
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
    ) -> Instructions:
        """The attempt failed: refused by these plugins, or by error if there are none.

        `pending_plugins` are those that said Pending. `record` is the latest the caller knows, if later than what this
        queue knows. `nominated_node`: nominate it to this node; empty: to none; None: leave the nomination as it is,
        unless its object was given another one during the attempt.
        A pod that was deleted, or made again, meanwhile is dropped. It may also come back after `done` (binding
        failed): what happened since is not known then, so it is tried again after its back-off.

        Raises: ImpossibleTransition if the pod waits already.
        """
        transitions = self._transitions
        state = pod.state
        if isinstance(state, Gone):
            return ()
        if not isinstance(state, (InFlight, Done)):
            raise ImpossibleTransition(pod, "be requeued", transitions.log)
        latest = record or pod.latest
        if not pod.in_attempt or latest.uid != pod.record.uid or latest.key in transitions.queued:
            transitions.drop(pod, state, now, "gone when requeued")
            return ()
        self._record_failure(pod, latest, now, rejectors, pending_plugins, nominated_node)
        decision, calls = self._evaluator.evaluate(pod, state)
        transitions.return_to_queue(pod, state)
        transitions.requeue(pod, decision, _FAILED, now)
        if calls and isinstance(pod.state, Unschedulable):
            for call in calls:
                call.targets[0].append(PodTarget(pod, pod.stamp))
        return self._calls.take_instructions()

    # --- what happens in the cluster, and time -----------------------------------------------------------------------

    def listens(self) -> bool:
        """Whether any pod waits for an event, or is tried and may wait then. If not, `on_event` need not be called."""
        return self._in_flight_events.wanted or bool(self._transitions.unschedulable.group_count)

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
        self._in_flight_events.append(InFlightEvent(event, old, new, max_priority))
        if not self._transitions.unschedulable.group_count:
            return self._calls.take_instructions()
        for profile, registrations in matching.items():
            groups = [
                group
                for group in self._transitions.unschedulable.refused_by(profile, (r.plugin for r in registrations))
                if (max_priority is None or group.priority <= max_priority)
                and (not group.key.gated_by or self._hints.interests(group.key.gated_by, event))
            ]
            if groups:
                self._evaluate_groups(profile, groups, (event, old, new), now, exclude_uid)
        return self._calls.take_instructions()

    def flush_backoff(self, now: float) -> Instructions:
        """Moves the pods whose back-off is over. To be called when `next_backoff` comes: on whole seconds."""
        for pod in self._transitions.backoff.completed(now):
            self._transitions.enter(pod, Destination.ACTIVE, _BACKED_OFF, now, pre_enqueue=not self._policy.pop_early)
        return self._calls.take_instructions()

    def flush_unschedulable(self, now: float) -> Instructions:
        """Gives another try to the pods that no event woke for five minutes, gated ones too; every `FLUSH_PERIOD`."""
        for pod in self._transitions.unschedulable.parked_before(now - self._max_in_unschedulable):
            pod.flushed = True
            pod.flushed_at = now
            self._wake(pod, Decision.AFTER_BACKOFF, cluster_event.UNSCHEDULABLE_TIMEOUT, now)
        return self._calls.take_instructions()

    def recheck_pre_enqueue(self, profile: str, event: ClusterEvent, now: float) -> Instructions:
        """PreEnqueue may refuse now pods of the profile that it allowed, or for which it is called."""
        transitions = self._transitions
        for pod in [
            pod for pod in transitions.queued.values() if pod.record.profile == profile and self._by_itself(pod)
        ]:
            match pod.state:
                case Active():
                    destination = Destination.ACTIVE
                case BackOff():
                    destination = Destination.BACKOFF
                case PreEnqueuePending(PreEnqueueCall(destination=destination)):
                    pass
                case _:
                    continue
            transitions.detach(pod)
            transitions.enter(pod, destination, event.label, now, counted=False)
        return self._calls.take_instructions()

    # --- answers of remote plugins -----------------------------------------------------------------------------------

    def repeat_pre_enqueue(self, call_id: int) -> bool:
        """The call failed and is made again now: its answer will know of all that has happened before.

        False: the answer is not wanted any more.
        """
        pod = self._calls.pre_enqueue_pod(call_id)
        if pod is None or not isinstance(pod.state, PreEnqueuePending) or pod.state.call is None:
            return False
        self._in_flight_events.close(pod.state.call.cursor)
        self._transitions.change_call(pod, pod.state.call._replace(cursor=self._in_flight_events.open(1)))
        return True

    def pre_enqueue_answered(self, call_id: int, gated_by: str, now: float, reason: str = "") -> Instructions:
        """Remote plugins let the pod in (empty), or this one refused it, for this reason. Old answers are void."""
        pod = self._calls.close_pre_enqueue(call_id)
        if pod is None or not isinstance(pod.state, PreEnqueuePending) or pod.state.call is None:
            return ()
        call, transitions = pod.state.call, self._transitions
        if not gated_by:
            transitions.end_call(call)
            transitions.admit(pod, call.destination, call.label, now)
            return ()
        transitions.add_rejector(pod, gated_by)
        call_again = self._evaluator.helped(pod, gated_by, call.cursor)
        transitions.end_call(call)
        if call_again:
            transitions.call_pre_enqueue(pod, call.destination, call.label, now)
        else:
            transitions.gate(pod, gated_by, call.label, now, reason=reason)
        return self._calls.take_instructions()

    def hint_answered(self, call_id: int, hints: Sequence[Hint] | None, now: float) -> Instructions:
        """The remote plugin answered, one hint for each pod of the call; None: the call failed."""
        call = self._calls.close_hint(call_id, hints)
        if call is None or call.answers is None:
            return ()
        for targets, hint in zip(call.targets, call.answers, strict=True):
            self._hints.results[call.plugin, call.event.label, hint.value] += 1
            if hint is not Hint.SKIP:
                for pod in [pod for target in targets for pod in self._pods_of(target)]:
                    pending = call.plugin in pod.pending_plugins
                    self._wake(pod, Decision.IMMEDIATELY if pending else Decision.AFTER_BACKOFF, call.event, now)
        return self._calls.take_instructions()

    # --- what is where -----------------------------------------------------------------------------------------------

    def ready(self) -> bool:
        """`pop` would hand something out."""
        return self._transitions.active.size > 0 or self._transitions.backoff.refused > 0

    def peek_next_classes(self, count: int) -> list[ClassAhead]:
        """The classes that come next, in order, at most `count`, so that their columns can be prepared.

        After the active ones, those that back off until the earliest second: what is taken early when nothing is left.
        """
        ahead = self._transitions.active.ahead(count)
        if len(ahead) < count:
            active = {each.class_id for each in ahead}
            ahead += [each for each in self._transitions.backoff.ahead(count) if each.class_id not in active]
        return ahead[:count]

    @property
    def held_preemptors(self) -> dict[str, str]:
        """The pods, by key their UID, that whoever preempts for them holds back for sure. It is theirs to change."""
        return self._transitions.held_preemptors

    def next_backoff(self) -> float | None:
        """When `flush_backoff` has something to do; None: not before a pod fails."""
        return self._transitions.backoff.next_expiry()

    def get(self, key: str) -> QueuedPodInfo | None:
        """The waiting pod of that name; one in flight or done only if none waits."""
        transitions = self._transitions
        pod = transitions.queued.get(key)
        popped = itertools.chain(transitions.in_flight.values(), transitions.done.values())
        return pod or next((pod for pod in popped if pod.record.key == key), None)

    def status_of(self, pod: QueuedPodInfo) -> QueueStatus:
        """The pod's state and what it waits for."""
        match pod.state:
            case Gated(plugin):
                events = self._hints.registered(pod.record.profile, (plugin,))
            case Unschedulable(rejectors):
                events = self._hints.registered(pod.record.profile, rejectors)
            case _:
                events = []
        return QueueStatus(pod.state, pod.timestamp, pod.attempts, tuple(sorted(pod.rejectors)), tuple(events))

    def transitions_of(self, key: str) -> list[Transition]:
        """The pod's last transitions, as far as they are remembered."""
        return self._transitions.log.of(key)

    def waiting_pods(self) -> list[QueuedPodInfo]:
        """All pods that wait, in no particular order."""
        return list(self._transitions.queued.values())

    def pods(self) -> list[QueuedPodInfo]:
        """All pods: those that wait, those in flight, and those that are done."""
        transitions = self._transitions
        return [*transitions.queued.values(), *transitions.in_flight.values(), *transitions.done.values()]

    def in_flight_pods(self) -> list[QueuedPodInfo]:
        """All pods that are being scheduled."""
        return list(self._transitions.in_flight.values())

    def statistics(self) -> QueueStatistics:
        """The queue in numbers."""
        transitions = self._transitions
        return QueueStatistics(
            active=transitions.active.size,
            backoff=transitions.backoff.refused,
            error_backoff=transitions.backoff.errors,
            unschedulable=transitions.unschedulable.refused,
            gated=transitions.unschedulable.gated,
            pre_enqueue_pending=self._calls.open_pre_enqueue,
            in_flight=len(transitions.in_flight),
            done=len(transitions.done),
            in_flight_events=self._in_flight_events.by_label(),
            dropped_events=self._in_flight_events.dropped,
            refusal_groups=transitions.unschedulable.group_count,
            open_hint_calls=self._calls.open_hints,
            scheduling_cycle=self._cycle,
            batches=self._batches,
            incoming=dict(transitions.incoming),
            refused_by={key: count for key, count in transitions.refused_by.items() if count},
            hints=dict(self._hints.results),
        )

    # --- within ------------------------------------------------------------------------------------------------------

    def _by_itself(self, pod: QueuedPodInfo) -> bool:
        """It is a pod, and not queued for others."""
        return True

    def _popped(self, uid: str) -> QueuedPodInfo | None:
        """The pod, if it is in flight or done."""
        return self._transitions.in_flight.get(uid) or self._transitions.done.get(uid)

    def _update_popped(
        self, pod: QueuedPodInfo, record: PodInfo, events: Sequence[ClusterEvent], old: Any, new: Any
    ) -> None:
        """The object of a pod that is in flight or done changed: it is there, whatever was heard of it before."""
        state = pod.state
        if not isinstance(state, InFlight):
            self._transitions.update_attempt(pod, record)
            return
        own_events, activated = state.own_events, state.activated
        if len(own_events) + len(events) > _MAX_OWN_EVENTS:
            own_events, activated = (), True
        own_events += tuple((event, old, new) for event in events)
        self._transitions.change_attempt(pod, latest=record, deleted=False, own_events=own_events, activated=activated)

    def _record_failure(
        self,
        pod: QueuedPodInfo,
        latest: PodInfo,
        now: float,
        rejectors: frozenset[str],
        pending_plugins: frozenset[str],
        nominated_node: str | None,
    ) -> None:
        if nominated_node is None and latest.nominated_node == pod.record.nominated_node:
            # Its object may not show yet the nomination of an earlier attempt.
            nominated_node = self.nominator.node_of(pod.uid)
        pod.record = latest
        self._transitions.set_rejectors(pod, rejectors, pending_plugins)
        if pod.rejectors:
            pod.unschedulable_count += 1
            pod.consecutive_errors = 0
        else:
            pod.consecutive_errors += 1
        pod.timestamp = now
        pod.backoff_expiration = 0.0
        pod.flushed = False
        self.nominator.nominate(pod.record, nominated_node)
        pod.record = self._with_nomination(pod.record)

    def _with_nomination(self, record: PodInfo) -> PodInfo:
        """The record of a pod that may be nominated to a node, though its object does not say so yet."""
        known = record.nominated or not self.nominator.node_of(record.uid)
        return record if known else record._replace(nominated=True)

    def _wake(
        self, pod: QueuedPodInfo, decision: Decision, event: ClusterEvent, now: float, *, counted: bool = True
    ) -> None:
        """Moves an unschedulable pod. `counted`: as incoming, if a gate sends it back to where it was."""
        self._transitions.detach(pod)
        self._transitions.requeue(pod, decision, event.label, now, counted=counted)

    def _evaluate_own(self, pod: QueuedPodInfo, events: Sequence[ClusterEvent], old: Any, new: Any, now: float) -> None:
        """What changes of its own object mean for an unschedulable pod: the first that helps moves it."""
        profile = pod.record.profile
        for event in events:
            if not isinstance(pod.state, (Unschedulable, Gated)):
                return
            decisions, remote = self._hints.evaluate_hints(profile, event, old, new, [pod])
            if decisions[0] is not Decision.SKIP:
                self._wake(pod, decisions[0], event, now, counted=False)
                continue
            for registration, _ in remote:
                targets: list[list[Target]] = [[PodTarget(pod, pod.stamp)]]
                if self._calls.call_hint(profile, registration, (event, old, new), [pod], targets) is None:
                    self._wake(pod, Decision.AFTER_BACKOFF, event, now, counted=False)
                    break

    def _evaluate_groups(
        self,
        profile: str,
        groups: list[RefusalGroup],
        happened: tuple[ClusterEvent, Any, Any],
        now: float,
        exclude_uid: str,
    ) -> None:
        """Asks about one pod of each group, and moves the pods of the groups that the event may help."""
        event, old, new = happened
        examples = [group.example() for group in groups]
        decisions, remote = self._hints.evaluate_hints(profile, event, old, new, examples)
        for registration, indexes in remote:
            pods = [examples[index] for index in indexes]
            targets: list[list[Target]] = [
                [RefusalGroupTarget(groups[index].key, self._transitions.stamp)] for index in indexes
            ]
            if self._calls.call_hint(profile, registration, happened, pods, targets) is None:
                for index in indexes:
                    decisions[index] = Decision.AFTER_BACKOFF
        for group, decision in zip(groups, decisions, strict=True):
            if decision is not Decision.SKIP:
                for pod in self._transitions.movable(group):
                    if pod.record.uid != exclude_uid and not self._transitions.still_gated(pod):
                        self._wake(pod, decision, event, now)

    def _pods_of(self, target: Target) -> list[QueuedPodInfo]:
        """The pods that an answer concerns: those that have not moved since the question."""
        if isinstance(target, PodTarget):
            pod = target.pod
            waits = isinstance(pod.state, (Unschedulable, Gated))
            return [pod] if waits and pod.stamp == target.stamp else []
        group = self._transitions.unschedulable.get(target.group)
        return [pod for pod in group.pods.values() if pod.stamp <= target.stamp] if group else []
