"""SchedulingQueue: what happens to pods and in the cluster while pods are tried, and what it means for them after."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers.queue_builders import (
    NODE_ADD,
    NODE_TAINT,
    OWN_LABEL,
    POD_DELETE,
    T0,
    helps,
    parked,
    place,
    pod,
    pop_names,
    popped,
    queue,
    record,
)
from trireme.framework.cluster_event import ClusterEvent
from trireme.framework.sort_key import SortKey
from trireme.queueing.event_audience import EventAudience
from trireme.queueing.hints.queueing_hint_map import EventRegistration
from trireme.queueing.in_flight_events import DEFAULT_LIMIT
from trireme.queueing.pending_pod import GivenSortKey
from trireme.queueing.pod_info import PodInfo
from trireme.queueing.scheduling_queue import SchedulingQueue
from trireme.queueing.states import Active, BackOff, Done, Gone, InFlight, QueueState, Unschedulable
from trireme.queueing.transition_log import ImpossibleTransition


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


def test_an_update_during_the_attempt_counts_if_binding_fails_later() -> None:
    q = queue()
    q.add(record("p"), T0)
    (tried,) = popped(q, T0)
    q.update(record("p", class_id=8), [], "old", "new", T0)
    q.done("uid-p", T0)
    q.requeue(tried, T0)
    assert pod(q, "p").record.class_id == 8


def test_nothing_is_kept_of_a_pod_that_was_deleted_before_its_attempt_ended() -> None:
    q = queue()
    q.add(record("p"), T0)
    (tried,) = popped(q, T0)
    q.delete("ns/p", "uid-p", T0)
    q.done("uid-p", T0)
    assert (type(tried.state), q.contents.pods(), q.statistics().done) == (Gone, [], 0)


def test_plugins_that_change_while_a_pod_is_bound_leave_it_alone() -> None:
    q = queue()
    for name in ("bound", "tried"):
        q.add(record(name), T0)
    popped(q, T0)
    q.done("uid-bound", T0)
    q.retry_all(NODE_ADD, T0)
    assert (place(q, "bound"), place(q, "tried")) == (Done, InFlight)


def test_all_that_is_activated_is_tried_whether_it_waits_or_is_being_tried() -> None:
    q = parked()
    q.add(record("tried"), T0)
    (tried,) = popped(q, T0)
    q.activate([("ns/tried", "uid-tried"), ("ns/unknown", "unknown"), ("ns/p", "uid-p")], T0)
    assert place(q, "p") is Active
    q.requeue(tried, T0, rejectors=frozenset({"Taint"}))
    assert place(q, "tried") is BackOff


def test_a_pod_that_is_being_bound_is_found_by_its_uid() -> None:
    q = queue()
    q.add(record("p"), T0)
    (tried,) = popped(q, T0)
    assert q.contents.with_uid("ns/p", "uid-p") is tried
    q.done("uid-p", T0)
    assert q.contents.with_uid("ns/p", "uid-p") is tried
    assert q.contents.with_uid("ns/p", "another-uid") is None


def test_a_pod_whose_events_were_dropped_is_tried_again_and_so_are_those_of_its_kind() -> None:
    q = queue()
    for name in ("a", "b"):
        q.add(record(name), T0)
    tried = popped(q, T0)
    for number in range(DEFAULT_LIMIT + 1):
        q.on_event(POD_DELETE, "pod", number, T0, EventAudience(max_priority=-1))
    for each in tried:
        q.requeue(each, T0, rejectors=frozenset({"Fit"}))
    assert (place(q, "a"), place(q, "b")) == (BackOff, BackOff)


def test_an_event_for_others_does_not_hide_the_next_one() -> None:
    q = queue()
    q.add(record("p"), T0)
    (tried,) = popped(q, T0)
    q.on_event(NODE_ADD, None, "node", T0, EventAudience(max_priority=-1))
    q.on_event(NODE_ADD, None, "node", T0)
    q.requeue(tried, T0, rejectors=frozenset({"Fit"}))
    assert place(q, "p") is BackOff
