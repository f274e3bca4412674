"""InsightQueueFeed: the queue as it is sent to insight, all of it once and then what changes."""

from typing import Any

from tests.helpers import queue_builders
from tests.helpers.pod_group_builders import grouping_queue, member, pod_group
from tests.helpers.queue_builders import T0, fail, popped, record
from trireme.frontend import insight_queue_feed
from trireme.insight import queued_pods
from trireme.queueing.scheduling_queue import SchedulingQueue
from trireme.v1 import snapshot_pb2


class Replicas:
    """Insight's replicas, whose stream begins when the test decides."""

    new_stream = True

    def take_new_stream(self) -> bool:
        new, self.new_stream = self.new_stream, False
        return new


class World:
    """A queue, its feed, and what a replica of insight knows by it."""

    def __init__(self, queue: SchedulingQueue | None = None) -> None:
        self.queue = queue_builders.queue() if queue is None else queue
        self.replicas: Any = Replicas()
        self.now = T0 + 60
        self.feed = insight_queue_feed.InsightQueueFeed(
            self.replicas, self.queue.contents, lambda: 1, lambda: self.now, lambda moment: moment - T0
        )
        self.known = queued_pods.QueuedPods()

    def sent(self) -> list[snapshot_pb2.QueueDelta]:
        deltas = [snapshot_pb2.QueueDelta.FromString(each.SerializeToString()) for each in self.feed.take_deltas()]
        for delta in deltas:
            self.known.apply(delta)
        return deltas

    def state(self, name: str) -> str | None:
        self.sent()
        found = self.known.get("ns", name)
        return None if found is None else snapshot_pb2.QueuedPodState.Name(found.state)


def test_a_pod_is_followed_through_the_queue() -> None:
    world = World()
    world.queue.add(record("a"), T0)
    assert world.state("a") == "QUEUED_POD_STATE_ACTIVE"
    (pod,) = popped(world.queue, T0)
    assert world.state("a") == "QUEUED_POD_STATE_IN_FLIGHT"
    world.queue.requeue(pod, T0, rejectors=frozenset({"Taint", "Fit"}))
    assert world.state("a") == "QUEUED_POD_STATE_UNSCHEDULABLE"
    found = world.known.get("ns", "a")
    assert found is not None
    assert (list(found.plugins), found.attempts, found.pod_class) == (["Fit", "Taint"], 1, 1)
    world.queue.delete("ns/a", "uid-a", T0)
    assert world.state("a") is None


def test_a_pod_that_backs_off_says_until_when() -> None:
    """Units and clocks: the queue's own clock means nothing to others."""
    world = World()
    world.queue.add(record("a"), T0)
    fail(world.queue, T0)
    assert world.state("a") == "QUEUED_POD_STATE_BACKOFF"
    found = world.known.get("ns", "a")
    assert found is not None
    assert 0 < found.backoff_until_ms <= 10_000


def test_a_pod_that_is_scheduled_at_once_is_never_sent() -> None:
    world = World()
    assert [delta.reset for delta in world.sent()] == [True]
    world.queue.add(record("a"), T0)
    popped(world.queue, T0)
    world.queue.done("uid-a", T0)
    assert world.sent() == []


def test_another_class_is_sent_though_nothing_moved() -> None:
    world = World()
    world.queue.add(record("a"), T0)
    world.sent()
    world.queue.reclassify("ns/a", "uid-a", 7)
    world.sent()
    found = world.known.get("ns", "a")
    assert found is not None
    assert found.pod_class == 7
    assert world.sent() == []


def test_a_new_stream_gets_all_of_the_queue_in_parts(monkeypatch: Any) -> None:
    """A replica that was started again knows nothing, and one message holds only so many pods."""
    monkeypatch.setattr(insight_queue_feed, "PODS_PER_MESSAGE", 2)
    world = World()
    world.sent()
    for number in range(5):
        world.queue.add(record(f"p{number}"), T0)
    world.sent()
    world.replicas.new_stream = True
    deltas = world.sent()
    assert [(delta.reset, len(delta.pods)) for delta in deltas] == [(True, 2), (False, 2), (False, 1)]
    assert len(world.known) == 5


def test_without_followers_nothing_is_recorded() -> None:
    world = World()
    world.queue.add(record("a"), T0)
    world.sent()
    world.queue.contents.ignore_changes()
    world.queue.add(record("b"), T0)
    # The first call begins anew, with all of the queue.
    assert [(delta.reset, len(delta.pods)) for delta in world.sent()] == [(True, 2)]


def test_members_of_a_group_are_followed_with_it() -> None:
    """They are in no structure of the queue by themselves, and change with their group."""
    world = World(grouping_queue())
    world.sent()
    world.queue.add(member("m0", "g"), T0)
    assert world.state("m0") == "QUEUED_POD_STATE_WAITING_FOR_GROUP"
    found = world.known.get("ns", "m0")
    assert found is not None
    assert found.pod_group == "g"
    assert found.reason.startswith("waits ")
    assert world.queue.groups is not None
    world.queue.groups.set_group(pod_group("g", 2), T0)
    assert world.state("m0") == "QUEUED_POD_STATE_GATED"
    held = world.known.get("ns", "m0")
    assert held is not None
    assert list(held.plugins) == ["GangScheduling"]
    world.queue.add(member("m1", "g"), T0)
    assert world.state("m0") == "QUEUED_POD_STATE_ACTIVE"
    assert world.state("m1") == "QUEUED_POD_STATE_ACTIVE"
    world.queue.delete("ns/m1", "uid-m1", T0)
    assert world.state("m1") is None
    assert world.state("m0") == "QUEUED_POD_STATE_GATED"


def test_a_pod_that_waits_long_for_its_turn_is_sent() -> None:
    """Pods that wait for others to share their batch are not, which is most of them under load."""
    world = World()
    world.sent()
    world.now = T0
    world.queue.add(record("a"), T0)
    assert world.sent() == []
    popped(world.queue, T0)
    world.now = T0 + 1
    assert world.sent() == []
    world.now = T0 + insight_queue_feed.SETTLE_SECONDS
    assert world.state("a") == "QUEUED_POD_STATE_IN_FLIGHT"


def test_a_pod_that_is_refused_is_sent_at_once() -> None:
    """It is what people ask about."""
    world = World()
    world.sent()
    world.now = T0
    world.queue.add(record("a"), T0)
    fail(world.queue, T0, "Fit")
    assert world.state("a") == "QUEUED_POD_STATE_UNSCHEDULABLE"


def test_since_when_a_pod_waits_is_no_later_once_its_gate_opens() -> None:
    """The console's timeline would begin when the pod was let in, and leave out what it waited for."""
    closed = {"a": "Gates"}
    world = World(queue_builders.queue(pre_enqueue=queue_builders.gate_of(closed)))
    world.queue.add(record("a"), T0 - 60)
    closed.clear()
    world.queue.activate([("ns/a", "uid-a")], T0)
    fail(world.queue, T0, "Fit")
    world.sent()
    found = world.known.get("ns", "a")
    assert found is not None
    assert found.queued_since_ms == -60_000  # T0 is 0 by the wall clock of this world


def test_each_message_has_the_last_changes_and_since_when_the_pod_waits() -> None:
    """The console's timeline would not say what woke a pod, or how long it has waited."""
    world = World()
    world.queue.add(record("a"), T0)
    world.queue.add(record("b"), T0)
    fail(world.queue, T0 + 2, "Fit", max_batch=2)
    world.sent()
    found = world.known.get("ns", "a")
    assert found is not None
    assert found.queued_since_ms == 0  # T0 by the wall clock of this world
    moves = [(move.at_ms, move.to) for move in found.transitions]
    assert moves == [(0, "active"), (2000, "in flight"), (2000, "unschedulable")]
    assert all(move.cause for move in found.transitions)
    for number in range(5):
        world.queue.contents.take_changed_pods()
        world.queue.delete("ns/a", "uid-a", T0 + number)
        world.queue.add(record("a"), T0 + number)
    world.sent()
    again = world.known.get("ns", "a")
    assert again is not None
    assert len(again.transitions) == insight_queue_feed.TRANSITIONS_PER_POD
    assert again.transitions[-1].at_ms == 4000


def test_pods_that_wait_for_their_turn_are_not_looked_at_all_the_time(monkeypatch: Any) -> None:
    """Under load thousands wait: to look at each four times a second would cost as much as to schedule some of them."""
    world = World()
    world.sent()
    world.now = T0
    for number in range(10):
        world.queue.add(record(f"p{number}"), T0)
    looked_at, find = list[str](), world.queue.contents.with_uid
    monkeypatch.setattr(world.queue.contents, "with_uid", lambda key, uid: looked_at.append(uid) or find(key, uid))
    for quarter in range(8):
        world.now = T0 + quarter * insight_queue_feed.PERIOD_SECONDS
        assert world.sent() == []
    assert len(looked_at) == 10
    world.now = T0 + insight_queue_feed.SETTLE_SECONDS
    world.sent()
    assert len(world.known) == 10
    assert len(looked_at) == 20


def test_a_pod_that_left_while_it_waited_is_not_sent_when_its_time_has_come() -> None:
    """Insight would show a bound pod as waiting."""
    world = World()
    world.sent()
    world.now = T0
    world.queue.add(record("a"), T0)
    assert world.sent() == []
    world.queue.delete("ns/a", "uid-a", T0)
    assert world.sent() == []
    world.now = T0 + insight_queue_feed.SETTLE_SECONDS
    assert world.sent() == []


def test_of_many_pods_that_wait_for_their_turn_some_are_sent_each_time(monkeypatch: Any) -> None:
    """A burst would cost the frontend a message for each pod, when it has most to do."""
    monkeypatch.setattr(insight_queue_feed, "MAX_SETTLED_PODS", 3)
    world = World()
    world.sent()
    for number in range(5):
        world.queue.add(record(f"p{number}"), T0 + number / 10)
    world.now = T0 + 10
    world.sent()
    assert sorted(world.known.names()) == ["p0", "p1", "p2"]
    # One that is refused is sent at once, whatever waits.
    (pod, *_) = popped(world.queue, T0 + 10, max_batch=1)
    world.queue.requeue(pod, T0 + 10, rejectors=frozenset({"Fit"}))
    world.queue.add(record("p5"), T0 + 10)
    world.sent()
    assert world.state(pod.record.key.partition("/")[2]) == "QUEUED_POD_STATE_UNSCHEDULABLE"
    assert sorted(world.known.names()) == ["p0", "p1", "p2", "p3", "p4"]


def test_where_nothing_moves_all_pods_that_wait_for_their_turn_are_sent(monkeypatch: Any) -> None:
    """With a phase down, insight would know of a hundred pods more each second, and explain none of the others."""
    monkeypatch.setattr(insight_queue_feed, "MAX_SETTLED_PODS", 3)
    world = World()
    world.sent()
    for number in range(5):
        world.queue.add(record(f"p{number}"), T0 + number / 10)
    world.now = T0 + 10
    world.sent()
    world.sent()
    assert sorted(world.known.names()) == [f"p{number}" for number in range(5)]
