"""As of when the frames of a recording are shown, and between which times it does not say what was.

Frames are in the order in which they were recorded, but their times are of a wall clock, which may be set back. So each
frame is shown as of the least of its own time and the times of all frames behind it: what was recorded while the clock
was ahead is shown as of the moment at which it was set back, and nothing is left out. Where it was set back only to
be set forward again, more is shown as of that moment. The times about it are named as uncertain.

Also change: console/src/documents.ts, console/src/recording.tsx,
internal/trireme/cli/explain_command.py (causes of gaps).

Tests: tests/unit/recording/test_frame_times.py, tests/unit/cli/test_replay_command.py.
"""

import bisect
import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from trireme.recording import segment_reader
from trireme.v1 import recording_pb2

Place: TypeAlias = tuple[int, int]
"""Where a frame stands: the number of its segment, and its number in it."""

# A clock is adjusted by less than this all the time: order within it is not looked at.
_STEP_NS = 1_000_000_000
# Frames may be so far apart because nothing happens, or because the clock was set forward.
_JUMP_NS = 60_000_000_000
# For so long nothing need come from a frontend; more before a stream begins is a time without one, perhaps.
_SILENCE_NS = 3_000_000_000
# A frontend that sends its status once a second is silent if it sends nothing for so long, as for insight
# (`rpc.stream_age`).
_STATUS_SILENCE_NS = 5_000_000_000


class Reason(enum.Enum):
    """Why it is not known what was in a span of time."""

    NOT_RECORDED = "notRecorded"
    NO_STREAM = "noStream"
    CLOCK_SET_BACK = "clockSetBack"


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which what is shown may not be what was. Units: nanoseconds since 1970; neither end is in it."""

    from_ns: int
    to_ns: int
    reason: Reason
    #: Where recording went on.
    place: Place = (0, 0)
    #: How many messages insight counted that are missing; 0: none, or not known.
    dropped_messages: int = 0


@dataclass(frozen=True, slots=True)
class _Silence:
    """Two frames that follow each other, with their own times, and why nothing is between them."""

    before: tuple[Place, int]
    behind: tuple[Place, int]
    reason: Reason
    dropped_messages: int = 0


class FrameTimes:
    """`add` each frame in the order of the recording; `of` says as of when it is shown.

    That of frames before changes where the clock was set back: `changes` counts how often.
    """

    def __init__(self) -> None:
        self.changes = 0
        self.frames = 0
        #: Up to when frames reach.
        self.end_ns = 0
        # The first one.
        self._first: tuple[Place, int] | None = None
        # Where the clock was set back, and to when; both ascend, as a later step to before an earlier one outdoes it.
        self._steps: list[tuple[Place, int]] = []
        self._set_back: list[Gap] = []
        self._jumps: list[tuple[int, int]] = []
        self._silences: list[_Silence] = []
        self._last: tuple[Place, int] | None = None
        # Whether the frontend of the stream sends its status once a second.
        self._is_regular = False

    def add(self, place: Place, frame: recording_pb2.RecordedFrame) -> None:
        """The next frame stands at this place. One that ends a file holds nothing, and has no time of its own."""
        if frame.WhichOneof("content") == "end":
            return
        time_ns = frame.unix_time_ns
        self.frames += 1
        self._first = self._first or (place, time_ns)
        if self._last is not None:
            self._note_silence(self._last, (place, time_ns), frame)
        self._note_status(frame)
        if self._last is not None:
            if time_ns <= self.end_ns - _STEP_NS:
                self._step_back(place, time_ns)
            elif time_ns > self.end_ns + _JUMP_NS:
                self._jumps.append((self.end_ns, time_ns))
        self.end_ns = max(self.end_ns, time_ns)
        self._last = place, self.end_ns

    @property
    def begin_ns(self) -> int:
        """As of when the first frame is shown; 0: there is none."""
        return 0 if self._first is None else self.of(*self._first)

    def of(self, place: Place, time_ns: int) -> int:
        """As of when the frame at this place is shown, whose own time this is."""
        later = bisect.bisect_right(self._steps, place, key=lambda step: step[0])
        return min(time_ns, self._steps[later][1]) if later < len(self._steps) else time_ns

    def gaps(self, from_ns: int) -> Sequence[Gap]:
        """All that end after a time, in the order of their beginnings."""
        found = [
            Gap(self.of(*each.before), self.of(*each.behind), each.reason, each.behind[0], each.dropped_messages)
            for each in self._silences
        ]
        later = (
            gap
            for gap in (*found, *self._set_back)
            # Messages may be missing of no time at all, as by the clock.
            if gap.to_ns > from_ns and (gap.to_ns > gap.from_ns or gap.reason is Reason.NOT_RECORDED)
        )
        return sorted(later, key=lambda gap: (gap.from_ns, gap.to_ns))

    def gap_at(self, time_ns: int) -> Gap | None:
        """The one that a moment is in, what is not recorded before what is uncertain; None: it is in none."""
        return gap_of(self.gaps(time_ns), time_ns)

    def _note_silence(
        self, before: tuple[Place, int], behind: tuple[Place, int], frame: recording_pb2.RecordedFrame
    ) -> None:
        """Note where nothing was recorded before a frame."""
        if frame.WhichOneof("content") == "gap":
            self._silences.append(_Silence(before, behind, Reason.NOT_RECORDED, frame.gap.dropped_messages))
            return
        if frame.state_part:
            return
        begins = frame.message.WhichOneof("message") == "hello"
        silent = _SILENCE_NS if begins else _STATUS_SILENCE_NS
        if (begins or self._is_regular) and behind[1] - before[1] > silent:
            self._silences.append(_Silence(before, behind, Reason.NO_STREAM))

    def _note_status(self, frame: recording_pb2.RecordedFrame) -> None:
        """Note whether the frontend sends its status; only its arrival is recorded."""
        message = frame.message
        if message.WhichOneof("message") == "hello":
            self._is_regular = False
        elif message.WhichOneof("message") == "queue" and not frame.state_part:
            changes = bool(message.queue.pods or message.queue.removed_pods or message.queue.reset)
            sends_decisions = bool(message.decisions)
            self._is_regular |= message.queue.HasField("scheduler_status") or not (changes or sends_decisions)

    def _step_back(self, place: Place, time_ns: int) -> None:
        """From this frame on the clock is behind what it was."""
        self.changes += 1
        while self._steps and self._steps[-1][1] >= time_ns:
            self._steps.pop()
        self._steps.append((place, time_ns))
        # Where it had been set forward from before this time, the times between were of no frame since.
        ahead = next((jump for jump in reversed(self._jumps) if jump[0] < time_ns < jump[1]), None)
        span = (time_ns, self.end_ns) if ahead is None else (ahead[0], time_ns)
        self._set_back.append(Gap(*span, Reason.CLOCK_SET_BACK, place))
        self._jumps = [jump for jump in self._jumps if jump[0] < time_ns and jump is not ahead]
        self.end_ns = time_ns


def gap_of(gaps: Sequence[Gap], time_ns: int) -> Gap | None:
    """The gap that a moment is in, what is not recorded before what is uncertain; None: it is in none."""
    inside = [gap for gap in gaps if gap.from_ns < time_ns < gap.to_ns]
    return min(inside, key=lambda gap: gap.reason is Reason.CLOCK_SET_BACK, default=None)


def of_file(reader: segment_reader.SegmentReader) -> FrameTimes:
    """The times of all frames of a file, which are numbered from 1 in segment 0. Raises: RecordingError, OSError."""
    times = FrameTimes()
    for number, frame in enumerate(reader.frames(), start=1):
        times.add((0, number), frame)
    return times


def frames_of_file(reader: segment_reader.SegmentReader, times: FrameTimes) -> Iterator[recording_pb2.RecordedFrame]:
    """Yield the frames of a file, each with the time that it shows; `times` is as of `of_file`.

    Raises: RecordingError, OSError.
    """
    for number, frame in enumerate(reader.frames(), start=1):
        frame.unix_time_ns = times.of((0, number), frame.unix_time_ns)
        yield frame
