"""Transitions: where each pod is, and every way from one place to another.

All moves of the scheduling queue go through here, so that what belongs to a move (the stamp, the counters, the story,
PreEnqueue on the way in) cannot be forgotten, and so that each pod is in exactly one place. *When* a pod moves is the
business of `scheduling_queue`.
"""

import itertools
from collections import Counter

from trireme.framework import event_phrases
from trireme.queueing.active import ActiveQueue
from trireme.queueing.backoff import BackoffPolicy, BackoffQueue
from trireme.queueing.in_flight_events import InFlightEvents
from trireme.queueing.pre_enqueue import DEFAULT_PREEMPTION, PreEnqueue, PreEnqueueResult
from trireme.queueing.queue_hints import Decision
from trireme.queueing.queued_pod import Asking, Flight, Place, PodInfo, QueuedPodInfo
from trireme.queueing.remote_calls import RemoteCalls
from trireme.queueing.transition_log import TransitionLog
from trireme.queueing.unschedulable import Group, UnschedulablePods


class Transitions:
    """The pods by place. Waiting pods are known by key, those in flight or done by uid.

    A pod may be deleted and made again under its name while its old self is still in flight.
    """

    def __init__(
        self, policy: BackoffPolicy, pre_enqueue: PreEnqueue, log: InFlightEvents, questions: RemoteCalls
    ) -> None:
        self.queued: dict[str, QueuedPodInfo] = {}
        self.in_flight: dict[str, QueuedPodInfo] = {}
        self.done: dict[str, QueuedPodInfo] = {}
        self.active = ActiveQueue()
        self.backoff = BackoffQueue(policy)
        self.unschedulable = UnschedulablePods()
        self.story = TransitionLog()
        #: (queue, event label) -> pods that entered
        self.incoming: Counter[tuple[str, str]] = Counter()
        #: (profile, plugin) -> waiting pods that the plugin refused
        self.refused_by: Counter[tuple[str, str]] = Counter()
        self.policy = policy
        self._pre_enqueue = pre_enqueue
        self._log = log
        self._questions = questions
        self.stamp = 0
        #: Key and UID of pods that DefaultPreemption holds back for sure: no event that it waits for lets them go.
        self.held: dict[str, str] = {}
        # One object for each set of plugins, however many pods they refused.
        self._plugin_sets: dict[frozenset[str], frozenset[str]] = {}

    def requeue(self, pod: QueuedPodInfo, decision: Decision, label: str, now: float, *, counted: bool = True) -> None:
        """Sends a pod that is in no structure where the decision says. `counted`: see `enter`."""
        if decision is Decision.STAY:
            self.park(pod, label, now)
        elif decision is Decision.AFTER_BACKOFF and self.policy.backing_off(pod, now):
            self.enter(pod, Place.BACKOFF, label, now, counted=counted)
        else:
            self.enter(pod, Place.ACTIVE, label, now, counted=counted)

    def enter(
        self, pod: QueuedPodInfo, place: Place, label: str, now: float, *, gate: bool = True, counted: bool = True
    ) -> None:
        """Lets a pod that is in no structure into the active or back-off queue, if PreEnqueue agrees.

        Otherwise it is parked; `counted`: as one that comes from elsewhere.
        """
        if gate and (place is Place.ACTIVE or self.policy.pop_early):
            verdict = self._pre_enqueue(pod)
            if verdict is PreEnqueueResult.CALL_REMOTE:
                self.ask(pod, place, label, now)
                return
            if verdict is not PreEnqueueResult.ALLOWED:
                self.note_gate(pod, str(verdict))
                self.park(pod, label, now, counted=counted)
                return
            pod.gated_by = pod.gate_reason = ""
        self.settle(pod, place, label, now)

    def still_gated(self, pod: QueuedPodInfo) -> bool:
        """Whether what holds back a parked pod does so still: then waking it would only park it again."""
        return bool(pod.gated_by) and self._pre_enqueue(pod) == pod.gated_by

    def loose(self, group: Group) -> list[QueuedPodInfo]:
        """The pods of the group, in their order, but for those that are held back for sure.

        In a crowd of preemptors every deletion of a victim would ask about each of them.
        """
        if group.key.gated_by != DEFAULT_PREEMPTION:
            return list(group.pods.values())
        return [group.pods[key] for key in itertools.filterfalse(self.held.__contains__, group.pods)]

    def settle(self, pod: QueuedPodInfo, place: Place, label: str, now: float) -> None:
        """Puts a pod that passed PreEnqueue into the active or, while it backs off, the back-off queue."""
        self.stamp += 1
        pod.stamp = self.stamp
        if place is Place.BACKOFF and self.policy.backing_off(pod, now):
            pod.place = Place.BACKOFF
            self.backoff.add(pod)
        else:
            pod.place = Place.ACTIVE
            if not pod.initial_attempt_timestamp:
                pod.initial_attempt_timestamp = now
            self.active.add(pod)
        self.incoming[pod.place.value, label] += 1
        self.story.tell(now, pod, pod.place, label)

    def park(self, pod: QueuedPodInfo, label: str, now: float, *, counted: bool = True) -> None:
        """Puts a pod aside until an event."""
        self.stamp += 1
        pod.stamp = self.stamp
        pod.place = Place.UNSCHEDULABLE
        if pod.gated_by:
            # It was flushed in vain; its next attempt will not be owed to that.
            pod.flushed = False
        self.unschedulable.add(pod)
        if counted:
            self.incoming["unschedulable", label] += 1
        self.story.tell(now, pod, Place.UNSCHEDULABLE, event_phrases.gated(label, pod.gated_by, pod.gate_reason))

    def ask(self, pod: QueuedPodInfo, destination: Place, label: str, now: float) -> None:
        """Has the remote PreEnqueue plugins asked about the pod; events meanwhile are kept for it."""
        self.stamp += 1
        pod.stamp = self.stamp
        pod.place = Place.ASKED
        pod.asking = Asking(self._questions.ask_pre_enqueue(pod), self._log.open(1), destination, label)
        self.story.tell(now, pod, Place.ASKED, label)

    def stop_asking(self, pod: QueuedPodInfo) -> Asking:
        """The question about the pod is answered or void; it is in no structure now."""
        asking = pod.asking
        assert asking is not None  # only called for a pod that is asked about
        pod.asking = None
        self._questions.close_pre_enqueue(asking.call_id)
        self._log.close(asking.cell)
        return asking

    def leave(self, pod: QueuedPodInfo) -> None:
        """Takes a waiting pod out of the structure that it is in."""
        if pod.asking is not None:
            self.stop_asking(pod)
        elif pod.home is not None:
            pod.home.discard(pod)

    def remove(self, pod: QueuedPodInfo, now: float, cause: str) -> None:
        """Forgets a waiting pod."""
        self.leave(pod)
        del self.queued[pod.record.key]
        pod.place = Place.GONE
        self.count_refusals(pod, -1)
        self.story.tell(now, pod, Place.GONE, cause)

    def replace_record(self, pod: QueuedPodInfo, record: PodInfo) -> None:
        """Gives a waiting pod its new record, and the position that follows from it."""
        old = pod.record
        home, stamp = pod.home, pod.stamp
        if old[2:7] == record[2:7] or home is None:
            pod.record = record
            return
        self.count_refusals(pod, -1)
        home.discard(pod)
        pod.record = record
        self.count_refusals(pod, 1)
        self.stamp += 1
        pod.stamp = self.stamp
        if pod.place is Place.ACTIVE:
            self.active.add(pod)
        elif pod.place is Place.BACKOFF:
            self.backoff.add(pod)
        else:
            self.unschedulable.add(pod)
            if self._questions.open_hints and isinstance(home, Group):
                self._questions.follow(pod, home.key, stamp)

    def take_off(self, pods: list[QueuedPodInfo], now: float) -> None:
        """Pods that were taken out of the active or back-off queue are in flight now."""
        cell = self._log.open(len(pods))
        for pod in pods:
            record = pod.record
            del self.queued[record.key]
            self.in_flight[record.uid] = pod
            pod.flight = Flight(cell)
            pod.place = Place.IN_FLIGHT
            pod.popped_at = now
            pod.attempts += 1
            if pod.rejectors:
                self.count_refusals(pod, -1)
            self.story.tell(now, pod, Place.IN_FLIGHT, "popped")

    def finish(self, pod: QueuedPodInfo, flight: Flight, now: float) -> None:
        """The pod's attempt needs no events any more. It is looked after elsewhere until it is back, or gone."""
        self._land(pod, flight)
        if flight.deleted:
            pod.place = Place.GONE
        else:
            pod.place = Place.DONE
            self.done[pod.record.uid] = pod
        self.story.tell(now, pod, pod.place, "done")

    def take_back(self, pod: QueuedPodInfo, flight: Flight) -> None:
        """The pod is waiting again, in a structure that the caller chooses."""
        self._land(pod, flight)
        pod.flight = None
        self.queued[pod.record.key] = pod

    def let_go(self, pod: QueuedPodInfo, flight: Flight, now: float, cause: str) -> None:
        """Forgets a pod that is in flight or done."""
        self._land(pod, flight)
        flight.deleted = True
        pod.place = Place.GONE
        self.story.tell(now, pod, Place.GONE, cause)

    def _land(self, pod: QueuedPodInfo, flight: Flight) -> None:
        if flight.cell is not None:
            del self.in_flight[pod.record.uid]
            self._log.close(flight.cell)
            flight.cell = None
        else:
            del self.done[pod.record.uid]

    def note_refusal(self, pod: QueuedPodInfo, rejectors: frozenset[str], pending_plugins: frozenset[str]) -> None:
        """Records who refused a pod that is about to wait again."""
        pod.rejectors = self._plugin_set(rejectors | pending_plugins if pending_plugins else rejectors)
        pod.pending_plugins = self._plugin_set(pending_plugins)
        self.count_refusals(pod, 1)

    def note_gate(self, pod: QueuedPodInfo, plugin: str, reason: str = "") -> None:
        """Records which PreEnqueue plugin holds the pod back, and what it says about that."""
        pod.gated_by, pod.gate_reason = plugin, reason
        if plugin not in pod.rejectors:
            pod.rejectors = self._plugin_set(pod.rejectors | {plugin})
            self.refused_by[pod.record.profile, plugin] += 1

    def count_refusals(self, pod: QueuedPodInfo, sign: int) -> None:
        """Adds a waiting pod to, or takes it off, the count of each plugin that refused it."""
        for plugin in pod.rejectors:
            self.refused_by[pod.record.profile, plugin] += sign

    def _plugin_set(self, plugins: frozenset[str]) -> frozenset[str]:
        return self._plugin_sets.setdefault(plugins, plugins)
