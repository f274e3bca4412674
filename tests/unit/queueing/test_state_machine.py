"""SchedulingQueue against a plain model, over random stimuli on a virtual clock.

The model keeps no queues. It knows which pods exist, writes down every event that each attempt has seen, and decides
about each pod by itself, one hint at a time, as kube-scheduler's rules say. After every step each pod must be in one
place, and in the one that the model expects; and at the end everybody gets a turn.
"""

import math
import os
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.helpers.queue_builders import (
    GATES_GONE,
    NODE_ADD,
    NODE_TAINT,
    OWN_LABEL,
    POD_DELETE,
    T0,
    one_by_one,
    queue,
    record,
)
from trireme.framework.cluster_event import ClusterEvent
from trireme.queueing import state_machine
from trireme.queueing.event_audience import EventAudience
from trireme.queueing.hints.hint_evaluation import Decision
from trireme.queueing.hints.queueing_hint_map import EventRegistration, HintAnswer
from trireme.queueing.pre_enqueue import PreEnqueueResult
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.queueing.remote_calls import CallPreEnqueue, CallQueueingHint
from trireme.queueing.scheduling_queue import PodBatch
from trireme.queueing.states import (
    Active,
    BackOff,
    Done,
    Gated,
    Gone,
    InFlight,
    PreEnqueuePending,
    QueueState,
    Unschedulable,
)

NAMES = [f"p{index}" for index in range(8)]
CLASSES = range(6)
PRIORITY = {class_id: class_id % 2 for class_id in CLASSES}
PLUGINS = ["Fit", "Taint", "Label", "Far"]
CLUSTER_EVENTS = [NODE_ADD, NODE_TAINT, POD_DELETE]
OWN_EVENTS = [OWN_LABEL, GATES_GONE]

# (plugin, event) -> whether it helps a pod of that class, given the number that the event's object is.
LOCAL = {
    ("Fit", NODE_ADD): lambda class_id, number: (class_id + number) % 3 == 0,
    ("Fit", POD_DELETE): lambda class_id, number: True,
    ("Taint", NODE_TAINT): lambda class_id, number: number % 2 == 0,
    ("Label", OWN_LABEL): lambda class_id, number: True,
    ("Gates", GATES_GONE): lambda class_id, number: True,
    ("FarGate", NODE_TAINT): lambda class_id, number: True,
}
REMOTE = {("Far", NODE_ADD)}


def _registration(plugin: str, event: ClusterEvent, helps: Any) -> EventRegistration:
    def hint(pod: QueuedPodInfo, event: ClusterEvent, old: Any, new: Any) -> HintAnswer:
        return HintAnswer.QUEUE if helps(pod.record.class_id, new) else HintAnswer.SKIP

    return EventRegistration(plugin, event, one_by_one(hint))


REGISTRATIONS = [_registration(plugin, event, helps) for (plugin, event), helps in LOCAL.items()] + [
    EventRegistration(plugin, event, remote=True) for plugin, event in REMOTE
]


@dataclass
class Attempt:
    """A popped pod, and what has happened since."""

    pod: QueuedPodInfo
    events: list[tuple[ClusterEvent, int, int | None]] = field(default_factory=list)  # event, object, highest priority
    class_id: int = 0
    woken: bool = False
    deleted: bool = False


class QueueMachine(RuleBasedStateMachine):
    """The stimuli, and what must hold."""

    def __init__(self) -> None:
        super().__init__()
        self.now = T0 + 0.25
        self.queue = queue(REGISTRATIONS, self._pre_enqueue)
        self.count = 0
        self.waiting: dict[str, str] = {}  # name -> uid
        self.flights: dict[str, Attempt] = {}  # uid -> attempt
        self.done_pods: dict[str, Attempt] = {}  # uid -> attempt
        self.closed: set[str] = set()
        self.far: set[str] = set()
        self.calls: list[CallQueueingHint | CallPreEnqueue] = []
        self.behind: dict[str, Counter[int]] = {}

    def _pre_enqueue(self, pod: QueuedPodInfo) -> str | PreEnqueueResult:
        name = pod.record.key.removeprefix("ns/")
        if name in self.closed:
            return "Gates"
        return PreEnqueueResult.CALL_REMOTE if name in self.far else PreEnqueueResult.ALLOWED

    # --- stimuli ---

    @rule(
        name=st.sampled_from(NAMES), class_id=st.sampled_from(CLASSES), gate=st.sampled_from(["", "", "local", "far"])
    )
    def add(self, name: str, class_id: int, gate: str) -> None:
        """A pod appears; or, where the deletion of its old self was missed, appears again."""
        for gates, kind in ((self.closed, "local"), (self.far, "far")):
            (gates.add if gate == kind else gates.discard)(name)
        self.count += 1
        uid = f"{name}-{self.count}"
        self._open_calls(self.queue.add(record(name, class_id, PRIORITY[class_id], uid), self.now))
        self.waiting[name] = uid

    @rule(name=st.sampled_from(NAMES))
    def repeat(self, name: str) -> None:
        """The informer reports a known pod again."""
        pod = self.queue.contents.get(f"ns/{name}")
        if pod is not None:
            before = type(pod.state)
            self._open_calls(self.queue.add(pod.record, self.now))
            # A call of PreEnqueue starts again, and a local gate may have closed in the meantime.
            assert type(pod.state) is before or (before is PreEnqueuePending and pod.gated_by)
            attempt = self._attempt_of(pod)
            if attempt is not None:
                attempt.deleted, attempt.class_id = False, pod.record.class_id

    @rule(
        name=st.sampled_from(NAMES),
        class_id=st.sampled_from(CLASSES),
        events=st.lists(st.sampled_from(OWN_EVENTS), max_size=2),
    )
    def update(self, name: str, class_id: int, events: list[ClusterEvent]) -> None:
        """A pod's object changes, waiting or in flight."""
        pod = self.queue.contents.get(f"ns/{name}")
        if pod is None:
            return
        if GATES_GONE in events:
            self.closed.discard(name)
        attempt = self._attempt_of(pod)
        new = record(name, class_id, PRIORITY[class_id], pod.uid)
        place = type(pod.state)
        decisions = [self._naive(pod, class_id, event, 0) for event in events]
        decision = next((each for each in decisions if each is not Decision.SKIP), Decision.SKIP)
        # In another class it stands where its age puts it; among those of the same moment, last.
        self.behind.pop(pod.uid, None)
        self._open_calls(self.queue.update(new, events, 0, 0, self.now))
        if attempt is not None:
            attempt.events += [(event, 0, None) for event in events]
            attempt.class_id, attempt.deleted = class_id, False
        elif place in (Unschedulable, Gated) and decision is not Decision.SKIP:
            self._expect_entry(pod, decision)
        elif place is not PreEnqueuePending:
            assert type(pod.state) is place

    @rule(name=st.sampled_from(NAMES), class_id=st.sampled_from(CLASSES))
    def reclassify(self, name: str, class_id: int) -> None:
        """Plugins look at more than before: a pod is of another class of its priority."""
        pod = self.queue.contents.get(f"ns/{name}")
        if pod is not None and PRIORITY[class_id] == pod.record.priority:
            place = type(pod.state)
            self.behind.pop(pod.uid, None)
            self.queue.reclassify(f"ns/{name}", pod.uid, class_id)
            assert type(pod.state) is place
            attempt = self._attempt_of(pod)
            if attempt is not None:
                attempt.class_id = class_id
                # Priority is the class's: an update that changed it meanwhile is taken back.
                self._open_calls(self.queue.add(record(name, class_id, PRIORITY[class_id], pod.uid), self.now))
                attempt.deleted = False

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: str) -> None:
        """A pod goes away, wherever it is."""
        pod = self.queue.contents.get(f"ns/{name}")
        uid = pod.uid if pod else "unknown"
        self.queue.delete(f"ns/{name}", uid, self.now)
        if uid in self.flights:
            self.flights[uid].deleted = True
        elif uid not in self.done_pods:
            self.waiting.pop(name, None)
        self.done_pods.pop(uid, None)

    @rule(limit=st.integers(1, 4))
    def pop(self, limit: int) -> None:
        """The scheduler takes a batch."""
        active = list(self.queue._active)
        early = [pod for window in self.queue._backoff._windows.values() for pod in window]
        ahead = self.queue.peek_next_batch()
        batch = self.queue.pop(self.now, limit)
        if ahead is not None and isinstance(batch, PodBatch):
            assert (ahead.key, ahead.head) == (batch.class_id, batch.pods[0])
        if batch is None:
            assert not active
            assert not early
            return
        first = batch.pods[0]
        assert len(batch.pods) <= limit
        assert {pod.record.class_id for pod in batch.pods} == {batch.class_id}
        if active:
            assert first.record.level == min(pod.record.level for pod in active)
            self._check_turns(active, batch.pods)
        else:
            best = min((pod.backoff_expiration, pod.record.level) for pod in early)
            assert (first.backoff_expiration, first.record.level) == best
        ages = [pod.timestamp for pod in batch.pods]
        assert ages == sorted(ages)
        for pod in batch.pods:
            assert self.waiting.pop(pod.key.removeprefix("ns/")) == pod.uid
            self.flights[pod.uid] = Attempt(pod, class_id=pod.record.class_id)

    def _check_turns(self, active: list[QueuedPodInfo], taken: list[QueuedPodInfo]) -> None:
        """Nobody waits behind two batches of one other class of its priority."""
        taken_uids = {pod.uid for pod in taken}
        batch = taken[0].record
        self.behind = {pod.uid: self.behind.get(pod.uid, Counter()) for pod in active if pod.uid not in taken_uids}
        for pod in active:
            if pod.uid in taken_uids:
                continue
            if pod.record.class_id == batch.class_id:
                self.behind[pod.uid].clear()
            elif pod.record.level == batch.level:
                self.behind[pod.uid][batch.class_id] += 1
                assert self.behind[pod.uid][batch.class_id] == 1

    @precondition(lambda self: self.flights)
    @rule(
        data=st.data(),
        rejectors=st.frozensets(st.sampled_from(PLUGINS), max_size=2),
        pending=st.frozensets(st.sampled_from(PLUGINS), max_size=1),
    )
    def requeue(self, data: st.DataObject, rejectors: frozenset[str], pending: frozenset[str]) -> None:
        """An attempt fails, by refusal or by error."""
        attempt = self.flights.pop(data.draw(st.sampled_from(sorted(self.flights))))
        pod = attempt.pod
        name = pod.key.removeprefix("ns/")
        self._open_calls(self.queue.requeue(pod, self.now, rejectors=rejectors, pending_plugins=pending))
        if attempt.deleted or name in self.waiting:
            assert type(pod.state) is Gone
            return
        self.waiting[name] = pod.uid
        assert pod.record.class_id == attempt.class_id
        assert pod.rejectors >= rejectors | pending
        if not rejectors | pending:
            self._expect_entry(pod, Decision.AFTER_BACKOFF)
            return
        decision = Decision.AFTER_BACKOFF if attempt.woken else Decision.SKIP
        events = [
            (event, number)
            for event, number, max_priority in attempt.events
            if max_priority is None or PRIORITY[attempt.class_id] <= max_priority
        ]
        for event, number in events:
            decision = max(decision, self._naive(pod, attempt.class_id, event, number, rejectors | pending))
        asks = any((plugin, event) in REMOTE for plugin in pod.rejectors for event, _ in events)
        if decision is not Decision.SKIP or not asks:
            # A remote plugin may have answered for another pod of the batch: then it is more than the model knows.
            self._expect_entry(pod, decision, gate=decision is not Decision.SKIP)

    @precondition(lambda self: self.flights)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        """A pod is being bound."""
        uid = data.draw(st.sampled_from(sorted(self.flights)))
        attempt = self.flights.pop(uid)
        self.queue.done(uid, self.now)
        if not attempt.deleted:
            self.done_pods[uid] = attempt

    @precondition(lambda self: self.done_pods)
    @rule(data=st.data())
    def binding_fails(self, data: st.DataObject) -> None:
        """A pod comes back after it was done."""
        attempt = self.done_pods.pop(data.draw(st.sampled_from(sorted(self.done_pods))))
        pod = attempt.pod
        name = pod.key.removeprefix("ns/")
        self._open_calls(self.queue.requeue(pod, self.now, rejectors=frozenset({"Fit"})))
        if name in self.waiting:
            assert type(pod.state) is Gone
            return
        self.waiting[name] = pod.uid
        assert pod.record.class_id == attempt.class_id
        self._expect_entry(pod, Decision.AFTER_BACKOFF)

    @rule(
        event=st.sampled_from(CLUSTER_EVENTS),
        number=st.integers(0, 5),
        max_priority=st.sampled_from([None, None, 0]),
    )
    def happens(self, event: ClusterEvent, number: int, max_priority: int | None) -> None:
        """Something changes in the cluster."""
        parked = {pod.uid: pod for pod in self.queue._unschedulable}
        expected = {}
        for uid, pod in parked.items():
            affected = max_priority is None or pod.record.priority <= max_priority
            listens = not pod.gated_by or (pod.gated_by, event) in LOCAL
            decision = self._naive(pod, pod.record.class_id, event, number) if affected and listens else Decision.SKIP
            expected[uid] = (decision, pod.stamp)
        self._open_calls(self.queue.on_event(event, number, number, self.now, EventAudience(max_priority)))
        for uid, (decision, stamp) in expected.items():
            if decision is Decision.SKIP:
                assert parked[uid].stamp == stamp, "woken by an event that cannot help it"
            else:
                self._expect_entry(parked[uid], decision)
        for attempt in self.flights.values():
            attempt.events.append((event, number, max_priority))

    @rule(names=st.lists(st.sampled_from(NAMES), max_size=3))
    def activate(self, names: list[str]) -> None:
        """Plugins want pods tried at once."""
        pods = [pod for name in names if (pod := self.queue.contents.get(f"ns/{name}")) is not None]
        self._open_calls(self.queue.activate([(pod.key, pod.uid) for pod in pods], self.now))
        for pod in pods:
            attempt = self._attempt_of(pod)
            if attempt is not None:
                attempt.woken = True
            elif type(pod.state) is not PreEnqueuePending:
                assert type(pod.state) in (Gated, Active)

    @rule(seconds=st.sampled_from([0.0, 0.4, 1.0, 3.3, 60.0, 301.0]))
    def time_passes(self, seconds: float) -> None:
        """The clock moves, and the shell flushes."""
        self.now += seconds
        self._open_calls(self.queue.flush_backoff(self.now))
        self._open_calls(self.queue.flush_unschedulable(self.now))
        for pod in self.queue._unschedulable:
            assert self.now - max(pod.timestamp, pod.flushed_at) <= 300

    @rule(name=st.sampled_from(NAMES))
    def gate_closes(self, name: str) -> None:
        """A PreEnqueue plugin has a reason to hold a pod back from now on."""
        self.closed.add(name)

    @precondition(lambda self: self.calls)
    @rule(data=st.data(), answer=st.sampled_from(["yes", "no", "failed"]), twice=st.booleans())
    def answer(self, data: st.DataObject, answer: str, twice: bool) -> None:
        """A remote plugin answers, in any order, perhaps twice."""
        call = data.draw(st.sampled_from(self.calls))
        self.calls.remove(call)
        for _ in range(1 + twice):
            if isinstance(call, CallPreEnqueue):
                gated_by = "" if answer == "yes" else "FarGate"
                self._open_calls(self.queue.pre_enqueue_answered(call.call_id, gated_by, self.now))
            else:
                hint = HintAnswer.QUEUE if answer == "yes" else HintAnswer.SKIP
                hints = None if answer == "failed" else [hint] * len(call.pods)
                self._open_calls(self.queue.hint_answered(call.call_id, hints, self.now))

    # --- the model ---

    def _attempt_of(self, pod: QueuedPodInfo) -> Attempt | None:
        return self.flights.get(pod.uid) or self.done_pods.get(pod.uid)

    def _open_calls(self, instructions: Any) -> None:
        self.calls += instructions

    def _naive(
        self,
        pod: QueuedPodInfo,
        class_id: int,
        event: ClusterEvent,
        number: int,
        rejectors: frozenset[str] | None = None,
    ) -> Decision:
        """What an event means for one pod, by its local hints."""
        helpful = {
            plugin
            for (plugin, registered), helps in LOCAL.items()
            if registered == event
            and plugin in (pod.rejectors if rejectors is None else rejectors)
            and helps(class_id, number)
        }
        if helpful & pod.pending_plugins:
            return Decision.IMMEDIATELY
        return Decision.AFTER_BACKOFF if helpful else Decision.SKIP

    def _expect_entry(self, pod: QueuedPodInfo, decision: Decision, *, gate: bool = True) -> None:
        """The pod is where the decision sends it, unless a gate holds it."""
        verdict = self._pre_enqueue(pod) if gate else PreEnqueueResult.ALLOWED
        if verdict == "Gates":
            expected: type[QueueState] = Gated
        elif verdict is PreEnqueueResult.CALL_REMOTE:
            expected = PreEnqueuePending
        elif decision is Decision.SKIP:
            expected = Unschedulable
        elif decision is Decision.AFTER_BACKOFF and self._backs_off(pod):
            expected = BackOff
        else:
            expected = Active
        assert type(pod.state) is expected, self.queue.contents.transitions_of(pod.key)

    def _backs_off(self, pod: QueuedPodInfo) -> bool:
        failures = pod.consecutive_errors or pod.unschedulable_count
        expiry = math.floor(pod.timestamp + min(10, 2 ** (failures - 1))) if failures else 0
        return expiry >= math.floor(self.now)

    # --- what must hold after every step ---

    @invariant()
    def every_pod_is_in_exactly_one_place(self) -> None:
        """The structures hold each pod once, where its `place` says, and no pod that is gone."""
        transitions = self.queue._transitions
        found = (
            [(pod, Active) for pod in self.queue._active]
            + [(pod, BackOff) for pod in self.queue._backoff]
            + [(pod, Gated if pod.gated_by else Unschedulable) for pod in self.queue._unschedulable]
            + [(pod, PreEnqueuePending) for pod in self.queue._calls._pre_enqueue.values()]
            + [(pod, InFlight) for pod in transitions.in_flight.values()]
            + [(pod, Done) for pod in transitions.done.values()]
        )
        assert all(type(pod.state) is place for pod, place in found)
        assert sorted(pod.uid for pod, _ in found) == sorted([*self.waiting.values(), *self.flights, *self.done_pods])
        assert {key: pod.uid for key, pod in transitions.queued.items()} == {
            f"ns/{name}": uid for name, uid in self.waiting.items()
        }
        self._check_statistics(found)

    def _check_statistics(self, found: list[tuple[QueuedPodInfo, type[QueueState]]]) -> None:
        statistics = self.queue.statistics()
        count = Counter(place for _, place in found)
        assert statistics.active == count[Active]
        assert statistics.backoff + statistics.error_backoff == count[BackOff]
        assert (statistics.unschedulable, statistics.gated) == (count[Unschedulable], count[Gated])
        assert statistics.pre_enqueue_pending == count[PreEnqueuePending]
        assert statistics.in_flight == count[InFlight]
        assert statistics.done == count[Done]
        refused = Counter(
            (pod.record.profile, plugin)
            for pod, place in found
            if place not in (InFlight, Done)
            for plugin in pod.rejectors
        )
        assert statistics.refused_by == refused
        if not count[InFlight] + count[PreEnqueuePending]:
            assert not statistics.in_flight_events

    @invariant()
    def transitions_are_those_of_the_machine(self) -> None:
        """What is drawn in the documents is what pods do."""
        histories: dict[str, list[type[QueueState]]] = {}
        for name in NAMES:
            for each in self.queue.contents.transitions_of(f"ns/{name}"):
                histories.setdefault(each.uid, []).append(each.to)
        for history in histories.values():
            assert not state_machine.impossible_transitions(history, state_machine.PODS)

    @invariant()
    def backoff_and_gates_hold(self) -> None:
        """Nobody backs off past its time, the active have passed their gates, and errors are apart from refusals."""
        for pod in self.queue._backoff:
            assert self._backs_off(pod)
        for pod in [*self.queue._active, *self.queue._backoff]:
            assert not pod.gated_by
        for pod in self.queue._active:
            assert pod.initial_attempt_timestamp
        for window in self.queue._backoff._windows.values():
            assert all(pod.rejectors for pod in window)
        for pod in self.queue._backoff._errors:
            assert not pod.rejectors

    def teardown(self) -> None:
        """When all gates are open and nothing is refused, everybody gets a turn."""
        self.closed.clear()
        self.far.clear()
        for uid in list(self.flights):
            self.queue.done(uid, self.now)
        for _ in range(3):
            for call in self.calls:
                if isinstance(call, CallPreEnqueue):
                    self.queue.pre_enqueue_answered(call.call_id, "", self.now)
            self.now += 301
            self.queue.flush_unschedulable(self.now)
            self.queue.flush_backoff(self.now)
            while (batch := self.queue.pop(self.now, 2)) is not None:
                for pod in batch.pods:
                    self.queue.done(pod.uid, self.now)
        assert self.queue.contents.waiting_pods() == []
        assert not self.queue.statistics().in_flight_events


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.pytestmark = [pytest.mark.timeout(600)]
TestQueueMachine.settings = settings(
    # Ten mutants of its code are found in ten of ten runs by 692 (`tools.mutation.machine_examples`);
    # `TRIREME_EXAMPLES=10000` looks for what is rarer.
    max_examples=int(os.environ.get("TRIREME_EXAMPLES", "1000")),
    stateful_step_count=50,
    suppress_health_check=[HealthCheck.too_slow],
)
