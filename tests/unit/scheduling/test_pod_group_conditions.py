"""The conditions and events of groups: each is written when it changes, and again if it did not arrive."""

from typing import Any

from tests.helpers.pod_group_builders import pod_group
from tests.helpers.pod_group_cluster import Cluster
from trireme.queueing.batch_key import GroupKey
from trireme.scheduling.groups import pod_group_conditions
from trireme.v1 import bind_pb2


def test_a_condition_is_written_when_it_changes_and_never_reverted() -> None:
    """Once a group has been scheduled, extra pods that do not fit say nothing of it."""
    clock = [5.0]
    conditions, written = _conditions(clock)
    group = pod_group("g", 2)
    group.metadata.generation = 3
    conditions.set_condition(group, "Unschedulable", "a")
    clock[0] = 6.0
    conditions.set_condition(group, "Unschedulable", "a")
    conditions.set_condition(group, "Unschedulable", "b")
    conditions.set_condition(group, "Scheduled", "")
    conditions.set_condition(group, "SchedulerError", "c")
    said = [action.set_group_condition.condition for action in written]
    assert [(each.status, each.message, each.last_transition_time.seconds) for each in said] == [
        ("False", "a", 5),
        ("False", "b", 5),
        ("True", "", 6),
    ]
    assert {(action.pod.uid, action.set_group_condition.condition.observed_generation) for action in written} == {
        ("uid-of-g", 3)
    }


def _conditions(
    clock: list[float], ahead: float = 0.0
) -> tuple[pod_group_conditions.PodGroupConditions, list[bind_pb2.Action]]:
    written: list[bind_pb2.Action] = []
    recorder: Any = None
    return pod_group_conditions.PodGroupConditions(
        lambda action, priority: written.append(action), recorder, lambda: clock[0], lambda: clock[0] + ahead
    ), written


def _reasons(written: list[bind_pb2.Action]) -> list[str]:
    return [action.set_group_condition.condition.reason for action in written]


def test_a_removed_condition_is_written_again() -> None:
    """What counts is what the group shows: a group that is set back would never be said to wait, or to be scheduled."""
    conditions, written = _conditions([5.0])
    group = pod_group("g", 2)
    group.metadata.resource_version = "1"
    conditions.set_condition(group, "Scheduled", "")
    group.metadata.resource_version = "2"
    group.status.conditions.append(written[0].set_group_condition.condition)
    conditions.set_condition(group, "Unschedulable", "a")
    group.metadata.resource_version = "3"
    group.status.ClearField("conditions")
    conditions.set_condition(group, "Unschedulable", "a")
    assert _reasons(written) == ["Scheduled", "Unschedulable"]


def test_the_condition_of_a_group_that_is_scheduled_again_names_its_generation() -> None:
    conditions, written = _conditions([5.0])
    group = pod_group("g", 2)
    for group.metadata.generation in (3, 3, 4):
        conditions.set_condition(group, "Scheduled", "")
    assert [action.set_group_condition.condition.observed_generation for action in written] == [3, 4]


def test_a_condition_that_never_arrived_is_written_again() -> None:
    """A write that failed would leave the group without a condition for good; one that is under way is not repeated."""
    clock = [5.0]
    conditions, written = _conditions(clock, ahead=1e9)
    for clock[0] in (5.0, 6.0, 16.0):
        conditions.set_condition(pod_group("g", 2), "Scheduled", "")
    assert _reasons(written) == ["Scheduled", "Scheduled"]
    times = {action.set_group_condition.condition.last_transition_time.seconds for action in written}
    assert times == {10**9 + 5, 10**9 + 16}, "what is written is by the wall clock"


class _Recorder:
    """Remembers events."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, str, str, str]] = []

    def record(self, regarding: Any, kind: str, reason: str, action: str, note: str, controller: str) -> None:
        self.told.append((regarding.kind, regarding.name, kind, reason, note))


def test_missing_members_and_missing_pod_groups_are_reported() -> None:
    """A gang with too few pods tells it of its PodGroup; pods without a PodGroup are told themselves."""
    recorder: Any = _Recorder()
    unread_clock = float
    conditions = pod_group_conditions.PodGroupConditions(
        lambda action, priority: None, recorder, unread_clock, unread_clock
    )
    cluster = Cluster([9])
    cluster.group(pod_group("g", 3))
    for group in ("g", "lost"):
        for number in range(2):
            cluster.add(f"{group}{number}", group)
    for key in ("ns/g", "ns/lost"):
        state = cluster.queue.groups.registry.get(GroupKey(key))
        assert state is not None
        conditions.record_waiting(state, "for PodGroup ns/lost to appear")
    lost = "waiting for PodGroup ns/lost to appear"
    assert recorder.told == [
        ("PodGroup", "g", "Warning", "WaitingForPods", "waiting for minCount (3) pods to appear: 2 are there"),
        ("Pod", "lost0", "Warning", "WaitingForPodGroup", lost),
        ("Pod", "lost1", "Warning", "WaitingForPodGroup", lost),
    ]
