"""PodTimelines: what happened to pods in the queue, from messages that repeat the last few changes."""

import pytest

from tests.helpers.console_states import T0, queued, transition
from trireme.insight.console import pod_timelines
from trireme.v1 import snapshot_pb2


def timelines() -> pod_timelines.PodTimelines:
    return pod_timelines.PodTimelines(lambda: T0 / 1000 + 60)


def test_each_change_is_there_once() -> None:
    """Messages repeat the last changes; a timeline would have them several times, or miss some."""
    known = timelines()
    first = [transition(1, "active", "UnscheduledPodAdd"), transition(2, "in flight", "popped")]
    known.apply(snapshot_pb2.QueueDelta(pods=[queued("web", transitions=first)]))
    more = [*first, transition(3, "unschedulable", "ScheduleAttemptFailure")]
    known.apply(snapshot_pb2.QueueDelta(pods=[queued("web", transitions=more, attempts=2)]))
    found = known.of("default", "web")
    assert found is not None
    assert [(entry.at_ms, entry.state) for entry in found.entries] == [
        (1, "active"),
        (2, "in flight"),
        (3, "unschedulable"),
    ]
    assert (found.attempts, found.left_at_ms) == (2, None)


def test_a_pod_that_left_is_remembered() -> None:
    """The timeline would be empty as soon as it gets interesting: when the pod is bound."""
    known = timelines()
    known.apply(snapshot_pb2.QueueDelta(pods=[queued("web", transitions=[transition(1, "active")])]))
    known.apply(snapshot_pb2.QueueDelta(removed_pods=["uid-of-web"]))
    found = known.of("default", "web")
    assert found is not None
    assert found.left_at_ms == T0 + 60_000


def test_after_a_new_stream_pods_that_are_not_in_the_queue_have_left_it() -> None:
    """A pod that was bound meanwhile would wait forever."""
    known = timelines()
    known.apply(snapshot_pb2.QueueDelta(pods=[queued("gone"), queued("there")]))
    known.apply(snapshot_pb2.QueueDelta(reset=True, pods=[queued("there")]))
    left = {name: known.of("default", name) for name in ("gone", "there")}
    assert {name: found is not None and found.left_at_ms is not None for name, found in left.items()} == {
        "gone": True,
        "there": False,
    }


def test_a_pod_made_again_has_a_timeline_of_its_own() -> None:
    """The new pod would have the history of the one that was deleted."""
    known = timelines()
    known.apply(snapshot_pb2.QueueDelta(pods=[queued("web", transitions=[transition(1, "active")])]))
    again = queued("web", transitions=[transition(9, "active")])
    again.pod.uid = "another"
    known.apply(snapshot_pb2.QueueDelta(removed_pods=["uid-of-web"], pods=[again]))
    found = known.of("default", "web")
    assert found is not None
    assert [entry.at_ms for entry in found.entries] == [9]
    assert known.of("default", "web", "uid-of-web") is None


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Insight would remember every pod that ever waited."""
    monkeypatch.setattr(pod_timelines, "MAX_PODS", 2)
    known = timelines()
    for number in range(4):
        known.apply(snapshot_pb2.QueueDelta(pods=[queued(f"web-{number}")]))
    assert len(known) == 2
    assert known.of("default", "web-0") is None
    for at in range(0, 100, 2):
        moves = [transition(at, "active"), transition(at + 1, "unschedulable")]
        known.apply(snapshot_pb2.QueueDelta(pods=[queued("web-3", transitions=moves)]))
    found = known.of("default", "web-3")
    assert found is not None
    assert [entry.at_ms for entry in found.entries] == list(range(100 - pod_timelines.MAX_TRANSITIONS, 100))
