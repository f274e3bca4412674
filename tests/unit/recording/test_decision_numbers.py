"""DecisionNumbers: how many decisions a recording lacks, also those that it lacks wholly."""

from collections.abc import Sequence

import pytest

from trireme.recording import decision_numbers
from trireme.v1 import cycle_pb2, decision_pb2, recording_pb2, snapshot_pb2


def leader(epoch: int) -> snapshot_pb2.SyncRequest:
    """The first message of a stream."""
    fence = cycle_pb2.Fence(scheduler_id="s", epoch=epoch)
    return snapshot_pb2.SyncRequest(hello=snapshot_pb2.Hello(fence=fence))


def frame(content: int | tuple[str, int]) -> recording_pb2.RecordedFrame:
    """A decision of this number, a gap with so many messages dropped, or a stream of the leader of an epoch."""
    if isinstance(content, int):
        decision = decision_pb2.Decision(number=content).SerializeToString()
        return recording_pb2.RecordedFrame(message=snapshot_pb2.SyncRequest(decisions=[decision]))
    kind, number = content
    if kind == "gap":
        return recording_pb2.RecordedFrame(gap=recording_pb2.RecordingGap(dropped_messages=number))
    return recording_pb2.RecordedFrame(message=leader(number))


@pytest.mark.parametrize(
    ("contents", "missing", "uncounted"),
    [
        pytest.param([3, 4, 5], 0, 0, id="whole"),
        pytest.param([3, 6], 2, 0, id="dropped-by-the-frontend"),
        pytest.param([3, ("gap", 9), ("leader", 1), 124], 120, 0, id="in-a-gap"),
        pytest.param([3, ("gap", 9), ("leader", 1), ("gap", 2), ("leader", 1), 10], 6, 0, id="in-two-gaps"),
        pytest.param([3, ("gap", 0), ("leader", 1), 5], 1, 1, id="insight-did-not-run"),
        pytest.param([3, ("gap", 0), ("leader", 1), 4], 0, 1, id="numbers-stood-still-meanwhile"),
        pytest.param([3, ("gap", 9), ("leader", 2), 1], 0, 1, id="another-leader-behind-the-gap"),
        pytest.param([3, ("gap", 9), ("leader", 1), ("leader", 2), 1], 0, 1, id="another-leader-later"),
        pytest.param([("gap", 9), ("leader", 1), 7], 0, 1, id="nothing-before-the-gap"),
        pytest.param([3, ("gap", 9), ("leader", 1)], 0, 1, id="nothing-behind-the-gap"),
        pytest.param([3, ("leader", 1), 5], 1, 0, id="the-stream-began-anew"),
        pytest.param([3, ("leader", 2), 1, 2], 0, 0, id="another-leader"),
    ],
)
def test_decisions_that_are_not_recorded_are_counted(
    contents: Sequence[int | tuple[str, int]], missing: int, uncounted: int
) -> None:
    """An incident that is not in the file would seem to be decided right."""
    numbers = decision_numbers.DecisionNumbers(cycle_pb2.Fence(scheduler_id="s", epoch=1))
    for content in contents:
        numbers.take(frame(content))
    assert (numbers.missing, numbers.uncounted_gaps) == (missing, uncounted)
