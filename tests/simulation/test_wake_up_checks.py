"""A pod, or a group, that only the flush has woken is found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers import queue_builders
from tests.helpers.pod_group_builders import grouping_queue, member, pod_group
from tests.helpers.queue_builders import NODE_TAINT, POD_DELETE, T0
from tests.simulation.wake_up_checks import WakeUpChecks
from trireme.queueing import scheduling_queue
from trireme.queueing.groups import queue_groups
from trireme.queueing.scheduling_queue import SchedulingQueue
from trireme.scheduling import binding_cycle

_FLUSH = T0 + 330


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> WakeUpChecks:
    """They observe methods of the product, which are restored after the test."""
    for owner, name in (
        (scheduling_queue.SchedulingQueue, "on_event"),
        (binding_cycle.BindingCycle, "start"),
        (queue_groups.QueueGroups, "flush_unschedulable"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    return WakeUpChecks()


def _refused() -> SchedulingQueue:
    """A queue with a pod that a plugin has refused, which any new node and any pod that is gone would help."""
    queue = queue_builders.queue()
    queue.add(queue_builders.record("p"), T0)
    queue_builders.fail(queue, T0, "Fit")
    return queue


def _place(checks: WakeUpChecks, queue: SchedulingQueue, now: float) -> None:
    """The next pod is placed."""
    (pod,) = queue_builders.popped(queue, now)
    placed: Any = [SimpleNamespace(pod=pod)]
    checks._on_binding(SimpleNamespace(_queue=queue), None, placed)


def test_a_pod_that_only_the_flush_has_woken_is_named(checks: WakeUpChecks) -> None:
    """If this fails, a wake-up that is lost only makes a simulation longer."""
    queue = _refused()
    queue.flush_unschedulable(_FLUSH)
    _place(checks, queue, _FLUSH)
    assert checks.violations == [
        "pod ns/p is placed by an attempt that only the flush has caused: Fit refused it 330 s before, "
        "and there was no event since"
    ]


def test_the_events_that_woke_nothing_are_named(checks: WakeUpChecks) -> None:
    """If this fails, one has to look for what should have woken the pod."""
    queue = _refused()
    queue.on_event(NODE_TAINT, None, {"metadata": {"name": "node-7"}}, T0 + 5)
    queue.flush_unschedulable(_FLUSH)
    _place(checks, queue, _FLUSH)
    (text,) = checks.violations
    assert text.endswith(f"since then were 1 {NODE_TAINT.label}, the last: {NODE_TAINT.label} node-7")


@pytest.mark.parametrize("flushed", [False, True])
def test_an_event_wakes(checks: WakeUpChecks, flushed: bool) -> None:
    """If this fails, a simulation blames the flush for what an event did: before it, or right after."""
    queue = _refused()
    if flushed:
        queue.flush_unschedulable(_FLUSH)
    queue.on_event(POD_DELETE, None, None, _FLUSH + 1)
    _place(checks, queue, _FLUSH + 2)
    assert checks.violations == []


@pytest.mark.parametrize("lost", [False, True])
def test_a_group_that_only_the_flush_lets_go_is_named(checks: WakeUpChecks, lost: bool) -> None:
    """If this fails, simulations miss that what a group waits for is not noticed."""
    queue = grouping_queue()
    queue.groups.set_group(pod_group("g", min_count=2), T0)
    queue.add(member("p", "g"), T0)
    (group,) = queue.groups.registry
    if lost:
        group.known["g"] += 1  # and no event follows
    queue.flush_unschedulable(T0 + 30)
    assert checks.violations == ["podgroup/ns/g, which GangScheduling held back, was let go only by the flush"] * lost
