"""What wakes pods that DefaultPreemption refused."""

from tests.helpers.hint_answers import SKIP, Hints, pod


def test_a_pod_that_ends_does_not_wake_preemptors() -> None:
    assert Hints("DefaultPreemption").about(pod(), "AssignedPod", "Delete", pod("q"), None) == SKIP
