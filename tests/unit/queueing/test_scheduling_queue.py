"""SchedulingQueue: refusals, errors, back-off, events, batches, and its statistics."""

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.helpers.queue_builders import (
    NODE_ADD,
    NODE_TAINT,
    OWN_LABEL,
    POD_DELETE,
    REGISTRATIONS,
    T0,
    exact,
    fail,
    gate_of,
    helps,
    keys,
    parked,
    place,
    pod,
    pop_names,
    popped,
    queue,
    record,
)
from trireme.framework.cluster_event import ActionType, ClusterEvent, Resource
from trireme.framework.sort_key import SortKey
from trireme.queueing.assembly import build_queue
from trireme.queueing.event_audience import EventAudience
from trireme.queueing.hints.hint_evaluation import HintEvaluator
from trireme.queueing.hints.queueing_hint_map import EventRegistration, HintAnswer, QueueingHintMap
from trireme.queueing.pending_pod import GivenSortKey
from trireme.queueing.pod_info import PodInfo
from trireme.queueing.pre_enqueue import PreEnqueueResult
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.queueing.scheduling_queue import SchedulingQueue
from trireme.queueing.states import Active, BackOff, Done, Gated, InFlight, PreEnqueuePending, QueueState, Unschedulable
from trireme.queueing.transition_log import ImpossibleTransition

# --- failing, back-off, waking ---------------------------------------------------------------------------------------


def test_a_refused_pod_waits_for_an_event_and_for_its_backoff() -> None:
    q = parked()
    assert place(q, "p") is Unschedulable
    assert not q.ready()
    q.on_event(NODE_ADD, None, "node", T0 + 0.5)
    assert place(q, "p") is BackOff
    assert q.next_backoff() == T0 + 2
    q.flush_backoff(T0 + 1.9)
    assert place(q, "p") is BackOff
    q.flush_backoff(T0 + 2)
    assert place(q, "p") is Active
    assert pop_names(q, T0 + 2) == ["p"]
    assert pod(q, "p").attempts == 2


def test_once_its_backoff_is_over_an_event_makes_it_active_at_once() -> None:
    q = parked()
    q.on_event(NODE_ADD, None, "node", T0 + 2)
    assert place(q, "p") is Active


def test_only_the_event_that_can_help_wakes_a_pod() -> None:
    q = parked("p", "Taint")
    for event in (NODE_ADD, NODE_TAINT, POD_DELETE):
        q.on_event(event, None, "object", T0 + 5)
    assert place(q, "p") is Unschedulable


def test_a_pending_plugin_wakes_it_without_backoff() -> None:
    q = queue()
    q.add(record("p"), T0)
    fail(q, T0, pending_plugins=frozenset({"Fit"}))
    q.on_event(NODE_ADD, None, "node", T0)
    assert place(q, "p") is Active


def test_an_error_is_retried_after_its_backoff_and_not_before() -> None:
    q = queue()
    q.add(record("p"), T0)
    fail(q, T0)
    assert (place(q, "p"), q.ready(), pop_names(q, T0)) == (BackOff, False, [])
    q.flush_backoff(T0 + 2)
    fail(q, T0 + 2)
    assert pod(q, "p").consecutive_errors == 2
    assert pod(q, "p").backoff_expiration == T0 + 4
    q.flush_backoff(T0 + 5)
    fail(q, T0 + 5, "Fit")
    assert (pod(q, "p").consecutive_errors, pod(q, "p").unschedulable_count) == (0, 1)


def test_a_nomination_stays_through_attempts_that_say_nothing_of_it() -> None:
    """Its object may not show it yet; the room that was made for the pod would go to another one."""
    q = queue()
    q.add(record("p"), T0)
    fail(q, T0, nominated_node="n1")
    assert q.nominator.node_of("uid-p") == "n1"
    q.flush_backoff(T0 + 2)
    fail(q, T0 + 2)
    assert q.nominator.node_of("uid-p") == "n1"
    q.flush_backoff(T0 + 10)
    fail(q, T0 + 10, nominated_node="")
    assert q.nominator.node_of("uid-p") == ""


@pytest.mark.parametrize("earlier", ["", "n1"])
def test_a_nomination_that_the_object_was_given_during_the_attempt_counts(earlier: str) -> None:
    """It is later than that of an earlier attempt, which is known here alone."""
    q = queue()
    q.add(record("p"), T0)
    fail(q, T0, "Fit", nominated_node=earlier)
    q.on_event(NODE_ADD, None, "node", T0 + 9)
    (pod_in_attempt,) = popped(q, T0 + 10)
    latest = record("p", nominated_node="n2", resource_version="2")
    q.requeue(pod_in_attempt, T0 + 11, rejectors=frozenset({"Fit"}), record=latest)
    assert q.nominator.node_of("uid-p") == "n2"


def test_a_pod_that_changes_while_it_waits_is_taken_by_its_new_record() -> None:
    """A pod whose class changed would be evaluated as what it was."""
    q = queue()
    q.add(record("first"), T0)
    q.add(record("p"), T0 + 1)
    q.update(record("p", class_id=7, priority=9), (), None, None, T0 + 2)
    taken = popped(q, T0 + 3)
    assert [(each.key, each.record.class_id, each.record.priority) for each in taken] == [("ns/p", 7, 9)]


def test_a_refused_pod_that_backs_off_is_taken_early_when_nothing_is_active() -> None:
    q = parked()
    q.on_event(NODE_ADD, None, "node", T0)
    q.add(record("other"), T0)
    assert pop_names(q, T0) == ["other"]
    assert q.ready()
    assert [ahead.head.key for ahead in q.peek_next_classes(3)] == ["ns/p"]
    assert pop_names(q, T0) == ["p"]
    assert q.statistics().incoming["active", "PopFromBackoffQ"] == 1


def test_upcoming_classes_continue_with_those_in_backoff() -> None:
    q = queue()
    for name, class_id in (("a", 1), ("b", 2), ("c", 3)):
        q.add(record(name, class_id), T0)
    while q.ready():
        fail(q, T0, "Fit")
    q.on_event(NODE_ADD, None, "node", T0)
    for name in ("d", "e"):
        q.add(record(name, 2), T0)
    assert [ahead.key for ahead in q.peek_next_classes(9)] == [2, 1, 3]
    assert [ahead.key for ahead in q.peek_next_classes(2)] == [2, 1]
    assert q.peek_next_classes(1)[0].waiting == 2
    popped(q, T0)
    q.add(record("f", 9), T0)
    assert [ahead.key for ahead in q.peek_next_classes(2)] == [9, 1]


def test_pods_that_failed_together_come_back_in_their_order() -> None:
    q = queue()
    names = [f"p{index}" for index in range(40)]
    for name in names:
        q.add(record(name), T0)
    fail(q, T0, "Fit", max_batch=40)
    q.on_event(NODE_ADD, None, "node", T0)
    for name in names[::3]:
        q.delete(f"ns/{name}", f"uid-{name}", T0)
    q.flush_backoff(T0 + 2)
    assert pop_names(q, T0 + 2, 40) == [name for name in names if name not in names[::3]]


def test_without_early_pops_pre_enqueue_runs_after_backoff() -> None:
    closed: dict[str, str] = {}
    q = queue(pre_enqueue=gate_of(closed), policy=exact())
    q.add(record("p"), T0 + 0.5)
    (tried,) = popped(q, T0 + 0.5)
    closed["p"] = "Gates"
    q.requeue(tried, T0 + 0.5)
    assert (place(q, "p"), q.next_backoff()) == (BackOff, T0 + 1.5)
    q.flush_backoff(T0 + 1.6)
    assert (place(q, "p"), pod(q, "p").gated_by) == (Gated, "Gates")


def test_five_minutes_without_an_event_and_it_is_tried_again() -> None:
    q = parked()
    q.flush_unschedulable(T0 + 300)
    assert place(q, "p") is Unschedulable
    q.flush_unschedulable(T0 + 300.1)
    assert place(q, "p") is Active
    assert pod(q, "p").flushed
    fail(q, T0 + 400, "Fit")
    assert not pod(q, "p").flushed
    q.flush_unschedulable(T0 + 699)
    assert place(q, "p") is Unschedulable


def test_the_flush_checks_only_the_oldest_until_others_are_due() -> None:
    q = queue(REGISTRATIONS, gate_of({"old": "Gates", "young": "Gates"}))
    q.add(record("old"), T0)
    q.add(record("young"), T0 + 200)
    q.flush_unschedulable(T0 + 301)
    assert (pod(q, "old").flushed_at, pod(q, "young").flushed_at) == (T0 + 301, 0)
    assert pod(q, "old").container is pod(q, "young").container
    assert getattr(pod(q, "old").container, "not_before", None) == T0 + 200


def test_activated_pods_do_not_wait() -> None:
    q = parked()
    q.add(record("error"), T0)
    fail(q, T0)
    q.activate([("ns/p", "uid-p"), ("ns/error", "uid-error"), ("ns/unknown", "x"), ("ns/p", "another-uid")], T0)
    assert (place(q, "p"), place(q, "error")) == (Active, Active)
    assert q.statistics().incoming["active", "ForceActivate"] == 2


def test_a_pod_activated_in_flight_is_tried_again() -> None:
    q = queue()
    q.add(record("p"), T0)
    pods = popped(q, T0, 1)
    q.activate([("ns/p", "uid-p")], T0)
    q.requeue(pods[0], T0, rejectors=frozenset({"Taint"}))
    assert place(q, "p") is BackOff


def test_a_pod_that_is_tried_while_plugins_change_is_tried_again() -> None:
    q = queue()
    for name in ("refused", "a", "b"):
        q.add(record(name), T0)
        if name == "refused":
            fail(q, T0, "Taint")
    pods = popped(q, T0)
    q.retry_all(NODE_ADD, T0)
    for each in pods:
        q.requeue(each, T0, rejectors=frozenset({"Taint"}))
    assert [place(q, name) for name in ("refused", "a", "b")] == [BackOff] * 3


def test_the_pods_that_are_tried_are_listed() -> None:
    q = queue()
    for name in ("a", "b", "c"):
        q.add(record(name), T0)
    tried = popped(q, T0, 2)
    assert keys(q.contents.in_flight_pods()) == keys(tried) == ["a", "b"]
    assert keys(q.contents.waiting_pods()) == ["c"]


def test_the_last_transitions_of_each_pod_are_found_oldest_first() -> None:
    q = queue()
    for name in ("a", "b", "c"):
        q.add(record(name, class_id=ord(name)), T0)
    for number in range(3):
        fail(q, T0 + 100 * number, "Fit")
    q.on_event(NODE_ADD, None, "node", T0 + 400)
    found = q.contents.last_transitions({"uid-a", "uid-b", "uid-x"}, 2)
    assert {uid: [(each.to, each.cause) for each in of_pod] for uid, of_pod in found.items()} == {
        uid: [(Unschedulable, "ScheduleAttemptFailure"), (Active, "NodeAdd")] for uid in ("uid-a", "uid-b")
    }


def test_events_may_help_only_pods_of_low_priority_or_all_but_one() -> None:
    q = queue()
    for name, priority in (("low", 0), ("high", 9), ("self", 0), ("alone", 0)):
        q.add(record(name, class_id=priority if name != "alone" else 77, priority=priority), T0)
    while q.ready():
        fail(q, T0, "Fit")
    q.on_event(POD_DELETE, "pod", None, T0 + 5, EventAudience(0, "uid-self"))
    assert [place(q, name) for name in ("low", "high", "self")] == [
        Active,
        Unschedulable,
        Unschedulable,
    ]
    fail(q, T0 + 5, "Fit")
    q.on_event(POD_DELETE, "pod", None, T0 + 9, EventAudience(exclude_uid="uid-alone"))
    assert place(q, "high") is Active


@pytest.mark.parametrize("in_flight", [False, True])
def test_room_that_a_permit_refusal_leaves_wakes_only_those_without_a_node(in_flight: bool) -> None:
    """If this fails, two pods that Permit refuses wake each other without end."""
    q = queue()
    for name, class_id in (("roomless", 1), ("refused", 2)):
        q.add(record(name, class_id=class_id), T0)
    pods = {name: q.pop(T0, 1).pods[0] for name in ("roomless", "refused")}  # type: ignore[union-attr]

    def requeue() -> None:
        for name, had_node in (("roomless", False), ("refused", True)):
            q.requeue(pods[name], T0, rejectors=frozenset({"Fit"}), had_node=had_node)

    if not in_flight:
        requeue()
    q.on_event(POD_DELETE, "pod", None, T0 + 5, EventAudience(lacking_room=True))
    if in_flight:
        requeue()
    assert place(q, "roomless") is not Unschedulable
    assert place(q, "refused") is Unschedulable
    q.on_event(POD_DELETE, "pod", None, T0 + 5)
    assert place(q, "refused") is not Unschedulable


# --- in flight -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "during", "expected"),
    [
        pytest.param([], [], Unschedulable, id="nothing"),
        pytest.param([], [NODE_ADD], BackOff, id="helps"),
        pytest.param([NODE_ADD], [], Unschedulable, id="before-its-pop"),
        pytest.param([], [NODE_TAINT], Unschedulable, id="another-event"),
        pytest.param([], [NODE_TAINT, NODE_ADD, NODE_TAINT], BackOff, id="among-others"),
    ],
)
def test_events_during_the_attempt_count(
    before: list[ClusterEvent], during: list[ClusterEvent], expected: type[QueueState]
) -> None:
    q = queue()
    q.add(record("older", class_id=9), T0 - 1)
    q.pop(T0, 1)
    q.add(record("p"), T0)
    for event in before:
        q.on_event(event, None, "object", T0)
    pods = popped(q, T0, 1)
    for event in during:
        q.on_event(event, None, "object", T0)
    q.requeue(pods[0], T0, rejectors=frozenset({"Fit"}))
    assert place(q, "p") is expected


def test_a_batch_weighs_its_events_once_and_what_comes_between_too() -> None:
    evaluated: list[tuple[str, Any]] = []
    q = queue([EventRegistration("Fit", NODE_ADD, helps(False, evaluated)), EventRegistration("Fit", POD_DELETE)])
    for name in ("a", "b", "c"):
        q.add(record(name), T0)
    pods = popped(q, T0, 8)
    q.on_event(NODE_ADD, None, "n1", T0)
    q.on_event(NODE_ADD, None, "n2", T0)
    for number, each in enumerate(pods):
        q.requeue(each, T0, rejectors=frozenset({"Fit"}))
        if number == 1:
            assert len(evaluated) == 2
            q.on_event(POD_DELETE, "pod", None, T0)
    assert [place(q, name) for name in ("a", "b", "c")] == [BackOff] * 3


@pytest.mark.parametrize(
    ("plugins", "event", "expected"),
    [
        pytest.param(("Label",), OWN_LABEL, BackOff, id="own-update-helps"),
        pytest.param(("Fit",), OWN_LABEL, Unschedulable, id="own-update-of-another-kind"),
    ],
)
def test_its_own_update_in_flight_is_weighed_when_it_comes_back(
    plugins: tuple[str, ...], event: ClusterEvent, expected: type[QueueState]
) -> None:
    q = queue()
    q.add(record("p"), T0)
    q.add(record("other"), T0)
    pods = popped(q, T0, 2)
    q.update(record("p", class_id=5), [event], "old", "new", T0)
    for each in pods:
        q.requeue(each, T0, rejectors=frozenset(plugins))
    assert place(q, "p") is expected
    assert place(q, "other") is Unschedulable
    assert pod(q, "p").record.class_id == 5


def test_in_flight_updates_of_one_pod_are_bounded() -> None:
    """Dropped updates do not let the pod sleep."""
    q = queue()
    q.add(record("p"), T0)
    pods = popped(q, T0, 1)
    for _ in range(200):
        q.update(record("p"), [OWN_LABEL], "old", "new", T0)
    state = pods[0].state
    assert isinstance(state, InFlight)
    assert len(state.own_events) <= 64
    q.requeue(pods[0], T0, rejectors=frozenset({"Fit"}))
    assert place(q, "p") is BackOff


def test_done_pods_need_no_events_and_come_back_if_binding_fails() -> None:
    q = queue()
    q.add(record("p"), T0)
    pods = popped(q, T0, 1)
    q.on_event(NODE_ADD, None, "node", T0)
    assert q.statistics().in_flight_events == {"NodeAdd": 1}
    q.done("uid-p", T0)
    q.done("uid-p", T0)
    assert (q.statistics().in_flight_events, place(q, "p")) == ({}, Done)
    q.update(record("p", class_id=8), [OWN_LABEL], "old", "new", T0)
    assert q.contents.waiting_pods() == []
    q.requeue(pods[0], T0, rejectors=frozenset({"Taint"}))
    assert (place(q, "p"), pod(q, "p").record.class_id) == (BackOff, 8)


@pytest.mark.parametrize("done_first", [False, True], ids=["in-flight", "done"])
def test_a_pod_is_requeued_under_its_new_class(done_first: bool) -> None:
    q = queue()
    q.add(record("p"), T0)
    pods = popped(q, T0)
    if done_first:
        q.done("uid-p", T0)
    q.reclassify("ns/p", "uid-p", 7)
    assert pods[0].record.class_id == 1
    q.requeue(pods[0], T0)
    assert pod(q, "p").record.class_id == 7


@pytest.mark.parametrize("done_first", [False, True], ids=["in-flight", "done"])
@pytest.mark.parametrize(
    "happen",
    [
        pytest.param(lambda q: q.delete("ns/p", "uid-p", T0), id="deleted"),
        pytest.param(lambda q: (q.delete("ns/p", "uid-p", T0), q.add(record("p", uid="new"), T0)), id="made-again"),
        pytest.param(lambda q: q.add(record("p", uid="new"), T0), id="made-again-deletion-missed"),
    ],
)
def test_a_pod_that_is_gone_does_not_come_back(happen: Callable[[SchedulingQueue], Any], done_first: bool) -> None:
    q = queue()
    q.add(record("p"), T0)
    pods = popped(q, T0, 1)
    if done_first:
        q.done("uid-p", T0)
    happen(q)
    waiting = [each.uid for each in q.contents.waiting_pods()]
    q.requeue(pods[0], T0, rejectors=frozenset({"Fit"}))
    assert [each.uid for each in q.contents.waiting_pods()] == waiting
    assert (q.contents.in_flight_pods(), q.statistics().done) == ([], 0)
    assert q.requeue(pods[0], T0) == ()
    q.delete("ns/p", "uid-p", T0)


def test_an_attempt_at_a_pod_that_was_made_again_is_void() -> None:
    q = queue()
    q.add(record("p"), T0)
    pods = popped(q, T0)
    assert q.requeue(pods[0], T0, rejectors=frozenset({"Fit"}), record=record("p", uid="new")) == ()
    assert (q.contents.waiting_pods(), q.contents.in_flight_pods()) == ([], [])


def test_the_newest_object_is_the_one_that_comes_back() -> None:
    """A class change does not bring back an old object."""
    q = queue()
    q.add(record("p", resource_version="1"), T0)
    pods = popped(q, T0)
    q.update(record("p", resource_version="2"), [], "old", "new", T0)
    q.reclassify("ns/p", "uid-p", 7)
    q.requeue(pods[0], T0)
    assert (pod(q, "p").record.resource_version, pod(q, "p").record.class_id) == ("2", 7)


def _with_key(record_of_pod: PodInfo, key: int) -> PodInfo:
    """The record, whose pod is given this key to be sorted by."""
    return record_of_pod._replace(
        pod=dataclasses.replace(record_of_pod.pod, given_sort_key=GivenSortKey(SortKey((key,)), 1, 1))
    )


@pytest.mark.parametrize("done", [False, True], ids=["in-flight", "done"])
def test_a_pod_is_tried_as_it_was_and_comes_back_as_it_is(done: bool) -> None:
    """An attempt that sees another pod in its middle decides by two of them."""
    q = queue()
    before = _with_key(record("p"), 5)
    q.add(before.sorted_anew(), T0)
    (tried,) = popped(q, T0)
    record_of_attempt = tried.record
    if done:
        q.done("uid-p", T0)
    q.update(_with_key(record("p", 3, resource_version="2"), 5).sorted_anew(), [], "old", "new", T0)
    q.reclassify("ns/p", "uid-p", 4)
    tried.latest.pod.given_sort_key = GivenSortKey(SortKey((9,)), 4, 1)
    q.sort_anew("ns/p", "another-uid")
    q.sort_anew("ns/p", "uid-p")
    assert tried.record is record_of_attempt
    q.requeue(tried, T0, rejectors=frozenset({"Fit"}))
    assert (tried.record.class_id, tried.record.resource_version, tried.record.level) == (4, "2", (9,))


@pytest.mark.parametrize("uid", ["uid-a", "another-uid"])
def test_a_waiting_pod_with_another_key_moves_if_it_is_the_one(uid: str) -> None:
    q = queue()
    for name, key in (("a", 5), ("b", 7)):
        q.add(_with_key(record(name, key), key).sorted_anew(), T0)
    pod(q, "a").record.pod.given_sort_key = GivenSortKey(SortKey((9,)), 1, 1)
    q.sort_anew("ns/a", uid)
    q.sort_anew("ns/unknown", uid)
    assert [pop_names(q, T0), pop_names(q, T0)] == ([["b"], ["a"]] if uid == "uid-a" else [["a"], ["b"]])


def test_a_pod_that_was_lost_sight_of_and_seen_again_in_flight_comes_back() -> None:
    q = queue()
    q.add(record("p"), T0)
    pods = popped(q, T0, 1)
    q.delete("ns/p", "uid-p", T0)
    q.add(record("p"), T0)
    q.requeue(pods[0], T0)
    assert place(q, "p") is BackOff


def test_requeueing_a_waiting_pod_is_refused_with_its_transitions() -> None:
    q = parked()
    with pytest.raises(ImpossibleTransition, match="is unschedulable, cannot be requeued") as caught:
        q.requeue(pod(q, "p"), T0)
    assert [move.to for move in caught.value.transitions] == [Active, InFlight, Unschedulable]
    assert "ScheduleAttemptFailure" in str(caught.value)


# --- batches ---------------------------------------------------------------------------------------------------------


def test_a_nominated_pod_is_not_batched_before_its_object_has_the_nomination() -> None:
    q = queue()
    for name in ("a", "b", "c"):
        q.add(record(name), T0)
    pods = popped(q, T0, 8)
    for each in pods:
        q.requeue(each, T0, rejectors=frozenset({"Fit"}), nominated_node="n1" if each.key == "ns/b" else None)
    assert q.nominator.node_of("uid-b") == "n1"
    q.on_event(NODE_ADD, None, "node", T0 + 9)
    assert [pop_names(q, T0 + 9, 8) for _ in range(3)] == [["a"], ["b"], ["c"]]


def test_all_of_one_class_leave_in_batches_and_each_pod_once() -> None:
    q = queue()
    for index in range(250):
        q.add(record(f"p{index}", class_id=index % 2), T0 + index)
    sizes, seen = [], []
    while q.ready():
        batch = q.pop(T0 + 300, 50)
        assert batch is not None
        assert {each.record.class_id for each in batch.pods} == {batch.class_id}
        sizes.append((batch.class_id, len(batch.pods)))
        seen += keys(batch.pods)
    assert sizes == [(0, 50), (1, 50), (0, 50), (1, 50), (0, 25), (1, 25)]
    assert sorted(seen) == sorted(f"p{index}" for index in range(250))


@pytest.mark.slow
def test_ten_thousand_refused_pods_of_a_class_are_weighed_as_one() -> None:
    """An event costs one hint for the class, not one for each pod."""
    evaluated: list[tuple[str, Any]] = []
    q = queue([EventRegistration("Fit", NODE_ADD, helps(False, evaluated))])
    for index in range(10_000):
        q.add(record(f"p{index}"), T0)
    while q.ready():
        fail(q, T0, "Fit", max_batch=500)
    for number in range(20):
        q.on_event(NODE_ADD, None, number, T0 + 5)
    assert len(evaluated) == 20
    assert (q.statistics().refusal_groups, q.statistics().unschedulable) == (1, 10_000)


# --- its statistics --------------------------------------------------------------------------------------------------


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


def _wait_active(q: SchedulingQueue) -> None:
    q.activate([("ns/p", "uid-p")], T0)


def _wait_in_backoff(q: SchedulingQueue) -> None:
    q.on_event(NODE_ADD, None, "node", T0)


def _wait_gated(q: SchedulingQueue) -> None:
    q._transitions._pre_enqueue = lambda pod: "Gates" if pod.key == "ns/p" else PreEnqueueResult.ALLOWED
    q.activate([("ns/p", "uid-p")], T0)


def _wait_for_an_answer(q: SchedulingQueue) -> None:
    q._transitions._pre_enqueue = lambda pod: PreEnqueueResult.CALL_REMOTE
    q.activate([("ns/p", "uid-p")], T0)


WAYS_TO_WAIT = {
    Unschedulable: lambda q: None,
    Active: _wait_active,
    BackOff: _wait_in_backoff,
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
        q = queue()
        for name in ("p", "other"):
            q.add(record(name), T0)
        fail(q, T0, "Fit", "Label", max_batch=2)
        WAYS_TO_WAIT[state](q)
        assert place(q, "p") is state
        for happen in (first, then):
            WHAT_HAPPENS[happen](q)
            _check_counts(q)


def _check_counts(q: SchedulingQueue) -> None:
    waiting, found = q.contents.waiting_pods(), q.statistics()
    states = Counter(type(each.state) for each in waiting)
    assert found.refused_by == Counter((each.record.profile, name) for each in waiting for name in each.rejectors)
    assert found.active == states[Active] == len(list(q._active))
    assert found.backoff + found.error_backoff == states[BackOff]
    assert (found.unschedulable, found.gated) == (states[Unschedulable], states[Gated])
    assert found.pre_enqueue_pending == states[PreEnqueuePending]
    assert (found.in_flight, found.done) == (0, len(q._transitions.done))
    refused = [each for each in waiting if type(each.state) in (Gated, Unschedulable)]
    assert found.refusal_groups == len({id(each.container) for each in refused})
    assert sorted(each.uid for each in q._unschedulable) == sorted(each.uid for each in refused)
