"""SchedulingQueue: what it counts is what waits, and the status of a pod says what it waits for."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pytest

from tests.helpers.queue_builders import (
    NODE_ADD,
    OWN_LABEL,
    REGISTRATIONS,
    T0,
    fail,
    gate_of,
    place,
    pod,
    pop_names,
    popped,
    queue,
    record,
)
from trireme.framework.cluster_event import ActionType, ClusterEvent, Resource
from trireme.queueing.assembly import build_queue
from trireme.queueing.hints.hint_evaluation import HintEvaluator
from trireme.queueing.hints.queueing_hint_map import EventRegistration, HintAnswer, QueueingHintMap
from trireme.queueing.pre_enqueue import PreEnqueueResult
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.queueing.scheduling_queue import SchedulingQueue
from trireme.queueing.states import Active, BackOff, Done, Gated, InFlight, PreEnqueuePending, QueueState, Unschedulable


def test_metrics_and_status_equal_the_queue() -> None:
    q = queue(pre_enqueue=gate_of({"gated": "Gates"}))
    for name, class_id in (("refused", 1), ("error", 2), ("gated", 3), ("active", 4)):
        q.add(record(name, class_id), T0)
    fail(q, T0, "Fit", "Taint")
    fail(q, T0)
    statistics = q.statistics()
    assert statistics.pending == {"active": 1, "backoff": 1, "unschedulable": 1, "gated": 1}
    assert statistics.incoming == {
        ("active", "UnscheduledPodAdd"): 3,
        ("unschedulable", "UnscheduledPodAdd"): 1,
        ("unschedulable", "ScheduleAttemptFailure"): 1,
        ("backoff", "ScheduleAttemptFailure"): 1,
    }
    profile = "default-scheduler"
    assert statistics.refused_by == {(profile, "Fit"): 1, (profile, "Taint"): 1, (profile, "Gates"): 1}
    assert (statistics.scheduling_cycle, statistics.batches, statistics.in_flight) == (2, 2, 0)
    pop_names(q, T0)
    found = {name: q.contents.status_of(pod(q, name)) for name in ("refused", "error", "gated", "active")}
    assert {name: type(where.state) for name, where in found.items()} == {
        "refused": Unschedulable,
        "error": BackOff,
        "gated": Gated,
        "active": InFlight,
    }
    assert found["refused"].rejectors == ("Fit", "Taint")
    assert found["refused"].events == ("AssignedPodDelete", "NodeAdd", "NodeUpdateNodeTaint")
    assert (found["error"].state, found["gated"].state) == (BackOff(math.floor(T0 + 1)), Gated("Gates"))
    assert [move.cause for move in q.contents.transitions_of("ns/gated")] == ["UnscheduledPodAdd, gated by Gates"]


def test_pods_that_are_nominated_to_other_nodes_are_weighed_for_themselves() -> None:
    """A node that shrinks matters to the pods that wait for room on it, and to no others of their class."""

    def hint(event: ClusterEvent, old: Any, new: Any, pods: Sequence[QueuedPodInfo]) -> list[HintAnswer]:
        return [HintAnswer.QUEUE if each.record.nominated_node == new else HintAnswer.SKIP for each in pods]

    q = queue([EventRegistration("Fit", NODE_ADD, hint)])
    for name in ("p", "nominated", "elsewhere"):
        q.add(record(name), T0)
    fail(q, T0, "Fit", max_batch=3)
    for name, node in (("nominated", "n1"), ("elsewhere", "n2")):
        q.update(record(name, nominated_node=node, resource_version="2"), (), None, None, T0)
    q.on_event(NODE_ADD, None, "n1", T0 + 20)
    assert {name: place(q, name) for name in ("p", "nominated", "elsewhere")} == {
        "p": Unschedulable,
        "nominated": Active,
        "elsewhere": Unschedulable,
    }


def test_a_pod_of_an_unknown_profile_is_simply_tried_again() -> None:
    q = build_queue(HintEvaluator(QueueingHintMap({"another": REGISTRATIONS})), lambda pod: PreEnqueueResult.ALLOWED)
    q.add(record("p"), T0)
    fail(q, T0, "Fit")
    assert place(q, "p") is BackOff


def test_an_unregistered_event_is_not_recorded() -> None:
    q = queue()
    q.add(record("p"), T0)
    q.pop(T0, 1)
    q.on_event(ClusterEvent(Resource.NODE, ActionType.UPDATE_NODE_CONDITION), "old", "new", T0)
    assert q.statistics().in_flight_events == {}


Closed: TypeAlias = dict[str, str | PreEnqueueResult]


def _wait_gated(q: SchedulingQueue, closed: Closed) -> None:
    closed["p"] = "Gates"
    q.activate([("ns/p", "uid-p")], T0)


def _wait_for_an_answer(q: SchedulingQueue, closed: Closed) -> None:
    closed["p"] = closed["other"] = PreEnqueueResult.CALL_REMOTE
    q.activate([("ns/p", "uid-p")], T0)


WAYS_TO_WAIT: dict[type[QueueState], Callable[[SchedulingQueue, Closed], Any]] = {
    Unschedulable: lambda q, closed: None,
    Active: lambda q, closed: q.activate([("ns/p", "uid-p")], T0),
    BackOff: lambda q, closed: q.on_event(NODE_ADD, None, "node", T0),
    Gated: _wait_gated,
    PreEnqueuePending: _wait_for_an_answer,
}
WHAT_HAPPENS: dict[str, Callable[[SchedulingQueue], Any]] = {
    "reported-again": lambda q: q.add(record("p"), T0),
    "made-again": lambda q: q.add(record("p", uid="another"), T0),
    "changed": lambda q: q.update(record("p", priority=7), [], "old", "new", T0),
    "changed-with-its-class": lambda q: q.update(record("p", 5), [], "old", "new", T0),
    "changed-so-that-it-is-tried": lambda q: q.update(record("p", 5), [OWN_LABEL], "old", "new", T0),
    "reclassified": lambda q: q.reclassify("ns/p", "uid-p", 5),
    "nominated": lambda q: q.update(record("p", nominated_node="n"), [], "old", "new", T0),
    "deleted": lambda q: q.delete("ns/p", "uid-p", T0),
    "woken": lambda q: q.on_event(NODE_ADD, None, "node", T0),
    "activated": lambda q: q.activate([("ns/p", "uid-p")], T0),
    "flushed": lambda q: (q.flush_unschedulable(T0 + 400), q.flush_backoff(T0 + 400)),
    "answered": lambda q: q.pre_enqueue_answered(1, "", T0),
    "answered-with-a-refusal": lambda q: q.pre_enqueue_answered(1, "FarGate", T0),
    "tried-and-refused": lambda q: [q.requeue(each, T0, rejectors=frozenset({"Ports"})) for each in _next_pods(q)],
    "tried-and-failed": lambda q: [q.requeue(each, T0) for each in _next_pods(q)],
    "tried-and-bound": lambda q: [q.done(each.uid, T0) for each in _next_pods(q)],
}


def _next_pods(q: SchedulingQueue) -> list[QueuedPodInfo]:
    return popped(q, T0) if q.ready() else []


@pytest.mark.parametrize("first", WHAT_HAPPENS)
@pytest.mark.parametrize("state", WAYS_TO_WAIT, ids=lambda each: each.__name__)
def test_what_is_counted_is_what_waits_whatever_happens(state: type[QueueState], first: str) -> None:
    """A count that is not taken back is a pod that waits forever, to everybody who reads the metrics."""
    for then in WHAT_HAPPENS:
        closed: Closed = {}
        q = queue(pre_enqueue=gate_of(closed))
        for name in ("p", "other"):
            q.add(record(name), T0)
        fail(q, T0, "Fit", "Label", max_batch=2)
        WAYS_TO_WAIT[state](q, closed)
        assert place(q, "p") is state
        for happen in (first, then):
            WHAT_HAPPENS[happen](q)
            _check_counts(q)


def _check_counts(q: SchedulingQueue) -> None:
    waiting, found = q.contents.waiting_pods(), q.statistics()
    states = Counter(type(each.state) for each in q.contents.pods())
    assert found.refused_by == Counter((each.record.profile, name) for each in waiting for name in each.rejectors)
    assert found.active == states[Active]
    assert found.backoff + found.error_backoff == states[BackOff]
    assert (found.unschedulable, found.gated) == (states[Unschedulable], states[Gated])
    assert found.pre_enqueue_pending == states[PreEnqueuePending]
    assert (found.in_flight, found.done) == (0, states[Done])
    refused = [each for each in waiting if type(each.state) in (Gated, Unschedulable)]
    assert found.refusal_groups == len({id(each.container) for each in refused})
