"""ActiveQueue and BackoffQueue against plain models that keep lists and sort them, over random steps.

Many pods come and go at once, so that the heaps are swept.
"""

import random
from collections.abc import Callable
from typing import TypeAlias

import pytest

from tests.helpers.queue_builders import T0, exact, record
from trireme.queueing.active import ActiveQueue
from trireme.queueing.backoff import BackoffPolicy, BackoffQueue
from trireme.queueing.queued_pod import QueuedPodInfo

Turn: TypeAlias = tuple[float, int]
MANY = 100
NEVER: Turn = (float("-inf"), 0)


def _by_order(pod: QueuedPodInfo) -> tuple[object, ...]:
    return (*pod.record.rest, pod.timestamp, pod.stamp)


class ActiveModel:
    """The pods in one list, and when each class of a level had its last batch."""

    def __init__(self) -> None:
        self.pods: list[QueuedPodInfo] = []
        self._served: dict[tuple[int, int], Turn] = {}

    def classes(self) -> list[tuple[int, QueuedPodInfo, int]]:
        """Each class with pods of a level, its first pod and its size, in the order of their turns."""
        found: dict[tuple[int, int], list[QueuedPodInfo]] = {}
        for pod in sorted(self.pods, key=_by_order):
            found.setdefault((pod.record.level[0], pod.record.class_id), []).append(pod)
        turns = {key: max((of[0].timestamp, of[0].stamp), self._served.get(key, NEVER)) for key, of in found.items()}
        ordered = sorted(found, key=lambda key: (key[0], turns[key]))
        return [(key[1], found[key][0], len(found[key])) for key in ordered]

    def take(self, limit: int, now: float, stamp: int) -> list[QueuedPodInfo]:
        class_id, first, _ = self.classes()[0]
        level = first.record.level
        batch: list[QueuedPodInfo] = []
        for pod in sorted(self.pods, key=_by_order):
            if (pod.record.level, pod.record.class_id) == (level, class_id):
                alone = pod.record.exclusive or pod.record.nominated != first.record.nominated
                if batch and (alone or first.record.exclusive or len(batch) >= limit):
                    break
                batch.append(pod)
        self._served[level[0], class_id] = (now, stamp)
        for pod in batch:
            self.remove(pod)
        return batch

    def remove(self, pod: QueuedPodInfo) -> None:
        self.pods.remove(pod)
        level = pod.record.level
        if all(each.record.level != level for each in self.pods):
            self._served = {key: turn for key, turn in self._served.items() if key[0] != level[0]}


class Steps:
    """Random pods: few classes and levels, ages that differ from the order in which they come.

    `removes`: pods leave from anywhere. In half of the seeds a QueueSort plugin orders them by more than their age.
    """

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.now = T0
        self.stamp = 0
        self.few = seed % 2
        self.removes = seed % 4 < 2
        self.has_rest = seed % 8 >= 2 and seed % 8 < 6

    def next_stamp(self) -> int:
        self.stamp += 1
        return self.stamp

    def pods(self, count: int) -> list[QueuedPodInfo]:
        """Many are of one class."""
        kinds = [(level, 10 * level + number) for level in range(2 if self.few else 9) for number in range(5)]
        one = self.draw.choice(kinds)
        return [self._pod(*(one if count > MANY else self.draw.choice(kinds))) for _ in range(count)]

    def _pod(self, level: int, class_id: int) -> QueuedPodInfo:
        node = "n" if self.draw.random() < 0.2 else ""
        made = record(f"p{self.stamp}", class_id, -level, exclusive=self.draw.random() < 0.1, nominated_node=node)
        if self.has_rest:
            made = made._replace(rest=(self.draw.randrange(3),))
        pod = QueuedPodInfo(made, self.now - self.draw.randrange(6))
        pod.stamp = self.next_stamp()
        return pod


def _discard(pod: QueuedPodInfo) -> None:
    assert pod.container is not None
    pod.container.discard(pod)
    assert pod.container is None


@pytest.mark.parametrize("seed", range(64))
def test_batches_are_those_of_a_sorted_list(seed: int) -> None:
    """Levels, turns of classes, ages, batches and their limits; nothing is lost, and no pod is handed out twice."""
    steps, model, pods = Steps(seed), ActiveModel(), ActiveQueue()
    in_order = True
    for _ in range(40):
        steps.now += steps.draw.choice((0, 1, 6))
        count = steps.draw.choice((1, 2, 5, 5, 5, 5, 150))
        what = steps.draw.random()
        if what < 0.4:
            for pod in steps.pods(count):
                pods.add(pod, pod.record.class_id)
                model.pods.append(pod)
        elif what < 0.55 and steps.removes:
            for pod in steps.draw.sample(model.pods, min(count, len(model.pods))):
                _discard(pod)
                model.remove(pod)
                in_order = False
        elif what < 0.6 and steps.removes and model.pods:
            # A pod moves within the queue, as its record changed: what it left behind must not count.
            pod = steps.draw.choice(model.pods)
            _discard(pod)
            model.remove(pod)
            pod.stamp = steps.next_stamp()
            pods.add(pod, pod.record.class_id)
            model.pods.append(pod)
            in_order = False
        else:
            for _ in range(min(count, 5)):
                if model.pods:
                    _check_next(pods, model, in_order)
                    stamp, limit = steps.next_stamp(), steps.draw.choice((1, 2, 3, 40))
                    batch = pods.take(limit, steps.now, stamp)
                    assert batch == model.take(limit, steps.now, stamp)
                    assert {pod.container for pod in batch} == {None}
        assert pods.size == len(pods) == len(model.pods)
        assert sorted(pod.stamp for pod in pods) == sorted(pod.stamp for pod in model.pods)
        in_order = in_order or not model.pods
    while model.pods:
        stamp = steps.next_stamp()
        assert pods.take(4, steps.now, stamp) == model.take(4, steps.now, stamp)


def _check_next(pods: ActiveQueue, model: ActiveModel, in_order: bool) -> None:
    expected = model.classes()
    assert tuple(pods.next_batch()) == expected[0]
    found = [tuple(each) for each in pods.next_classes(len(expected) + 1)]
    if in_order:
        assert found == expected
        assert [tuple(each) for each in pods.next_classes(2)] == expected[:2]
    else:
        assert len(found) == len(expected)
        assert set(found) == set(expected)


@pytest.mark.parametrize("policy", [BackoffPolicy, exact], ids=["early", "exact"])
@pytest.mark.parametrize("seed", range(8))
def test_pods_leave_backoff_as_a_sorted_list_says(policy: Callable[[], BackoffPolicy], seed: int) -> None:
    """Those refused early, by second and then as batches; the others when their time is over, as they came."""
    steps, made = Steps(seed), policy()
    backoff = BackoffQueue(made)
    windows: dict[float, ActiveModel] = {}
    errors: list[QueuedPodInfo] = []

    def add(pod: QueuedPodInfo) -> None:
        backoff.add(pod, pod.record.class_id)
        early = made.pop_early and pod.rejectors
        (windows.setdefault(made.expiry(pod), ActiveModel()).pods if early else errors).append(pod)

    for _ in range(40):
        steps.now += steps.draw.choice((0, 0.25, 1))
        count = steps.draw.choice((1, 2, 5, 5, 5, 150))
        what = steps.draw.random()
        waiting = [*errors, *(pod for model in windows.values() for pod in model.pods)]
        if what < 0.4:
            for pod in steps.pods(count):
                _fail(pod, steps.draw)
                add(pod)
        elif what < 0.55 and steps.removes:
            for pod in steps.draw.sample(waiting, min(count, len(waiting))):
                _discard(pod)
                errors.remove(pod) if pod in errors else windows[pod.backoff_expiration].remove(pod)
                if steps.draw.random() < 0.2:  # its record has changed
                    pod.stamp = steps.next_stamp()
                    add(pod)
        elif what < 0.8:
            done = [pod for pod in waiting if made.is_over(pod.backoff_expiration, steps.now)]
            taken = backoff.take_completed(steps.now)
            assert taken == sorted(done, key=lambda pod: pod.stamp)
            assert {pod.container for pod in taken} <= {None}
            errors = [pod for pod in errors if pod not in done]
            windows = {until: model for until, model in windows.items() if not made.is_over(until, steps.now)}
        else:
            stamp, limit = steps.next_stamp(), steps.draw.choice((1, 3, 40))
            first = min((until for until, model in windows.items() if model.pods), default=None)
            expected = windows[first].take(limit, steps.now, stamp) if first is not None else []
            assert backoff.take_early(limit, steps.now, stamp) == expected
        refused = {until: len(model.pods) for until, model in windows.items() if model.pods}
        assert (backoff.refused_count, backoff.error_count) == (sum(refused.values()), len(errors))
        assert len(list(backoff)) == backoff.refused_count + backoff.error_count
        due = min([*refused, *(pod.backoff_expiration for pod in errors)], default=None)
        assert backoff.next_expiry() == (due if due is None else due + made.pop_early)
        upcoming = windows[min(refused)].classes() if refused else []
        assert {tuple(each) for each in backoff.next_classes(99)} == set(upcoming)


def _fail(pod: QueuedPodInfo, draw: random.Random) -> None:
    pod.unschedulable_count = 1 + draw.randrange(4)
    pod.consecutive_errors = draw.choice((0, 0, 1, 3))
    pod.rejectors = frozenset() if pod.consecutive_errors else frozenset({"Fit"})
