"""ActiveQueue: order, batches of one class, and turns between classes."""

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.queue_builders import T0, keys, pending, record
from trireme.queueing.active import ActiveQueue
from trireme.queueing.pod_info import PodInfo
from trireme.queueing.queued_pod import QueuedPodInfo


class Clock:
    """Numbers moves as the queue does, and stands still unless it is set."""

    def __init__(self) -> None:
        self.now = T0
        self.stamp = 0

    def pod(self, pods: ActiveQueue, record: PodInfo, timestamp: float | None = None) -> QueuedPodInfo:
        pod = QueuedPodInfo(record, self.now if timestamp is None else timestamp)
        self.stamp += 1
        pod.stamp = self.stamp
        pods.add(pod, record.class_id)
        return pod

    def take(self, pods: ActiveQueue, limit: int) -> list[str]:
        self.stamp += 1
        return keys(pods.take(limit, self.now, self.stamp))


def _drain(pods: ActiveQueue, clock: Clock, limit: int) -> list[list[str]]:
    batches = []
    while pods.size:
        batches.append(clock.take(pods, limit))
    return batches


@pytest.mark.parametrize(
    ("arrivals", "limit", "expected"),
    [
        pytest.param([("a", 1, 0), ("b", 2, 5), ("c", 3, 9)], 1, [["c"], ["b"], ["a"]], id="priority-first"),
        pytest.param([("a", 1, 0), ("b", 2, 0), ("c", 3, 0)], 1, [["a"], ["b"], ["c"]], id="then-age"),
        pytest.param(
            [("a1", 1, 0), ("b1", 2, 0), ("a2", 1, 0), ("b2", 2, 0)], 8, [["a1", "a2"], ["b1", "b2"]], id="by-class"
        ),
        pytest.param(
            [("a1", 1, 0), ("a2", 1, 0), ("a3", 1, 0), ("b1", 2, 0)], 2, [["a1", "a2"], ["b1"], ["a3"]], id="turns"
        ),
        pytest.param(
            [("a1", 1, 0), ("a2", 1, 1), ("a3", 1, 0)], 8, [["a2"], ["a1", "a3"]], id="one-priority-in-a-batch"
        ),
    ],
)
def test_batches_follow_priority_then_turns(
    arrivals: list[tuple[str, int, int]], limit: int, expected: list[list[str]]
) -> None:
    pods, clock = ActiveQueue(), Clock()
    for name, class_id, priority in arrivals:
        clock.pod(pods, record(name, class_id, priority))
    assert _drain(pods, clock, limit) == expected


def test_an_older_pod_goes_before_a_younger_one_that_came_earlier() -> None:
    pods, clock = ActiveQueue(), Clock()
    clock.pod(pods, record("young", 1), T0 + 5)
    clock.pod(pods, record("old", 2), T0 + 1)
    assert _drain(pods, clock, 1) == [["old"], ["young"]]


def test_an_exclusive_pod_is_batched_alone_and_in_its_order() -> None:
    pods, clock = ActiveQueue(), Clock()
    for name in ("a", "b", "alone", "c", "d"):
        clock.pod(pods, record(name, exclusive=name == "alone"))
    assert _drain(pods, clock, 8) == [["a", "b"], ["alone"], ["c", "d"]]


def test_nominated_pods_are_batched_among_themselves() -> None:
    pods, clock = ActiveQueue(), Clock()
    for name in ("a", "b", "on-1", "on-2", "c"):
        clock.pod(pods, record(name, nominated_node=name if name.startswith("on") else ""))
    assert _drain(pods, clock, 8) == [["a", "b"], ["on-1", "on-2"], ["c"]]


def test_a_class_just_served_comes_after_all_that_waited_and_before_all_that_come_later() -> None:
    pods, clock = ActiveQueue(), Clock()
    for name in ("a1", "a2", "a3"):
        clock.pod(pods, record(name, 1))
    clock.pod(pods, record("b1", 2))
    assert clock.take(pods, 1) == ["a1"]
    clock.now += 1
    for index in range(5):
        clock.pod(pods, record(f"n{index}", 10 + index))
    assert clock.take(pods, 1) == ["b1"]
    assert clock.take(pods, 1) == ["a2"]


def test_a_class_that_was_emptied_does_not_jump_the_queue_when_it_returns() -> None:
    pods, clock = ActiveQueue(), Clock()
    clock.pod(pods, record("c1", 3), T0 - 9)
    clock.pod(pods, record("b1", 2), T0 - 5)
    assert clock.take(pods, 1) == ["c1"]
    clock.pod(pods, record("c2", 3), T0 - 8)
    assert clock.take(pods, 1) == ["b1"]
    assert clock.take(pods, 1) == ["c2"]


@pytest.mark.parametrize(
    ("level_bytes", "expected"),
    [
        pytest.param(2, [["a1"], ["b1"], ["a2"]], id="whole-keys-keep-the-order"),
        pytest.param(1, [["b1"], ["a1", "a2"]], id="equal-in-the-first-byte-may-be-joined"),
    ],
)
def test_a_custom_sort_joins_only_what_it_calls_equal(level_bytes: int, expected: list[list[str]]) -> None:
    pods, clock = ActiveQueue(), Clock()
    for name, class_id, key in (("a2", 1, b"\x01\x09"), ("b1", 2, b"\x01\x05"), ("a1", 1, b"\x01\x02")):
        level, rest = key[:level_bytes], key[level_bytes:]
        clock.pod(pods, PodInfo(f"ns/{name}", name, class_id, "p", 0, level, rest, pending()))
    batches = _drain(pods, clock, 8)
    assert batches == expected


def test_upcoming_classes_are_those_of_the_next_batches() -> None:
    pods, clock = ActiveQueue(), Clock()
    generator = random.Random(7)
    for index in range(60):
        clock.pod(pods, record(f"p{index}", generator.randrange(12), generator.randrange(2)))
        clock.now += 1
    ahead = [(each.key, each.waiting) for each in pods.next_classes(8)]
    expected = []
    while len(expected) < 8:
        batch = pods.take(100, clock.now, clock.stamp)
        expected.append((batch[0].record.class_id, len(batch)))
    assert ahead == expected


def test_an_upcoming_class_is_listed_once() -> None:
    pods, clock = ActiveQueue(), Clock()
    clock.pod(pods, record("a", 1), T0 + 5)
    older = clock.pod(pods, record("older", 1), T0 + 1)
    for name in ("b", "c"):
        clock.pod(pods, record(name, 2), T0 + 3)
    assert older.container is not None
    older.container.discard(older)
    assert clock.take(pods, 1) == ["b"]
    clock.pod(pods, record("d", 3), T0 + 9)
    assert [each.key for each in pods.next_classes(3)] == [2, 1, 3]


@given(st.lists(st.tuples(st.sampled_from("aadt"), st.integers(0, 5), st.integers(0, 1), st.integers(1, 3))))
def test_no_class_waits_for_two_batches_of_another_class(steps: list[tuple[str, int, int, int]]) -> None:
    """Nothing is lost or duplicated, deletions aside."""
    pods, clock = ActiveQueue(), Clock()
    inside: dict[str, QueuedPodInfo] = {}
    # For each waiting pod: batches of other classes of its priority since it came or since its class was served.
    behind: dict[str, Counter[int]] = {}
    for index, (step, class_id, level, limit) in enumerate(steps):
        clock.now += 1
        if step == "a":
            # Classes are of one priority, and pods may be older than their arrival.
            pod = clock.pod(pods, record(str(index), 10 * level + class_id, level), clock.now - class_id)
            inside[str(index)], behind[str(index)] = pod, Counter()
        elif step == "d" and inside:
            name = sorted(inside)[class_id % len(inside)]
            gone = inside.pop(name)
            assert gone.container is not None
            gone.container.discard(gone)
        elif step == "t" and pods.size:
            batch = clock.take(pods, limit)
            first = inside[batch[0]].record
            assert first.level == min(pod.record.level for pod in inside.values())
            for name in batch:
                assert inside.pop(name).record.class_id == first.class_id
            for name, pod in inside.items():
                if pod.record.class_id == first.class_id:
                    behind[name].clear()
                elif pod.record.level == first.level:
                    behind[name][first.class_id] += 1
                    assert behind[name][first.class_id] == 1, (name, first.class_id)
        assert pods.size == len(inside) == len(list(pods))
    assert sorted(name for batch in _drain(pods, clock, 4) for name in batch) == sorted(inside)


def test_removed_pods_leave_no_memory_behind() -> None:
    pods, clock = ActiveQueue(), Clock()
    first = clock.pod(pods, record("first", 0))
    (level_queue,) = pods._level_queues.values()
    for index in range(1, 5000):
        clock.now += 1
        pod = clock.pod(pods, record(f"p{index}", index))
        if index % 2:
            assert pod.container is not None
            pod.container.discard(pod)
        else:
            clock.take(pods, 1)
    assert first.container is None
    assert list(pods._level_queues.values()) == [level_queue]
    assert len(level_queue.turns) < 500
    assert len(level_queue.served) < 1000
    assert len(pods._levels) == 1


def test_a_level_that_empties_behind_another_comes_back_once() -> None:
    pods, clock = ActiveQueue(), Clock()
    for name in ("high1", "high2", "high3"):
        clock.pod(pods, record(name, 1, priority=9))
    for index in range(100):
        low = clock.pod(pods, record(f"low{index}", 2))
        if index < 99:
            assert low.container is not None
            low.container.discard(low)
    assert len(pods._levels) == 2
    gone = clock.pod(pods, record("middle", 3, priority=5))
    assert gone.container is not None
    gone.container.discard(gone)
    assert _drain(pods, clock, 8) == [["high1", "high2", "high3"], ["low99"]]


def test_a_class_that_comes_back_to_its_turn_takes_the_place_that_it_left() -> None:
    """Its last pod went away before its turn, and an older one comes.

    Two entries of one turn must not be compared by what they cannot be. The scheduler ended with a TypeError.
    """
    pods, clock = ActiveQueue(), Clock()
    clock.pod(pods, record("a1", 1))
    left = clock.pod(pods, record("a2", 1))
    clock.pod(pods, record("b", 2))
    clock.now += 1
    assert clock.take(pods, 1) == ["a1"]
    assert left.container is not None
    left.container.discard(left)
    clock.pod(pods, record("a3", 1), timestamp=T0)
    assert _drain(pods, clock, 8) == [["b"], ["a3"]]


def test_the_next_classes_are_those_of_the_next_batches() -> None:
    """Prepared ahead: a class that is announced and not handed out was prepared in vain."""
    clock, pods = Clock(), ActiveQueue()
    for number, class_id in enumerate((1, 2, 3, 1, 2, 4)):
        clock.pod(pods, record(f"p{number}", class_id), T0 + number)
    while pods.size:
        announced = [each.key for each in pods.next_classes(10)]
        assert len(announced) == len(set(announced))
        assert [each.key for each in pods.next_classes(1)] == announced[:1]
        (first,) = pods.take(1, clock.now, clock.stamp)
        assert first.record.class_id == announced[0]


def test_a_class_that_ended_and_comes_back_is_served_once() -> None:
    clock, pods = Clock(), ActiveQueue()
    clock.pod(pods, record("a", 1))
    clock.pod(pods, record("b", 2))
    assert clock.take(pods, 8) == ["a"]
    clock.pod(pods, record("c", 1))
    clock.pod(pods, record("d", 1))
    assert _drain(pods, clock, 1) == [["b"], ["c"], ["d"]]


def test_a_pod_that_left_and_came_again_is_listed_once() -> None:
    """Where it was before stays in the heap until its turn."""
    pods, clock = ActiveQueue(), Clock()
    again = clock.pod(pods, record("again"))
    clock.pod(pods, record("other"))
    assert again.container is not None
    again.container.discard(again)
    assert keys(list(pods)) == ["other"]
    clock.stamp += 1
    again.stamp = clock.stamp
    pods.add(again, again.record.class_id)
    assert sorted(keys(list(pods))) == ["again", "other"]
    assert (pods.size, _drain(pods, clock, 8)) == (2, [["other", "again"]])


def test_pods_of_one_class_that_come_and_go_leave_no_memory_behind() -> None:
    """They are taken out from behind the first one, which waits on."""
    pods, clock = ActiveQueue(), Clock()
    first = clock.pod(pods, record("first", 1))
    of_class: Any = first.container
    for index in range(3000):
        pod = clock.pod(pods, record(f"p{index}", 1))
        assert pod.container is of_class
        pod.container.discard(pod)
    assert len(of_class.heap) < 500
    assert _drain(pods, clock, 8) == [["first"]]


def test_the_order_within_a_class_holds_after_many_have_left() -> None:
    """What they leave behind is swept."""
    pods, clock, draw = ActiveQueue(), Clock(), random.Random(3)
    inside = [clock.pod(pods, record(f"p{number}"), T0 + draw.randrange(1000)) for number in range(400)]
    for pod in inside[:350]:
        assert pod.container is not None
        pod.container.discard(pod)
    assert pods.take(100, clock.now, 9999) == sorted(inside[350:], key=lambda pod: (pod.timestamp, pod.stamp))


@pytest.mark.parametrize("count", [256, 257, 258])
def test_any_number_of_classes_may_end_one_after_the_other(count: int) -> None:
    """How long it is known when they had their turns is bounded."""
    pods, clock = ActiveQueue(), Clock()
    for number in range(count):
        clock.pod(pods, record(f"p{number}", number))
    assert _drain(pods, clock, 8) == [[f"p{number}"] for number in range(count)]


def test_classes_take_turns_by_age_after_many_have_come_and_gone_behind_the_first() -> None:
    pods, clock, draw = ActiveQueue(), Clock(), random.Random(5)
    inside: list[QueuedPodInfo] = []
    for number in range(400):
        inside.append(clock.pod(pods, record(f"p{number}", number), T0 + draw.randrange(1000)))
        if len(inside) > 60:
            gone = inside.pop(draw.randrange(len(inside)))
            assert gone.container is not None
            gone.container.discard(gone)
    assert _drain(pods, clock, 1) == [keys([pod]) for pod in sorted(inside, key=lambda pod: (pod.timestamp, pod.stamp))]
