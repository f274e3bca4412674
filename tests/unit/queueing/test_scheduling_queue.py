"""SchedulingQueue: refusals, errors, back-off, events and batches."""

from typing import Any

import pytest

from tests.helpers.queue_builders import (
    NODE_ADD,
    NODE_TAINT,
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
from trireme.cache import pod_projection
from trireme.queueing.assembly import build_queue
from trireme.queueing.event_audience import EventAudience
from trireme.queueing.hints.hint_evaluation import HintEvaluator
from trireme.queueing.hints.queueing_hint_map import EventRegistration, QueueingHintMap
from trireme.queueing.pending_pod import PendingPod
from trireme.queueing.pre_enqueue import PreEnqueueResult
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.queueing.states import Active, BackOff, Gated, Unschedulable


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


# --- batches ----------------------------------------------------------------------------------------------------------


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


def test_a_pod_that_moves_to_another_class_comes_after_those_of_its_age() -> None:
    q = queue()
    q.add(record("moves", class_id=2), T0)
    q.add(record("stays", class_id=1), T0)
    q.update(record("moves", class_id=1), [], "old", "new", T0)
    assert pop_names(q, T0, 8) == ["stays", "moves"]


def test_a_refused_pod_keeps_its_place_unless_its_class_or_node_changes() -> None:
    q = queue()
    for name in ("a", "b"):
        q.add(record(name), T0)
    fail(q, T0, "Fit", max_batch=2)
    q.update(record("a", resource_version="2"), [], "old", "new", T0)
    q.on_event(NODE_ADD, None, "node", T0 + 9)
    assert pop_names(q, T0 + 9, 8) == ["a", "b"]


def test_all_that_are_due_are_flushed() -> None:
    q = queue()
    for name in ("a", "b", "c"):
        q.add(record(name), T0)
    fail(q, T0, "Fit", max_batch=3)
    q.flush_unschedulable(T0 + 301)
    assert [place(q, name) for name in ("a", "b", "c")] == [Active] * 3


def test_an_event_wakes_the_pods_of_all_profiles() -> None:
    profiles = ("one", "two")
    q = build_queue(
        HintEvaluator(QueueingHintMap(dict.fromkeys(profiles, REGISTRATIONS))), lambda pod: PreEnqueueResult.ALLOWED
    )
    for number, profile in enumerate(profiles):
        q.add(record(profile, class_id=number)._replace(profile=profile), T0)
        fail(q, T0, "Fit")
    q.on_event(NODE_ADD, None, "node", T0 + 9)
    assert [place(q, profile) for profile in profiles] == [Active, Active]


def test_pre_enqueue_is_not_called_again_after_a_back_off_that_it_allowed() -> None:
    closed: dict[str, str] = {}
    q = parked(pre_enqueue=gate_of(closed))
    q.on_event(NODE_ADD, None, "node", T0)
    closed["p"] = "Gates"
    q.flush_backoff(T0 + 2)
    assert place(q, "p") is Active


def test_hints_are_not_called_for_pods_that_the_event_cannot_help() -> None:
    evaluated: list[tuple[str, Any]] = []
    q = queue([EventRegistration("Fit", NODE_ADD, helps(True, evaluated))])
    for number, name in enumerate(("low", "high")):
        q.add(record(name, number, priority=number), T0)
    fail(q, T0, "Fit")
    fail(q, T0, "Fit")
    q.on_event(NODE_ADD, None, "node", T0, EventAudience(max_priority=0))
    assert evaluated == [("ns/low", "node")]


def test_a_held_preemptor_that_another_plugin_refused_is_woken() -> None:
    """Only the gate of preemption holds it."""
    q = parked()
    q.held_preemptors["ns/p"] = "uid-p"
    q.on_event(NODE_ADD, None, "node", T0 + 9)
    assert place(q, "p") is Active


@pytest.mark.parametrize(
    ("created", "resizes", "expected"),
    [(True, False, "creation"), (False, False, "queued"), (True, True, "queued"), (False, True, "queued")],
)
def test_a_pod_waits_since_its_creation_unless_it_runs(created: bool, resizes: bool, expected: str) -> None:
    parsed = pod_projection.parse({"metadata": {"namespace": "ns", "name": "p", "uid": "u"}})
    parsed = parsed._replace(created=1000 if created else 0, node_name="n" if resizes else "")
    waiting = QueuedPodInfo(record("p")._replace(pod=PendingPod(parsed, 1, 1)), T0)
    assert waiting.waiting_since(lambda moment: moment + 7) == {"creation": 1000, "queued": T0 + 7}[expected]


def test_without_early_pops_a_gate_is_checked_after_the_back_off_and_not_before() -> None:
    closed: dict[str, str] = {}
    q = parked(pre_enqueue=gate_of(closed), policy=exact())
    closed["p"] = "Gates"
    q.on_event(NODE_ADD, None, "node", T0 + 0.5)
    assert place(q, "p") is BackOff
    q.add(record("late", 2), T0)
    fail(q, T0, "Fit")
    closed["late"] = "Gates"
    q.on_event(NODE_ADD, None, "node", T0 + 9)
    assert place(q, "late") is Gated
