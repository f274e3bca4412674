"""What events during an attempt mean for pods of one batch: decided once for pods of a kind, and for no other."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.helpers.queue_builders import NODE_ADD, POD_DELETE, T0, one_by_one, place, queue, record
from trireme.framework.cluster_event import ClusterEvent
from trireme.queueing.event_audience import ALL_PODS, EventAudience
from trireme.queueing.hints.queueing_hint_map import EventRegistration, HintAnswer
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.queueing.scheduling_queue import SchedulingQueue
from trireme.queueing.states import Active, BackOff, QueueState, Unschedulable


def _helps_class_two(pod: QueuedPodInfo, *_: object) -> HintAnswer:
    return HintAnswer.QUEUE if pod.record.class_id == 2 else HintAnswer.SKIP


def _tried(
    *pods: tuple[str, int], registrations: Sequence[EventRegistration] = ()
) -> tuple[SchedulingQueue, list[Any]]:
    """Pods of these classes, popped before anything happens."""
    q = queue(registrations or (EventRegistration("Fit", NODE_ADD), EventRegistration("Wait", POD_DELETE)))
    for number, (name, class_id) in enumerate(pods):
        q.add(record(name, class_id), T0 + number)
    tried: list[Any] = []
    while (batch := q.pop(T0 + 10, 8)) is not None:
        tried += batch.pods  # type: ignore[union-attr]  # no groups are queued
    return q, sorted(tried, key=lambda pod: pod.key)


def _places(q: SchedulingQueue, *names: str) -> list[type[QueueState] | None]:
    return [place(q, name) for name in names]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_pods_of_two_classes_are_decided_about_apart(order: tuple[int, int]) -> None:
    """A pod would sleep through what helps it, because it does not help another."""
    q, tried = _tried(
        ("p1", 1), ("p2", 2), registrations=[EventRegistration("Fit", NODE_ADD, one_by_one(_helps_class_two))]
    )
    q.on_event(NODE_ADD, None, object(), T0 + 11)
    for at in order:
        q.requeue(tried[at], T0 + 12, rejectors=frozenset({"Fit"}))
    assert _places(q, "p1", "p2") == [Unschedulable, BackOff]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_pod_that_a_plugin_holds_pending_is_decided_about_apart(order: tuple[int, int]) -> None:
    """It is tried at once, without back-off; the other one is not."""
    q, tried = _tried(("p1", 1), ("p2", 1))
    q.on_event(NODE_ADD, None, object(), T0 + 11)
    for at in order:
        pending = frozenset({"Fit"}) if at == 1 else frozenset[str]()
        q.requeue(tried[at], T0 + 12, rejectors=frozenset({"Fit"}), pending_plugins=pending)
    assert _places(q, "p1", "p2") == [BackOff, Active]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_pod_that_had_a_node_is_decided_about_apart(order: tuple[int, int]) -> None:
    """Room alone does not help it."""
    q, tried = _tried(("p1", 1), ("p2", 1))
    q.on_event(NODE_ADD, None, object(), T0 + 11, EventAudience(lacking_room=True))
    for at in order:
        q.requeue(tried[at], T0 + 12, rejectors=frozenset({"Fit"}), had_node=at == 0)
    assert _places(q, "p1", "p2") == [Unschedulable, BackOff]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_event_by_one_pod_helps_the_others_of_its_kind(order: tuple[int, int]) -> None:
    q, tried = _tried(("p1", 1), ("p2", 1))
    q.on_event(NODE_ADD, None, object(), T0 + 11, EventAudience(exclude_uid="uid-p1"))
    for at in order:
        q.requeue(tried[at], T0 + 12, rejectors=frozenset({"Fit"}))
    assert place(q, "p2") is BackOff


@pytest.mark.parametrize(
    ("events", "pending", "expected"),
    [
        ([NODE_ADD, POD_DELETE], {"Wait"}, Active),
        ([POD_DELETE, NODE_ADD], {"Wait"}, Active),
        ([NODE_ADD], {"Wait"}, BackOff),
        ([NODE_ADD, POD_DELETE], set(), BackOff),
        ([], {"Wait"}, Unschedulable),
    ],
)
def test_the_event_that_helps_most_decides(
    events: list[ClusterEvent], pending: set[str], expected: type[QueueState]
) -> None:
    q, (pod,) = _tried(("p", 1))
    for event in events:
        q.on_event(event, "old", "new", T0 + 11, ALL_PODS)
    q.requeue(pod, T0 + 12, rejectors=frozenset({"Fit", "Wait"}), pending_plugins=frozenset(pending))
    assert place(q, "p") is expected


def test_what_happens_between_two_pods_of_a_kind_counts_for_the_second() -> None:
    q, tried = _tried(("p1", 1), ("p2", 1))
    q.requeue(tried[0], T0 + 11, rejectors=frozenset({"Wait"}))
    q.on_event(POD_DELETE, "old", None, T0 + 12)
    q.requeue(tried[1], T0 + 13, rejectors=frozenset({"Wait"}))
    assert _places(q, "p1", "p2") == [BackOff, BackOff]


def test_a_nominated_pod_that_is_classified_again_counts_by_its_new_class() -> None:
    """Filter would place others beside it as beside a pod of a class that is gone."""
    q = queue()
    q.add(record("p", 1, nominated_node="n0"), T0)
    q.reclassify("ns/p", "uid-p", 7)
    assert [nominated.class_id for nominated in q.nominator.pods_for("n0")] == [7]
