"""A queue that disagrees with the states of its pods, or hands out another pod than the first, is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers import queue_builders
from tests.helpers.pod_group_builders import grouping_queue, member, pod_group
from tests.helpers.queue_builders import T0, record
from tests.simulation.queue_checks import QueueChecks
from trireme.queueing import scheduling_queue, transitions
from trireme.queueing.groups import queue_groups
from trireme.queueing.groups.queue_groups import GroupAttemptResult
from trireme.queueing.scheduling_queue import SchedulingQueue
from trireme.queueing.states import ACTIVE, BackOff


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> QueueChecks:
    """They observe methods of the product, which are restored after the test."""
    for owner, name in (
        (scheduling_queue.SchedulingQueue, "pop"),
        (transitions.Transitions, "record_failure"),
        (transitions.Transitions, "requeue"),
        (transitions.Transitions, "admit"),
        (queue_groups.QueueGroups, "finish_attempt"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    return QueueChecks()


def _queue() -> SchedulingQueue:
    """A pod that is refused, one that backs off after an error, and two of a class and one of more priority."""
    queue = queue_builders.queue()
    queue.add(record("refused"), T0)
    queue_builders.fail(queue, T0, "Fit")
    queue.add(record("failed"), T0)
    queue_builders.fail(queue, T0)
    for name, priority in (("first", 0), ("second", 0), ("important", 5)):
        queue.add(record(name, priority=priority), T0)
    return queue


def test_a_queue_in_order_is_none(checks: QueueChecks) -> None:
    """If this fails, a simulation of the unchanged product fails."""
    queue = _queue()
    assert queue_builders.pop_names(queue, T0, 8) == ["important"]
    assert queue_builders.pop_names(queue, T0, 8) == ["first", "second"]
    queue.on_event(queue_builders.POD_DELETE, None, None, T0 + 1)
    assert queue_builders.pop_names(queue, T0 + 1) == ["refused"]
    queue.flush_backoff(T0 + 2)
    assert queue_builders.pop_names(queue, T0 + 2) == ["failed"]
    assert queue.pop(T0 + 3, 1) is None
    assert checks.violations == []


def _lose(queue: SchedulingQueue) -> None:
    queue_builders.pod(queue, "important").state = ACTIVE
    queue._active.take(1, T0, 0)


def _miscount(queue: SchedulingQueue) -> None:
    queue._transitions.refused_by["default-scheduler", "Fit"] += 1


def _forget_failure(queue: SchedulingQueue) -> None:
    queue_builders.pod(queue, "failed").consecutive_errors = 0


def _wait_for_long(queue: SchedulingQueue) -> None:
    queue_builders.pod(queue, "failed").state = BackOff(T0 + 60)


def _mix_up(queue: SchedulingQueue) -> None:
    queue_builders.pod(queue, "refused").rejectors = frozenset({"Taint"})


@pytest.mark.parametrize(
    ("mistake", "found"),
    [
        (_lose, "active are [] by mistake, ['ns/important'] are not"),
        (_miscount, "by plugin"),
        (_forget_failure, "pod ns/failed has failed by error, been refused and tried (0, 0, 1) times"),
        (_wait_for_long, f"pod ns/failed backs off until {T0 + 60}, not {T0 + 1}"),
        (_mix_up, "pod ns/refused waits with those of"),
    ],
)
def test_a_mistake_in_the_queue_is_found(
    checks: QueueChecks, mistake: Callable[[SchedulingQueue], None], found: str
) -> None:
    """If this fails, simulations miss it until a pod is lost for good."""
    queue = _queue()
    mistake(queue)
    queue.pop(T0, 1)
    assert any(found in text for text in checks.violations), checks.violations


@pytest.mark.parametrize("name", ["first", "second"])
def test_another_pod_than_the_first_is_found(checks: QueueChecks, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """If this fails, less important pods may go first."""
    queue = _queue()
    pod = queue_builders.pod(queue, name)
    if name == "second":
        queue_builders.pop_names(queue, T0)

    def take(*_: Any) -> list[Any]:
        assert pod.container is not None
        pod.container.discard(pod)
        return [pod]

    monkeypatch.setattr(scheduling_queue.ActiveQueue, "take", take)
    queue.pop(T0, 1)
    assert [text for text in checks.violations if f"ns/{name}" in text and "popped" in text]


@pytest.mark.parametrize("lost", [False, True])
def test_a_pod_that_does_not_back_off_is_found(
    checks: QueueChecks, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    """If this fails, simulations miss that failures are repeated at once."""
    if lost:
        monkeypatch.setattr(transitions.BackoffPolicy, "is_backing_off", lambda *_: False)
    queue = queue_builders.queue()
    queue.add(record("failed"), T0)
    queue_builders.fail(queue, T0)
    assert len(checks.violations) == lost


@pytest.mark.parametrize("how", list(GroupAttemptResult))
@pytest.mark.parametrize("wrong", [False, True])
def test_the_back_off_of_a_group_is_that_of_its_failures(
    checks: QueueChecks, monkeypatch: pytest.MonkeyPatch, how: GroupAttemptResult, wrong: bool
) -> None:
    """If this fails, groups that do not fit may be tried without end, or hardly ever."""
    if wrong:
        monkeypatch.setattr(transitions.BackoffPolicy, "duration", lambda *_: 7.0)
    queue = grouping_queue()
    assert queue.groups is not None
    queue.groups.set_group(pod_group("g", min_count=1), T0)
    queue.add(member("p", "g"), T0)
    batch: Any = queue.pop(T0, 8)
    (pod,) = batch.group.members.values()
    queue.requeue(pod, T0, rejectors=frozenset({"Fit"}))
    queue.groups.finish_attempt(batch.group, how, T0)
    assert len(checks.violations) == (wrong and how is not GroupAttemptResult.SCHEDULED)


def test_a_pod_that_is_tried_twice_is_found(checks: QueueChecks) -> None:
    """If this fails, a pod may be tried while it is being bound, and only time is lost."""
    queue = grouping_queue()
    assert queue.groups is not None
    queue.groups.set_group(pod_group("g", min_count=1), T0)
    queue.add(member("p", "g"), T0)
    batch: Any = queue.pop(T0, 8)
    queue.done("uid-p", T0)
    batch.group.waiting = dict(batch.group.members)  # as if they had not been taken out
    queue.groups.finish_attempt(batch.group, GroupAttemptResult.SCHEDULED, T0)
    queue.pop(T0, 8)
    assert any(text.endswith("pod ns/p is tried again, and no attempt has failed since") for text in checks.violations)


def test_a_member_of_a_group_in_two_places_is_found(checks: QueueChecks) -> None:
    """If this fails, a member may be tried twice at a time."""
    queue = grouping_queue()
    assert queue.groups is not None
    queue.groups.set_group(pod_group("g", min_count=1), T0)
    queue.add(member("p", "g"), T0)
    (group,) = queue.groups.registry
    group.pending |= group.waiting
    queue.pop(T0, 8)
    assert any("members ['uid-p'] are in ['uid-p', 'uid-p']" in text for text in checks.violations)
