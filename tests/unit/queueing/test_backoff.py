"""Back-off: its arithmetic, who may be taken early, and who is due when."""

import itertools
import random

import pytest

from tests.helpers.queue_builders import T0, exact, keys, record
from trireme.queueing.backoff import BackoffPolicy, BackoffQueue
from trireme.queueing.queued_pod import QueuedPodInfo

FIT = frozenset({"Fit"})
STAMPS = itertools.count(1)


def failed(
    name: str, at: float, refusals: int = 0, errors: int = 0, priority: int = 0, class_id: int = 1
) -> QueuedPodInfo:
    """A pod as it comes back from an attempt."""
    pod = QueuedPodInfo(record(name, class_id, priority), at)
    pod.unschedulable_count, pod.consecutive_errors = refusals, errors
    pod.rejectors = frozenset() if errors else FIT
    pod.stamp = next(STAMPS)
    return pod


def add(backoff: BackoffQueue, pod: QueuedPodInfo) -> None:
    """The pod backs off."""
    backoff.add(pod, pod.record.class_id)


@pytest.mark.parametrize(
    ("refusals", "errors", "expected"),
    [
        pytest.param(0, 0, 0.0, id="never-failed"),
        pytest.param(1, 0, 1.0, id="first"),
        pytest.param(2, 0, 2.0, id="doubles"),
        pytest.param(4, 0, 8.0, id="fourth"),
        pytest.param(5, 0, 10.0, id="at-most-the-maximum"),
        pytest.param(10_000, 0, 10.0, id="very-many"),
        pytest.param(5, 1, 1.0, id="errors-count-for-themselves"),
        pytest.param(1, 3, 4.0, id="errors-before-refusals"),
    ],
)
def test_the_wait_doubles_up_to_the_maximum(refusals: int, errors: int, expected: float) -> None:
    pod = failed("p", T0 + 0.75, refusals, errors)
    aligned, unaligned = BackoffPolicy(), exact()
    assert unaligned.expiry(pod) == (T0 + 0.75 + expected if expected else 0.0)
    pod.backoff_expiration = 0.0
    assert aligned.expiry(pod) == (T0 + expected if expected else 0.0)


def test_a_group_may_wait_longer_by_the_root_of_its_size() -> None:
    policy = BackoffPolicy(initial=1, maximum=10)
    assert policy.duration(20, size=4) == 20
    assert policy.duration(20, size=2) == pytest.approx(14.142, abs=0.001)
    assert policy.duration(20, size=1) == 10
    assert policy.duration(2, size=4) == 2


@pytest.mark.parametrize(
    ("policy", "at", "now", "expected"),
    [
        pytest.param(BackoffPolicy(), 0.9, 1.89, True, id="during-the-second-it-is-due-in"),
        pytest.param(BackoffPolicy(), 0.9, 2.0, False, id="not-in-the-next"),
        pytest.param(BackoffPolicy(), 0.0, 1.0, True, id="due-on-the-second"),
        pytest.param(exact(), 0.9, 1.9, True, id="exact-at-expiry"),
        pytest.param(exact(), 0.9, 1.91, False, id="exact-after"),
        pytest.param(BackoffPolicy(maximum=0), 0.9, 0.9, False, id="turned-off"),
    ],
)
def test_backing_off_ends_with_the_second(policy: BackoffPolicy, at: float, now: float, expected: bool) -> None:
    assert policy.is_backing_off(failed("p", T0 + at, refusals=1), T0 + now) is expected


def test_completed_gives_all_that_are_due_and_no_other() -> None:
    backoff = BackoffQueue(BackoffPolicy())
    for name, refusals, errors in (("a", 1, 0), ("b", 2, 0), ("c", 0, 1), ("d", 0, 3)):
        add(backoff, failed(name, T0 + 0.5, refusals, errors))
    assert backoff.next_expiry() == T0 + 2
    assert keys(backoff.take_completed(T0 + 1.99)) == []
    assert sorted(keys(backoff.take_completed(T0 + 2))) == ["a", "c"]
    assert backoff.next_expiry() == T0 + 3
    assert keys(backoff.take_completed(T0 + 100)) == ["b", "d"]
    assert backoff.next_expiry() is None


def test_all_pods_are_listed_and_those_that_were_taken_are_nowhere() -> None:
    """A pod that is said to be here still would be taken out of a place where it is not."""
    backoff = BackoffQueue(BackoffPolicy())
    pods = [failed(f"p{number}", T0 + number // 2, refusals=number % 2, errors=1 - number % 2) for number in range(8)]
    for pod in pods:
        add(backoff, pod)
    assert sorted(keys(list(backoff))) == keys(pods)
    assert sorted(keys(backoff.take_completed(T0 + 100))) == keys(pods)
    assert [pod.container for pod in pods] == [None] * 8
    assert (backoff.refused_count, backoff.error_count) == (0, 0)


def test_those_refused_are_taken_early_by_second_then_priority_and_errors_never() -> None:
    backoff = BackoffQueue(BackoffPolicy())
    add(backoff, failed("late", T0, refusals=3, priority=9))
    add(backoff, failed("low", T0 + 0.1, refusals=1))
    add(backoff, failed("high", T0 + 0.2, refusals=1, priority=5, class_id=2))
    add(backoff, failed("error", T0, errors=1, priority=99))
    taken = [keys(backoff.take_early(8, T0, 0)) for _ in range(4)]
    assert taken == [["high"], ["low"], ["late"], []]
    assert (backoff.refused_count, backoff.error_count) == (0, 1)


def test_without_early_pops_no_pod_leaves_backoff_early() -> None:
    backoff = BackoffQueue(exact())
    add(backoff, failed("a", T0 + 0.5, refusals=1))
    assert backoff.take_early(8, T0, 0) == []
    assert backoff.next_expiry() == T0 + 1.5
    assert keys(backoff.take_completed(T0 + 1.51)) == ["a"]


@pytest.mark.parametrize("errors", [0, 1], ids=["refused", "error"])
def test_a_pod_taken_out_is_out(errors: int) -> None:
    backoff = BackoffQueue(BackoffPolicy())
    for index in range(300):
        pod = failed(f"p{index}", T0, refusals=1 - errors, errors=errors)
        add(backoff, pod)
        assert pod.container is not None
        if index != 7:
            pod.container.discard(pod)
    assert len(list(backoff)) == backoff.refused_count + backoff.error_count == 1
    assert keys(backoff.take_completed(T0 + 60)) == ["p7"]
    assert list(backoff) == []


def test_the_order_of_errors_holds_after_many_were_taken_out() -> None:
    """A pod whose time has come would wait behind one whose time has not."""
    backoff = BackoffQueue(BackoffPolicy())
    draw = random.Random(1)
    seconds = [draw.randrange(1000) for _ in range(600)]
    pods = [failed(f"p{number}", T0 + at, errors=1) for number, at in enumerate(seconds)]
    for pod in pods:
        add(backoff, pod)
    left = set(draw.sample(range(600), 40))
    for number in set(range(600)) - left:
        found = pods[number].container
        assert found is not None
        found.discard(pods[number])
    for now in range(0, 1010, 7):
        due = [number for number in left if seconds[number] + 1 < now]
        left.difference_update(due)
        assert sorted(keys(backoff.take_completed(T0 + now))) == sorted(f"p{number}" for number in due)
    assert not left
