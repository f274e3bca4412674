"""As of when frames are shown, whatever the clock was that gave them their times."""

import itertools

import hypothesis
import pytest
from hypothesis import strategies

from tests.helpers.recordings import BEGIN, SECOND, delta_frame
from trireme.recording import frame_times
from trireme.rpc import stream_age
from trireme.v1 import recording_pb2, scheduler_status_pb2, snapshot_pb2


def added(*seconds: float) -> frame_times.FrameTimes:
    """The times of frames of these seconds after BEGIN, in this order."""
    times = frame_times.FrameTimes()
    for number, second in enumerate(seconds):
        times.add((1, number), delta_frame(2, BEGIN + round(second * SECOND)))
    return times


def shown(*seconds: float) -> list[float]:
    """As of when each of them is shown."""
    times = added(*seconds)
    return [
        (times.of((1, number), BEGIN + round(second * SECOND)) - BEGIN) / SECOND
        for number, second in enumerate(seconds)
    ]


def gaps(*seconds: float) -> list[tuple[float, float]]:
    """Where it is uncertain what was."""
    return [((gap.from_ns - BEGIN) / SECOND, (gap.to_ns - BEGIN) / SECOND) for gap in added(*seconds).gaps(0)]


def test_what_a_clock_that_was_ahead_said_is_shown_once_it_is_right() -> None:
    """It would hide what follows, or be shown in the future."""
    assert shown(1, 3602, 3603, 10, 11) == [1, 10, 10, 10, 11]
    assert gaps(1, 3602, 3603, 10, 11) == [(1, 10)]
    # Ahead for longer than by how much: where that began cannot be told from the times.
    assert shown(1, 3700, 3750, 3720, 3800) == [1, 3700, 3720, 3720, 3800]
    assert gaps(1, 3700, 3750, 3720, 3800) == [(3720, 3750)]


def test_steps_that_outdo_each_other_are_one() -> None:
    """A frame would be later than one behind it."""
    assert shown(1, 50, 40, 60, 20, 70) == [1, 20, 20, 20, 20, 70]
    assert shown(1, 50, 20, 60, 40, 70) == [1, 20, 20, 40, 40, 70]


def test_what_an_adjustment_of_the_clock_moves_is_no_step() -> None:
    """States would be made anew for each millisecond."""
    times = added(1, 1.9, 1.2, 1.5, 2)
    assert (times.changes, times.gaps(0)) == (0, [])
    # Also where many add up.
    assert added(*(10 - 0.3 * number for number in range(9))).changes == 2


@hypothesis.given(strategies.lists(strategies.integers(0, 10_000).map(lambda number: 2 * number), min_size=1))
def test_times_ascend_and_each_is_the_least_of_those_behind_it(seconds: list[int]) -> None:
    """What is recorded would be hidden, or be shown before it was."""
    found = shown(*seconds)
    assert found == [min(seconds[number:]) for number in range(len(seconds))]
    assert all(before <= behind for before, behind in itertools.pairwise(found))


HELLO = snapshot_pb2.SyncRequest(hello=snapshot_pb2.Hello())
STATUS = snapshot_pb2.SyncRequest(queue=snapshot_pb2.QueueDelta())
PREEMPTED = snapshot_pb2.SyncRequest(
    queue=snapshot_pb2.QueueDelta(scheduler_status=scheduler_status_pb2.SchedulerStatus())
)
DECIDED = snapshot_pb2.SyncRequest(queue=snapshot_pb2.QueueDelta(), decisions=[b""])
QUEUED = snapshot_pb2.SyncRequest(queue=snapshot_pb2.QueueDelta(removed_pods=["u"]))


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param([(1, STATUS), (36, STATUS)], [(1, 36)], id="frozen"),
        pytest.param([(1, PREEMPTED), (36, QUEUED)], [(1, 36)], id="frozen-after-a-preemption"),
        pytest.param([(1, STATUS), (36, STATUS), (41, HELLO)], [(1, 36), (36, 41)], id="frozen-and-replaced"),
        pytest.param([(1, STATUS), (6, STATUS)], [], id="as-long-as-insight-waits"),
        pytest.param([(1, QUEUED), (36, DECIDED)], [], id="a-frontend-without-a-status"),
        pytest.param([(1, STATUS), (2, HELLO), (36, QUEUED)], [], id="followed-by-one-without"),
    ],
)
def test_a_stream_that_was_silent_for_too_long_is_a_gap(
    messages: list[tuple[int, snapshot_pb2.SyncRequest]], expected: list[tuple[float, float]]
) -> None:
    """What a frozen frontend sent last would be shown as certain for as long as it was frozen."""
    times = frame_times.FrameTimes()
    for number, (second, message) in enumerate(messages):
        frame = recording_pb2.RecordedFrame(unix_time_ns=BEGIN + second * SECOND, message=message)
        times.add((1, number), frame)
    found = [((gap.from_ns - BEGIN) / SECOND, (gap.to_ns - BEGIN) / SECOND, gap.reason) for gap in times.gaps(0)]
    assert found == [(*each, frame_times.Reason.NO_STREAM) for each in expected]


def test_insight_waits_as_long_for_a_stream() -> None:
    """A recording would say otherwise than insight did at that time."""
    assert frame_times._STATUS_SILENCE_NS == stream_age.SILENT_SECONDS * SECOND
