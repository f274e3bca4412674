"""What the queue does for the check of missed wake-ups: groups to check, the last events, and the wake-up itself."""

from types import SimpleNamespace

from tests.helpers import queue_builders
from tests.helpers.queue_builders import NODE_ADD, NODE_TAINT, T0, fail, place, pod, record
from trireme.queueing import recent_events
from trireme.queueing.hints.queueing_hint_map import HintAnswer
from trireme.queueing.pre_enqueue import PreEnqueueResult
from trireme.queueing.recent_events import RecentEvents
from trireme.queueing.states import Active, BackOff, Unschedulable

ALLOWED = PreEnqueueResult.ALLOWED


def _node(name: str) -> SimpleNamespace:
    return SimpleNamespace(metadata=SimpleNamespace(namespace="", name=name))


def test_a_missed_pod_is_woken_after_its_back_off_and_another_stays() -> None:
    queue = queue_builders.queue()
    for name in ("a", "b"):
        queue.add(record(name), T0)
        fail(queue, T0, "Taint")
    assert queue.wake_missed([pod(queue, "a")], T0 + 60) == ()
    assert (place(queue, "a"), place(queue, "b")) == (Active, Unschedulable)
    assert queue.contents.transitions_of("ns/a")[-1].cause == "MissedWakeUp"
    queue.wake_missed([pod(queue, "a")], T0 + 61)
    assert place(queue, "a") is Active
    queue.add(record("c", class_id=2), T0 + 90)
    fail(queue, T0 + 90, "Taint")
    fail(queue, T0 + 90, "Taint")
    queue.wake_missed([pod(queue, "c")], T0 + 90)
    assert place(queue, "c") is BackOff


def test_gated_pods_are_not_checked() -> None:
    """If this fails, pods are woken only to be gated again."""
    queue = queue_builders.queue(pre_enqueue=lambda pod: "Gates" if pod.key == "ns/gated" else ALLOWED)
    for number, name in enumerate(("gated", "refused")):
        queue.add(record(name, class_id=number + 1), T0)
    fail(queue, T0, "Fit")
    (group,) = queue.contents.refused_groups()
    assert list(group.pods) == ["ns/refused"]


def test_a_pod_waits_for_the_answer_of_a_remote_hint() -> None:
    """If this fails, a wake-up that is under way counts as missed."""
    queue = queue_builders.queue()
    queue.add(record("a"), T0)
    fail(queue, T0, "Far")
    waiting = pod(queue, "a")
    assert not queue.contents.awaits_hint(waiting)
    (call,) = queue.on_event(NODE_ADD, None, _node("n"), T0 + 1)
    assert queue.contents.awaits_hint(waiting)
    queue.hint_answered(call.call_id, [HintAnswer.SKIP], T0 + 2)
    assert not queue.contents.awaits_hint(waiting)
    assert place(queue, "a") is Unschedulable


def test_the_last_events_are_known_also_those_that_no_plugin_registered() -> None:
    """If this fails, the event that a plugin forgot is the one that is not shown."""
    queue = queue_builders.queue(registrations=())
    queue.on_event(NODE_ADD, None, _node("n1"), T0 + 1)
    queue.on_event(NODE_TAINT, _node("n2"), None, T0 + 2)
    assert queue.recent_events.since(T0 + 2) == [(T0 + 2, NODE_TAINT.label, "n2")]
    assert [each.object_name for each in queue.recent_events.since(T0)] == ["n1", "n2"]


def test_objects_have_the_names_that_people_use() -> None:
    events = RecentEvents()
    claim = SimpleNamespace(metadata=SimpleNamespace(namespace="ns", name="claim"))
    for changed in ("Plugin", SimpleNamespace(key="ns/p"), claim, _node("n"), None):
        events.append(T0, NODE_ADD, None, changed)
    assert [each.object_name for each in events.since(0)] == ["Plugin", "ns/p", "ns/claim", "n", ""]


def test_the_memory_of_events_is_bounded() -> None:
    events = RecentEvents()
    for number in range(recent_events.LENGTH + 3):
        events.append(T0 + number, NODE_ADD, None, str(number))
    known = events.since(0)
    assert (len(known), known[0].object_name) == (recent_events.LENGTH, "3")


def test_a_gated_pod_is_not_woken() -> None:
    """Its gate has the last word; it would only be gated again."""
    queue = queue_builders.queue(pre_enqueue=lambda pod: "Gates")
    queue.add(record("p"), T0)
    before = pod(queue, "p").stamp
    queue.wake_missed([pod(queue, "p")], T0 + 60)
    assert pod(queue, "p").stamp == before
