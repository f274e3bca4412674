"""SchedulingQueue: gates and hints of plugins in other processes."""

import dataclasses
from typing import Any

import pytest

from tests.helpers.queue_builders import (
    NODE_ADD,
    OWN_LABEL,
    POD_DELETE,
    T0,
    fail,
    gate_of,
    helps,
    one_by_one,
    parked,
    place,
    pod,
    popped,
    queue,
    record,
)
from trireme.framework.cluster_event import ClusterEvent
from trireme.framework.sort_key import SortKey
from trireme.queueing.event_audience import EventAudience
from trireme.queueing.hints.queueing_hint_map import EventRegistration, HintAnswer
from trireme.queueing.in_flight_events import DEFAULT_LIMIT
from trireme.queueing.pending_pod import GivenSortKey
from trireme.queueing.pod_info import PodInfo
from trireme.queueing.pre_enqueue import PreEnqueueResult
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.queueing.remote_calls import MAX_OPEN, RenewSortKey
from trireme.queueing.scheduling_queue import SchedulingQueue
from trireme.queueing.states import Active, BackOff, Gated, PreEnqueuePending, QueueState, Unschedulable
from trireme.registry.in_tree import PREEMPTION_PLUGIN


def call_id(instructions: Any) -> int:
    """The id of the only instruction."""
    (instruction,) = instructions
    return int(instruction.call_id)


def test_a_pod_has_one_state_during_a_remote_pre_enqueue_call() -> None:
    q = queue(pre_enqueue=lambda pod: PreEnqueueResult.CALL_REMOTE)
    call = call_id(q.add(record("p"), T0))
    assert (place(q, "p"), q.statistics().pending["gated"]) == (PreEnqueuePending, 1)
    q.pre_enqueue_answered(call, "", T0)
    assert place(q, "p") is Active
    assert q.pre_enqueue_answered(call, "FarGate", T0) == ()
    assert place(q, "p") is Active


def test_a_remote_gate_that_refuses_parks_the_pod_until_its_event() -> None:
    q = queue([EventRegistration("FarGate", NODE_ADD)], lambda pod: PreEnqueueResult.CALL_REMOTE)
    q.pre_enqueue_answered(call_id(q.add(record("p"), T0)), "FarGate", T0)
    assert (place(q, "p"), pod(q, "p").gated_by) == (Gated, "FarGate")
    call = call_id(q.on_event(NODE_ADD, None, "node", T0))
    assert place(q, "p") is PreEnqueuePending
    q.pre_enqueue_answered(call, "", T0)
    assert place(q, "p") is Active


def test_an_event_during_the_call_repeats_it() -> None:
    q = queue([EventRegistration("FarGate", NODE_ADD)], lambda pod: PreEnqueueResult.CALL_REMOTE)
    call = call_id(q.add(record("p"), T0))
    q.on_event(NODE_ADD, None, "node", T0)
    again = call_id(q.pre_enqueue_answered(call, "FarGate", T0))
    assert place(q, "p") is PreEnqueuePending
    q.pre_enqueue_answered(again, "FarGate", T0)
    assert place(q, "p") is Gated
    assert q.statistics().in_flight_events == {}


@pytest.mark.parametrize(
    ("event", "max_priority"),
    [
        pytest.param(POD_DELETE, None, id="that-the-gate-did-not-register"),
        pytest.param(NODE_ADD, 3, id="that-helps-only-lower-priorities"),
    ],
)
def test_an_unregistered_event_during_the_call_does_not_repeat_it(
    event: ClusterEvent, max_priority: int | None
) -> None:
    q = queue(
        [EventRegistration("FarGate", NODE_ADD), EventRegistration("Fit", POD_DELETE)],
        lambda pod: PreEnqueueResult.CALL_REMOTE,
    )
    q.add(record("p", priority=5), T0)
    q.pre_enqueue_answered(1, "", T0)
    (call,) = fail_with_calls(q, "Fit")
    q.on_event(event, "object", "object", T0, EventAudience(max_priority))
    assert q.pre_enqueue_answered(call, "FarGate", T0) == ()
    assert place(q, "p") is Gated


def fail_with_calls(q: SchedulingQueue, *rejectors: str) -> list[int]:
    """Pops a pod and puts it back activated, so that plugins are called for it; the ids of the calls."""
    (popped_pod,) = popped(q, T0)
    q.activate([(popped_pod.key, popped_pod.uid)], T0)
    return [each.call_id for each in q.requeue(popped_pod, T0, rejectors=frozenset(rejectors))]


@pytest.mark.parametrize("returning", [False, True], ids=["parked", "returning"])
def test_a_pod_pending_on_a_remote_plugin_skips_backoff(returning: bool) -> None:
    q = queue()
    for name in ("a", "b"):
        q.add(record(name), T0)
    pods = popped(q, T0)
    if returning:
        q.on_event(NODE_ADD, None, "node", T0)
    calls = list(q.requeue(pods[0], T0, pending_plugins=frozenset({"Far"})))
    if not returning:
        calls += q.on_event(NODE_ADD, None, "node", T0)
    q.hint_answered(call_id(calls), [HintAnswer.QUEUE], T0)
    q.requeue(pods[1], T0, pending_plugins=frozenset({"Far"}))
    assert place(q, "a") is Active
    assert place(q, "b") is (Active if returning else Unschedulable)


def test_an_update_or_activation_during_the_call() -> None:
    q = parked()
    q._transitions._pre_enqueue = lambda pod: PreEnqueueResult.CALL_REMOTE
    first = call_id(q.on_event(NODE_ADD, None, "node", T0))
    second = call_id(q.update(record("p", class_id=4), [OWN_LABEL], "old", "new", T0))
    assert q.pre_enqueue_answered(first, "", T0) == ()
    assert place(q, "p") is PreEnqueuePending
    assert not q.contents.is_activated("ns/p", "uid-p")
    q.activate([("ns/p", "uid-p")], T0)
    assert q.contents.is_activated("ns/p", "uid-p")
    assert not q.contents.is_activated("ns/p", "another-uid")
    q.pre_enqueue_answered(second, "", T0)
    assert place(q, "p") is Active


def test_a_pod_is_activated_while_its_remote_pre_enqueue_is_called() -> None:
    q = parked()
    assert not q.contents.is_activated("ns/p", "uid-p")
    q._transitions._pre_enqueue = lambda pod: PreEnqueueResult.CALL_REMOTE
    call = call_id(q.activate([("ns/p", "uid-p")], T0))
    assert q.contents.is_activated("ns/p", "uid-p")
    q.pre_enqueue_answered(call, "FarGate", T0)
    assert not q.contents.is_activated("ns/p", "uid-p")


def test_a_pod_that_is_activated_in_flight_is_tried_again() -> None:
    q = queue()
    q.add(record("p"), T0)
    popped(q, T0)
    assert not q.contents.is_activated("ns/p", "uid-p")
    q.activate([("ns/p", "uid-p")], T0)
    assert q.contents.is_activated("ns/p", "uid-p")


def test_an_answer_that_takes_as_long_as_the_backoff_finds_it_over() -> None:
    q = parked()
    q._transitions._pre_enqueue = lambda pod: PreEnqueueResult.CALL_REMOTE
    call = call_id(q.on_event(NODE_ADD, None, "node", T0))
    q.pre_enqueue_answered(call, "", T0 + 60)
    assert place(q, "p") is Active


def test_an_old_answer_does_not_wake_a_pod_that_was_refused_again() -> None:
    q = parked("p", "Far")
    call = call_id(q.update(record("p"), [OWN_LABEL], "old", "new", T0))
    q.activate([("ns/p", "uid-p")], T0)
    fail(q, T0, "Far")
    q.hint_answered(call, [HintAnswer.QUEUE], T0)
    assert place(q, "p") is Unschedulable


def test_a_remote_hint_wakes_its_pods_if_they_still_wait() -> None:
    q = queue()
    for name, class_id in (("a", 1), ("b", 1), ("gone", 1), ("late", 1), ("c", 2)):
        q.add(record(name, class_id), T0)
    late: list[QueuedPodInfo] = []
    while batch := q.pop(T0, 8):
        for each in batch.pods:
            if each.key == "ns/late":
                late.append(each)
            else:
                q.requeue(each, T0, rejectors=frozenset({"Far"}))
    (instruction,) = q.on_event(NODE_ADD, None, "node", T0 + 5)
    assert [each.record.class_id for each in instruction.pods] == [1, 2]
    assert place(q, "a") is Unschedulable
    q.delete("ns/gone", "uid-gone", T0 + 5)
    (about_late,) = q.requeue(late[0], T0 + 5, rejectors=frozenset({"Far"}))
    q.hint_answered(instruction.call_id, [HintAnswer.QUEUE, HintAnswer.SKIP], T0 + 6)
    assert [place(q, name) for name in ("a", "b", "gone", "late", "c")] == [
        Active,
        Active,
        None,
        Unschedulable,
        Unschedulable,
    ]
    q.hint_answered(about_late.call_id, None, T0 + 7)
    assert place(q, "late") is Active
    q.hint_answered(about_late.call_id, None, T0 + 7)
    assert q.statistics().open_hint_calls == 0


def test_a_requeued_batch_calls_a_remote_plugin_once() -> None:
    q = queue()
    for name in ("a", "b", "c"):
        q.add(record(name), T0)
    pods = popped(q, T0, 8)
    q.on_event(NODE_ADD, None, "node", T0)
    instructions = [list(q.requeue(each, T0, rejectors=frozenset({"Far"}))) for each in pods[:2]]
    assert [len(each) for each in instructions] == [1, 0]
    assert instructions[0][0][1:] == ("default-scheduler", "Far", NODE_ADD, None, "node", (pods[0],))
    q.hint_answered(instructions[0][0].call_id, [HintAnswer.QUEUE], T0)
    assert q.requeue(pods[2], T0, rejectors=frozenset({"Far"})) == ()
    assert [place(q, name) for name in ("a", "b", "c")] == [BackOff] * 3


def test_an_update_of_a_pod_calls_the_remote_hint_for_that_pod_only() -> None:
    q = queue()
    for name in ("a", "b"):
        q.add(record(name), T0)
    fail(q, T0, "Far", max_batch=2)
    (asked,) = q.update(record("a"), [OWN_LABEL], "old", "new", T0 + 5)
    assert asked[1:] == ("default-scheduler", "Far", OWN_LABEL, "old", "new", (pod(q, "a"),))
    q.hint_answered(asked.call_id, None, T0 + 5)
    assert (place(q, "a"), place(q, "b")) == (Active, Unschedulable)
    fail(q, T0 + 5, "Far")
    call = call_id(q.update(record("a"), [OWN_LABEL], "old", "new", T0 + 5))
    q.update(record("a", class_id=3), [], "old", "new", T0 + 6)
    assert place(q, "a") is Unschedulable
    q.hint_answered(call, [HintAnswer.QUEUE], T0 + 9)
    assert place(q, "a") is Active


def test_an_answer_about_a_pod_that_is_gone_moves_nothing() -> None:
    q = queue()
    q.add(record("a"), T0)
    fail(q, T0, "Far")
    call = call_id(q.update(record("a"), [OWN_LABEL], "old", "new", T0 + 5))
    q.delete("ns/a", "uid-a", T0 + 6)
    assert q.hint_answered(call, [HintAnswer.QUEUE], T0 + 9) == ()
    assert place(q, "a") is None
    assert not q.ready()


def test_an_answer_does_not_follow_a_pod_that_came_after_the_call() -> None:
    q = queue()
    for name in ("a", "b"):
        q.add(record(name), T0)
    pods = popped(q, T0)
    q.requeue(pods[0], T0, rejectors=frozenset({"Far"}))
    call = call_id(q.update(record("a"), [OWN_LABEL], "old", "new", T0))
    event = call_id(q.on_event(NODE_ADD, None, "node", T0))
    q.done("uid-b", T0)
    q.activate([("ns/a", "uid-a")], T0)
    fail(q, T0, "Far")
    q.reclassify("ns/a", "uid-a", 7)
    q.hint_answered(call, [HintAnswer.QUEUE], T0)
    q.hint_answered(event, [HintAnswer.QUEUE], T0)
    assert place(q, "a") is Unschedulable


def test_an_answer_finds_a_pod_that_changed_its_class_meanwhile() -> None:
    q = queue()
    for name in ("a", "b", "c"):
        q.add(record(name), T0)
    fail(q, T0, "Far", max_batch=3)
    call = call_id(q.on_event(NODE_ADD, None, "node", T0 + 5))
    q.reclassify("ns/a", "uid-a", 7)
    q.reclassify("ns/a", "uid-a", 8)
    q.reclassify("ns/b", "another-uid", 9)
    q.delete("ns/c", "uid-c", T0 + 5)
    q.hint_answered(call, [HintAnswer.QUEUE], T0 + 5)
    assert [(place(q, name), pod(q, name).record.class_id) for name in ("a", "b")] == [
        (Active, 8),
        (Active, 1),
    ]


@pytest.mark.parametrize("answered", [1, 2], ids=["first-class", "second-class"])
def test_an_answer_about_several_classes_finds_the_pod_of_each_that_changed_its_class(answered: int) -> None:
    q = queue()
    for name, class_id in (("a", 1), ("b", 2)):
        q.add(record(name, class_id), T0)
        fail(q, T0, "Far")
    call = call_id(q.on_event(NODE_ADD, None, "node", T0 + 5))
    for name in "ab":
        q.reclassify(f"ns/{name}", f"uid-{name}", 7)
    hints = [HintAnswer.QUEUE if number == answered else HintAnswer.SKIP for number in (1, 2)]
    q.hint_answered(call, hints, T0 + 5)
    assert [place(q, name) for name in "ab"] == [Active if number == answered else Unschedulable for number in (1, 2)]


def test_a_remote_plugin_that_does_not_answer_is_not_waited_for_without_bound() -> None:
    q = parked("p", "Far")
    for _ in range(1000):
        q.on_event(NODE_ADD, None, "node", T0)
    assert (place(q, "p"), q.statistics().open_hint_calls) == (Unschedulable, 1000)
    assert q.on_event(NODE_ADD, None, "node", T0) == ()
    assert place(q, "p") is BackOff


@pytest.mark.parametrize(("excluded", "state"), [("uid-p", Gated), ("uid-other", PreEnqueuePending)])
def test_an_event_during_the_call_does_not_wake_the_pod_that_it_excludes(
    excluded: str, state: type[QueueState]
) -> None:
    q = queue([EventRegistration("FarGate", POD_DELETE)], lambda pod: PreEnqueueResult.CALL_REMOTE)
    call = call_id(q.add(record("p"), T0))
    q.on_event(POD_DELETE, "pod", None, T0, EventAudience(exclude_uid=excluded))
    q.pre_enqueue_answered(call, "FarGate", T0)
    assert place(q, "p") is state


@pytest.mark.parametrize("class_id", [1, 2], ids=["same-class", "reclassified"])
def test_a_remote_hint_does_not_wake_the_pod_that_the_event_excludes(class_id: int) -> None:
    q = queue([EventRegistration("Far", POD_DELETE, remote=True)])
    for name in ("self", "other"):
        q.add(record(name), T0)
    fail(q, T0, "Far", max_batch=2)
    call = call_id(q.on_event(POD_DELETE, "pod", None, T0 + 5, EventAudience(exclude_uid="uid-self")))
    for name in ("self", "other"):
        q.reclassify(f"ns/{name}", f"uid-{name}", class_id)
    q.hint_answered(call, [HintAnswer.QUEUE], T0 + 5)
    assert (place(q, "self"), place(q, "other")) == (Unschedulable, Active)


def test_a_remote_hint_does_not_move_pods_that_are_still_gated() -> None:
    gates: dict[str, str | PreEnqueueResult] = {}
    q = queue(
        [EventRegistration("Far", NODE_ADD, remote=True), EventRegistration("Gate", NODE_ADD, helps(False))],
        gate_of(gates),
    )
    names = ("gated", "open")
    for name in names:
        q.add(record(name), T0)
    fail(q, T0, "Far", max_batch=2)
    gates.update(dict.fromkeys(names, "Gate"))
    q.activate([(f"ns/{name}", f"uid-{name}") for name in names], T0)
    stamp = pod(q, "gated").stamp
    call = call_id(q.on_event(NODE_ADD, None, "node", T0 + 5))
    del gates["open"]
    q.hint_answered(call, [HintAnswer.QUEUE], T0 + 5)
    assert (place(q, "gated"), place(q, "open")) == (Gated, Active)
    assert pod(q, "gated").stamp == stamp


def test_a_remote_hint_does_not_evaluate_preemptors_that_are_held() -> None:
    """With many preemptors, an answer about one deleted victim does not evaluate all of them."""
    evaluated: list[str] = []

    def gate(pod: QueuedPodInfo) -> str | PreEnqueueResult:
        evaluated.append(pod.record.key)
        return PREEMPTION_PLUGIN

    q = queue(
        [
            EventRegistration("Far", POD_DELETE, remote=True),
            EventRegistration(PREEMPTION_PLUGIN, POD_DELETE, helps(False)),
        ]
    )
    q.add(record("p"), T0)
    (preemptor,) = popped(q, T0)
    q._transitions._pre_enqueue = gate
    q.held_preemptors["ns/p"] = "uid-p"
    q.activate([("ns/p", "uid-p")], T0)
    q.requeue(preemptor, T0, rejectors=frozenset({"Far"}))
    del evaluated[:]
    call = call_id(q.on_event(POD_DELETE, "pod", None, T0 + 5))
    q.hint_answered(call, [HintAnswer.QUEUE], T0 + 5)
    assert (place(q, "p"), evaluated) == (Gated, [])


def test_many_remote_events_during_one_attempt_simply_try_again() -> None:
    q = queue()
    q.add(record("p"), T0)
    pods = popped(q, T0, 1)
    for _ in range(17):
        q.on_event(NODE_ADD, None, "node", T0)
    assert q.requeue(pods[0], T0, rejectors=frozenset({"Far"})) == ()
    assert place(q, "p") is BackOff


def test_pods_that_wait_are_gated_again() -> None:
    gates = dict.fromkeys(("called", "backing", "parked"), PreEnqueueResult.CALL_REMOTE)
    q = queue(pre_enqueue=lambda pod: gates.get(pod.key.removeprefix("ns/"), PreEnqueueResult.ALLOWED))
    q.add(record("backing"), T0)
    q.pre_enqueue_answered(1, "", T0)
    popped_pod = popped(q, T0, 1)[0]
    q.pre_enqueue_answered(call_id(q.requeue(popped_pod, T0)), "", T0)
    call = call_id(q.add(record("called"), T0))
    q.add(record("active"), T0)
    q.add(record("other")._replace(profile="another"), T0)
    assert [place(q, name) for name in ("backing", "called", "active", "other")] == [
        BackOff,
        PreEnqueuePending,
        Active,
        Active,
    ]
    q._transitions._pre_enqueue = lambda pod: "Far"
    assert q.recheck_pre_enqueue(record("active").profile, NODE_ADD, T0) == ()
    assert [(place(q, name), pod(q, name).gated_by) for name in ("backing", "called", "active")] == [(Gated, "Far")] * 3
    assert place(q, "other") is Active
    assert not q.repeat_pre_enqueue(call)
    assert q.pre_enqueue_answered(call, "", T0) == ()
    assert place(q, "called") is Gated


@pytest.mark.parametrize("tried", [False, True], ids=["waiting", "being tried"])
@pytest.mark.parametrize("has_key", [False, True])
def test_a_pod_of_another_class_is_given_another_sort_key_if_it_has_one(has_key: bool, tried: bool) -> None:
    """It would stay where its old class belongs."""

    def with_class(class_id: int) -> PodInfo:
        out = record("p", class_id, resource_version=str(class_id))
        given = GivenSortKey(SortKey((1,)), 1, 1) if has_key else None
        return out._replace(pod=dataclasses.replace(out.pod, given_sort_key=given))

    q = queue()
    q.add(with_class(1), T0)
    pods = popped(q, T0) if tried else []
    instructions = list(q.update(with_class(2), (), None, None, T0))
    for each in pods:
        assert instructions == []
        instructions += q.requeue(each, T0, rejectors=frozenset({"Fit"}))
    assert instructions == ([RenewSortKey(pod(q, "p"))] if has_key else [])
    assert list(q.update(with_class(2)._replace(resource_version="3"), (), None, None, T0)) == []


def test_a_gated_pod_that_is_classified_again_keeps_the_reason_of_its_gate() -> None:
    q = queue([EventRegistration("FarGate", NODE_ADD)], lambda pod: PreEnqueueResult.CALL_REMOTE)
    q.pre_enqueue_answered(call_id(q.add(record("p"), T0)), "FarGate", T0, "no quota")
    assert (pod(q, "p").gated_by, pod(q, "p").gate_reason) == ("FarGate", "no quota")
    q.reclassify("ns/p", "uid-p", 7)
    assert (pod(q, "p").gated_by, pod(q, "p").gate_reason) == ("FarGate", "no quota")
    q.pre_enqueue_answered(call_id(q.on_event(NODE_ADD, None, "node", T0)), "", T0)
    assert (pod(q, "p").gated_by, pod(q, "p").gate_reason) == ("", "")


@pytest.mark.parametrize("hint", [HintAnswer.QUEUE, HintAnswer.SKIP])
def test_an_update_during_the_attempt_calls_the_remote_hint_when_the_pod_is_refused(hint: HintAnswer) -> None:
    q = queue()
    q.add(record("p"), T0)
    (tried,) = popped(q, T0)
    q.update(record("p"), [OWN_LABEL], "old", "new", T0)
    (call,) = q.requeue(tried, T0, rejectors=frozenset({"Far"}))
    assert call[1:] == ("default-scheduler", "Far", OWN_LABEL, "old", "new", (tried,))
    assert place(q, "p") is Unschedulable
    q.hint_answered(call.call_id, [hint], T0)
    assert place(q, "p") is (BackOff if hint is HintAnswer.QUEUE else Unschedulable)


@pytest.mark.parametrize("others", [[], [EventAudience(exclude_uid="uid-p")], [EventAudience(max_priority=-1)] * 2])
@pytest.mark.parametrize("helpful", [True, False])
def test_any_event_during_the_call_that_may_help_repeats_it(others: list[EventAudience], helpful: bool) -> None:
    q = queue([EventRegistration("FarGate", POD_DELETE)], lambda pod: PreEnqueueResult.CALL_REMOTE)
    call = call_id(q.add(record("p"), T0))
    for audience in (*others, *[EventAudience()] * helpful, *others):
        q.on_event(POD_DELETE, "pod", None, T0, audience)
    q.pre_enqueue_answered(call, "FarGate", T0)
    assert place(q, "p") is (PreEnqueuePending if helpful else Gated)


def test_no_event_is_kept_for_a_call_that_was_repeated_and_answered() -> None:
    """An answer to a call that is not open is void, and so is its repetition."""
    q = queue([EventRegistration("FarGate", NODE_ADD)], lambda pod: PreEnqueueResult.CALL_REMOTE)
    call = call_id(q.add(record("p"), T0))
    q.on_event(NODE_ADD, None, "before", T0)
    assert q.repeat_pre_enqueue(call)
    assert q.statistics().in_flight_events == {}
    q.on_event(NODE_ADD, None, "after", T0)
    assert q.statistics().in_flight_events == {"NodeAdd": 1}
    q.pre_enqueue_answered(call, "", T0)
    assert (place(q, "p"), q.statistics().in_flight_events) == (Active, {})
    assert not q.repeat_pre_enqueue(call)


def test_a_pod_whose_events_during_the_call_were_dropped_is_called_for_again() -> None:
    q = queue([EventRegistration("FarGate", NODE_ADD)], lambda pod: PreEnqueueResult.CALL_REMOTE)
    call = call_id(q.add(record("p"), T0))
    for number in range(DEFAULT_LIMIT + 1):
        q.on_event(NODE_ADD, None, number, T0, EventAudience(exclude_uid="uid-p"))
    q.pre_enqueue_answered(call, "FarGate", T0)
    assert place(q, "p") is PreEnqueuePending


def test_an_update_of_a_waiting_pod_is_not_waited_for_where_too_many_calls_are_open() -> None:
    closed: dict[str, str] = {}
    q = queue(pre_enqueue=gate_of(closed))
    names = ("p", "gated")
    for number, name in enumerate(names):
        q.add(record(name, number), T0)
        fail(q, T0, "Far")
    for number in range(MAX_OPEN):
        q.on_event(NODE_ADD, None, number, T0)
    closed["gated"] = "Gates"
    incoming = dict(q.statistics().incoming)
    for number, name in enumerate(names):
        assert q.update(record(name, number), [OWN_LABEL, OWN_LABEL], "old", "new", T0) == ()
    assert (place(q, "p"), place(q, "gated")) == (BackOff, Gated)
    assert q.statistics().incoming == incoming | {("backoff", OWN_LABEL.label): 1}


def test_an_own_update_during_the_attempt_is_not_waited_for_where_too_many_calls_are_open() -> None:
    q = queue()
    for number, name in enumerate(("other", "p")):
        q.add(record(name, number), T0)
    fail(q, T0, "Far")
    for number in range(MAX_OPEN):
        q.on_event(NODE_ADD, None, number, T0)
    (tried,) = popped(q, T0)
    q.update(record("p", 1), [OWN_LABEL], "old", "new", T0)
    assert q.requeue(tried, T0, rejectors=frozenset({"Far"})) == ()
    assert place(q, "p") is BackOff


def test_the_event_that_helps_is_found_among_those_during_the_call() -> None:
    def hint(pod: QueuedPodInfo, event: ClusterEvent, old: Any, new: Any) -> HintAnswer:
        return HintAnswer.QUEUE if new == "helps" else HintAnswer.SKIP

    q = queue([EventRegistration("FarGate", NODE_ADD, one_by_one(hint))], lambda pod: PreEnqueueResult.CALL_REMOTE)
    call = call_id(q.add(record("p"), T0))
    for node in ("no", "helps", "no"):
        q.on_event(NODE_ADD, None, node, T0)
    again = call_id(q.pre_enqueue_answered(call, "FarGate", T0))
    q.on_event(NODE_ADD, None, "no", T0)
    q.pre_enqueue_answered(again, "FarGate", T0)
    assert place(q, "p") is Gated


def test_an_answer_does_not_wake_a_pod_that_was_gated_again_since_the_call() -> None:
    """Its gate was checked later than the event."""
    closed: dict[str, str | PreEnqueueResult] = {}
    q = queue(
        [EventRegistration("Far", NODE_ADD, remote=True), EventRegistration("Gate", NODE_ADD, helps(False))],
        gate_of(closed),
    )
    for name in ("again", "other"):
        q.add(record(name), T0)
    fail(q, T0, "Far", max_batch=2)
    closed.update(again="Gate", other="Gate")
    q.activate([("ns/again", "uid-again"), ("ns/other", "uid-other")], T0)
    call = call_id(q.on_event(NODE_ADD, None, "node", T0 + 5))
    q.activate([("ns/again", "uid-again")], T0 + 5)
    closed.clear()
    q.hint_answered(call, [HintAnswer.QUEUE], T0 + 5)
    assert (place(q, "again"), place(q, "other")) == (Gated, Active)


@pytest.mark.parametrize("answered", [0, 1], ids=["first", "second"])
def test_any_of_the_calls_about_a_batch_may_help_the_next_pod_of_it(answered: int) -> None:
    q = queue()
    for name in ("a", "b"):
        q.add(record(name), T0)
    tried = popped(q, T0)
    for node in ("n1", "n2"):
        q.on_event(NODE_ADD, None, node, T0)
    calls: list[Any] = list(q.requeue(tried[0], T0, rejectors=frozenset({"Far"})))
    assert [call.new for call in calls] == ["n1", "n2"]
    q.hint_answered(calls[answered].call_id, [HintAnswer.QUEUE], T0)
    assert q.requeue(tried[1], T0, rejectors=frozenset({"Far"})) == ()
    assert (place(q, "a"), place(q, "b")) == (BackOff, BackOff)
