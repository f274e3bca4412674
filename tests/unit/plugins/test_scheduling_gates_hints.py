"""What wakes pods that SchedulingGates refused."""

from tests.helpers.hint_answers import QUEUE, Hints, pod


def test_an_eliminated_gate_wakes_its_pod() -> None:
    """Else a pod sleeps on though its last gate is removed."""
    gone = "UpdatePodSchedulingGatesEliminated"
    gated = pod(schedulingGates=[{"name": "g"}])
    assert Hints("SchedulingGates").about(pod(), "TargetPod", gone, gated, pod()) == QUEUE
