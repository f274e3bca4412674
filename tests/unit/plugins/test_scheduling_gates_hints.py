"""What wakes pods that SchedulingGates refused."""

from tests.helpers.hint_answers import QUEUE, Hints, pod


def test_an_eliminated_gate_wakes_its_pod() -> None:
    gone = "UpdatePodSchedulingGatesEliminated"
    gated = pod(schedulingGates=[{"name": "g"}])
    assert Hints("SchedulingGates").about(pod(), "TargetPod", gone, gated, pod()) == QUEUE
