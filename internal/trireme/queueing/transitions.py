"""Transitions: the state of each entity in the queue, and every way from one state to another.

Nothing else assigns `state` (`groups.group_transitions` does of groups and their members), so that what belongs to a
transition (the structure that holds the entity, the stamp, the counters, the log, PreEnqueue on the way in) cannot be
forgotten. *When* an entity moves is the business of `scheduling_queue`, after events of `event_requeuer`.

Tests: tests/unit/queueing/test_scheduling_queue.py, tests/unit/queueing/test_queue_statistics.py,
tests/unit/queueing/test_states.py.
"""

import itertools
from collections import Counter

from trireme.framework import cluster_event, event_phrases
from trireme.queueing.active import ActiveQueue
from trireme.queueing.backoff import BackoffPolicy, BackoffQueue
from trireme.queueing.batch_key import BatchKey
from trireme.queueing.hints.hint_evaluation import Decision
from trireme.queueing.in_flight_events import InFlightEvents
from trireme.queueing.nominator import Nominator
from trireme.queueing.pod_info import PodInfo
from trireme.queueing.pre_enqueue import PreEnqueue, PreEnqueueResult
from trireme.queueing.queued_entity import QueuedEntity
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.queueing.remote_calls import RemoteCalls
from trireme.queueing.states import (
    ACTIVE,
    DONE,
    GONE,
    Active,
    BackOff,
    Destination,
    Done,
    Gated,
    InFlight,
    PreEnqueueCall,
    PreEnqueuePending,
)
from trireme.queueing.transition_log import TransitionLog
from trireme.queueing.unschedulable import RefusalGroup, UnschedulablePods
from trireme.registry.in_tree import PREEMPTION_PLUGIN


class Transitions:
    """The pods by state. Those that wait are known by key, those in flight or done by uid.

    A pod may be deleted and made again under its name while its old self is still in flight.
    """

    def __init__(
        self,
        active: ActiveQueue,
        backoff: BackoffQueue,
        unschedulable: UnschedulablePods,
        *,
        events: InFlightEvents,
        pre_enqueue: PreEnqueue,
        policy: BackoffPolicy,
        nominator: Nominator,
        calls: RemoteCalls,
    ) -> None:
        self.queued: dict[str, QueuedPodInfo] = {}
        self.in_flight: dict[str, QueuedPodInfo] = {}
        self.done: dict[str, QueuedPodInfo] = {}
        self.log = TransitionLog()
        #: (queue, event label) -> pods that entered
        self.incoming: Counter[tuple[str, str]] = Counter()
        #: (profile, plugin) -> waiting pods that the plugin refused
        self.refused_by: Counter[tuple[str, str]] = Counter()
        #: How many batches, and pods in them, were popped.
        self.popped_batches = 0
        self.popped_pods = 0
        self.policy = policy
        self._active = active
        self._backoff = backoff
        self._unschedulable = unschedulable
        self._pre_enqueue = pre_enqueue
        self._events = events
        self._nominator = nominator
        self._calls = calls
        self.stamp = 0
        #: Key and UID of pods that are gated until their preemption ends: no event that the plugin of preemption
        #: registers changes that.
        self.held_preemptors: dict[str, str] = {}
        # One object for each set of plugins, however many pods they refused.
        self._plugin_sets: dict[frozenset[str], frozenset[str]] = {}
        # Pods that fail within one second back off until the same second.
        self._last_backoff = BackOff(0.0)

    # --- into the queue ----------------------------------------------------------------------------------------------

    def requeue(self, pod: QueuedPodInfo, decision: Decision, label: str, now: float, *, counted: bool = True) -> None:
        """Moves a pod that is in no structure according to the decision. `counted`: see `enter`."""
        if decision is Decision.SKIP:
            self.make_unschedulable(pod, label, now)
        elif decision is Decision.AFTER_BACKOFF and self.policy.is_backing_off(pod, now):
            self.enter(pod, Destination.BACKOFF, label, now, counted=counted)
        else:
            self.enter(pod, Destination.ACTIVE, label, now, counted=counted)

    def enter(
        self,
        pod: QueuedPodInfo,
        destination: Destination,
        label: str,
        now: float,
        *,
        pre_enqueue: bool = True,
        counted: bool = True,
    ) -> None:
        """Put a pod that is in no structure into the active or back-off queue, if PreEnqueue allows it.

        Otherwise it is gated, or waits for the remote plugins that have to be called. `counted`: a pod that is gated
        counts as incoming. PreEnqueue is not called before back-off unless pods may be taken from there early.
        """
        if pre_enqueue and (destination is Destination.ACTIVE or self.policy.pop_early):
            result = self._pre_enqueue(pod)
            if result is PreEnqueueResult.CALL_REMOTE:
                self.call_pre_enqueue(pod, destination, label, now)
                return
            if result is not PreEnqueueResult.ALLOWED:
                self.gate(pod, str(result), label, now, counted=counted)
                return
        self.admit(pod, pod.record.class_id, destination, label, now)

    def admit(self, entity: QueuedEntity, key: BatchKey, destination: Destination, label: str, now: float) -> None:
        """Puts an entity that passed PreEnqueue into the active or, while it backs off, the back-off queue.

        `key`: of the batches that it may be popped in.
        """
        self.stamp += 1
        entity.stamp = self.stamp
        state: Active | BackOff = ACTIVE
        if destination is Destination.BACKOFF and self.policy.is_backing_off(entity, now):
            state = entity.state = self._shared_backoff_state(entity.backoff_expiration)
            self._backoff.add(entity, key)
        else:
            entity.state = ACTIVE
            if not entity.initial_attempt_timestamp:
                entity.initial_attempt_timestamp = now
            self._active.add(entity, key)
        self.incoming[state.label, label] += 1
        self.log.append(now, entity, label)

    def make_unschedulable(self, pod: QueuedPodInfo, label: str, now: float) -> None:
        """Has the pod wait for an event that helps it."""
        self.stamp += 1
        pod.stamp = self.stamp
        pod.state = self._unschedulable.add(pod)
        self.incoming["unschedulable", label] += 1
        self.log.append(now, pod, label)

    def gate(
        self, pod: QueuedPodInfo, plugin: str, label: str, now: float, *, reason: str = "", counted: bool = True
    ) -> None:
        """Holds the pod back until the PreEnqueue plugin, which has this reason, allows it to enter."""
        self.add_rejector(pod, plugin)
        self.stamp += 1
        pod.stamp = self.stamp
        # The flush did not lead to an attempt; the next attempt does not count as its result.
        pod.flushed = False
        state = self._unschedulable.add(pod, plugin)
        pod.state = Gated(plugin, reason) if reason else state
        if counted:
            self.incoming["unschedulable", label] += 1
        self.log.append(now, pod, event_phrases.gated_phrase(label, plugin, reason))

    def call_pre_enqueue(self, pod: QueuedPodInfo, destination: Destination, label: str, now: float) -> None:
        """Has the remote PreEnqueue plugins called for the pod; the events meanwhile are recorded for it."""
        self.stamp += 1
        pod.stamp = self.stamp
        call = PreEnqueueCall(self._calls.call_pre_enqueue(pod), self._events.open_cursor(1), destination, label)
        pod.state = PreEnqueuePending(call)
        self.log.append(now, pod, label)

    def replace_pre_enqueue_call(self, pod: QueuedPodInfo, call: PreEnqueueCall) -> None:
        """Replace the record of the pod's open call by one with another cursor or destination."""
        pod.state = PreEnqueuePending(call)

    def close_pre_enqueue_call(self, call: PreEnqueueCall) -> None:
        """Close a call that is answered or void, with its cursor; its pod is in no structure now."""
        self._calls.close_pre_enqueue(call.call_id)
        self._events.close_cursor(call.cursor)

    # --- within the queue, and out of it -----------------------------------------------------------------------------

    def detach(self, pod: QueuedPodInfo) -> None:
        """Takes a waiting pod out of the structure that it is in."""
        state = pod.state
        if isinstance(state, PreEnqueuePending):
            assert state.call is not None  # only members of groups have their calls elsewhere
            self.close_pre_enqueue_call(state.call)
        else:
            assert pod.container is not None
            pod.container.discard(pod)

    def remove_waiting_pod(self, pod: QueuedPodInfo, now: float, cause: str) -> None:
        """Forgets a waiting pod."""
        self.detach(pod)
        del self.queued[pod.record.key]
        pod.state = GONE
        self.count_rejectors(pod, -1)
        self.log.append(now, pod, cause)

    def replace_record(self, pod: QueuedPodInfo, record: PodInfo) -> None:
        """Give a waiting pod its new record, and the position that follows from it; its state stays.

        A record that sorts as the one before changes no position. A refused pod moves to the group of its new class and
        nominated node, and open hint calls about it follow.
        """
        container, stamp = pod.container, pod.stamp
        same_group = not isinstance(container, RefusalGroup) or pod.record.nominated_node == record.nominated_node
        if container is None or (same_group and pod.record.sort_identity == record.sort_identity):
            pod.record = record
            return
        self.count_rejectors(pod, -1)
        container.discard(pod)
        pod.record = record
        self.count_rejectors(pod, 1)
        self.stamp += 1
        pod.stamp = self.stamp
        if isinstance(container, RefusalGroup):
            state = self._unschedulable.add(pod, pod.gated_by)
            if type(state) is not Gated:
                pod.state = state
            if self._calls.open_hints:
                self._calls.follow_moved_pod(pod, container.key, stamp)
        else:
            self._add_to_queue(pod, record.class_id)

    def move_within(self, entity: QueuedEntity, key: BatchKey) -> None:
        """Give an entity in the active or back-off queue the position that follows from its new record."""
        assert entity.container is not None
        entity.container.discard(entity)
        self.stamp += 1
        entity.stamp = self.stamp
        self._add_to_queue(entity, key)

    def _add_to_queue(self, entity: QueuedEntity, key: BatchKey) -> None:
        """Put an entity into the structure of its state, which is that of the active or the back-off queue."""
        if type(entity.state) is Active:
            self._active.add(entity, key)
        else:
            self._backoff.add(entity, key)

    def still_gated(self, pod: QueuedPodInfo) -> bool:
        """Whether the plugin that gates a pod does so still: then waking it would only gate it again."""
        plugin = pod.gated_by
        return bool(plugin) and self._pre_enqueue(pod) == plugin

    def movable_pods(self, group: RefusalGroup) -> list[QueuedPodInfo]:
        """The pods of the group, in their order, without the preemptors that are gated until their preemption ends.

        With many preemptors every deletion of a victim would otherwise evaluate each of them.
        """
        if group.key.gated_by != PREEMPTION_PLUGIN:
            return list(group.pods.values())
        return [group.pods[key] for key in itertools.filterfalse(self.held_preemptors.__contains__, group.pods)]

    # --- attempts ----------------------------------------------------------------------------------------------------

    def start_attempts(self, pods: list[QueuedPodInfo], now: float) -> None:
        """Pods that were taken out of the active or back-off queue are in flight now."""
        state = InFlight(self._events.open_cursor(len(pods)))
        for pod in pods:
            record = pod.record
            del self.queued[record.key]
            self.in_flight[record.uid] = pod
            pod.state = state
            pod.popped_at = now
            pod.attempts += 1
            self.count_rejectors(pod, -1)
            self.log.append(now, pod, cluster_event.POPPED)

    def update_attempt(self, pod: QueuedPodInfo, state: InFlight | Done) -> None:
        """The pod is still in flight, or still done: `state` adds what happened to its object since it was popped."""
        assert type(pod.state) is type(state)
        pod.state = state

    def complete(self, pod: QueuedPodInfo, state: InFlight, now: float) -> None:
        """The pod's attempt needs no more events: the pod is Done (being bound) or, if it was deleted, gone."""
        self._leave_attempt(pod, state)
        if state.deleted:
            pod.state = GONE
        else:
            pod.state = DONE if state.latest is None else Done(state.latest)
            self.done[pod.record.uid] = pod
        self.log.append(now, pod, cluster_event.PLACED)

    def return_to_queue(self, pod: QueuedPodInfo, state: InFlight | Done) -> None:
        """The pod is waiting again, in a state that the caller chooses next."""
        self._leave_attempt(pod, state)
        self.queued[pod.record.key] = pod

    def remove_popped_pod(self, pod: QueuedPodInfo, state: InFlight | Done, now: float, cause: str) -> None:
        """Forgets a pod that is in flight or done."""
        self._leave_attempt(pod, state)
        pod.state = GONE
        self.log.append(now, pod, cause)

    def record_failure(
        self,
        pod: QueuedPodInfo,
        latest: PodInfo,
        now: float,
        rejectors: frozenset[str],
        pending_plugins: frozenset[str],
        nominated_node: str | None,
    ) -> None:
        """Counts a failed attempt of a pod, and nominates it: see `SchedulingQueue.requeue`.

        The pod is about to wait again, in a state that the caller chooses. A key that a plugin gave it for the queue is
        requested anew, in case it changed during the attempt.
        """
        before = pod.record
        if nominated_node is None and latest.nominated_node == pod.record.nominated_node:
            # Its object may not show yet the nomination of an earlier attempt.
            nominated_node = self._nominator.node_of(pod.uid)
        pod.record = latest
        pod.rejectors = self._shared_plugin_set(rejectors | pending_plugins if pending_plugins else rejectors)
        pod.pending_plugins = self._shared_plugin_set(pending_plugins)
        self.count_rejectors(pod, 1)
        if pod.rejectors:
            pod.unschedulable_count += 1
            pod.consecutive_errors = 0
        else:
            pod.consecutive_errors += 1
        pod.timestamp = now
        pod.backoff_expiration = 0.0
        pod.flushed = False
        self._nominator.nominate(pod.record, nominated_node)
        pod.record = self._nominator.with_nomination(pod.record)
        self._calls.renew_sort_key(pod, before)

    def _leave_attempt(self, pod: QueuedPodInfo, state: InFlight | Done) -> None:
        """The pod is in flight, or done, no more; the events since it was popped are not needed for it."""
        if isinstance(state, InFlight):
            del self.in_flight[pod.record.uid]
            assert state.cursor is not None  # members of groups are not among them
            self._events.close_cursor(state.cursor)
        else:
            del self.done[pod.record.uid]

    # --- rejectors ---------------------------------------------------------------------------------------------------

    def add_rejector(self, pod: QueuedPodInfo, plugin: str) -> None:
        """Records that a PreEnqueue plugin refused a waiting pod."""
        if plugin not in pod.rejectors:
            pod.rejectors = self._shared_plugin_set(pod.rejectors | {plugin})
            self.refused_by[pod.record.profile, plugin] += 1

    def count_rejectors(self, pod: QueuedPodInfo, sign: int) -> None:
        """Adds a waiting pod to, or takes it off, the count of each plugin that refused it."""
        for plugin in pod.rejectors:
            self.refused_by[pod.record.profile, plugin] += sign

    def _shared_plugin_set(self, plugins: frozenset[str]) -> frozenset[str]:
        """The set equal to this one that all pods share, to save memory."""
        return self._plugin_sets.setdefault(plugins, plugins)

    def _shared_backoff_state(self, until: float) -> BackOff:
        """The state of pods that back off until then; pods requeued together share it."""
        if self._last_backoff.until != until:
            self._last_backoff = BackOff(until)
        return self._last_backoff
