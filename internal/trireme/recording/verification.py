"""Reads recordings from beginning to end, and says what they hold, what is missing, and what is damaged.

Also change: internal/trireme/cli/replay_run.py (what a torn file is).

Tests: tests/unit/cli/test_record_command.py, tests/unit/cli/test_altered_recordings.py.
"""

import os
import pathlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from trireme.recording import decision_numbers, frame_times, frame_totals, segment_folder, segment_reader
from trireme.recording.segment_reader import RecordingError
from trireme.v1 import decision_pb2, recording_pb2, snapshot_pb2


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which it is not certain what was. Units: nanoseconds since 1970; recording went on at the end."""

    file: str
    begin_ns: int
    end_ns: int
    reason: frame_times.Reason
    #: How many insight counted; 0: not known, as where insight was started again.
    dropped_messages: int


@dataclass(frozen=True, slots=True)
class TornTail:
    """The end of a file that is no whole frame: its writer crashed, or is still writing."""

    file: str
    offset: int
    size: int


@dataclass(slots=True)
class Summary:
    """What was read."""

    files: int = 0
    totals: frame_totals.FrameTotals = field(default_factory=frame_totals.FrameTotals)
    #: Received: those of full states are counted as frames alone.
    deltas: int = 0
    queue_deltas: int = 0
    streams: int = 0
    decisions: int = 0
    #: Reports of pods that were placed or bound, which are numbered among the decisions.
    bindings: int = 0
    #: Not recorded, by the numbers of the others, those in gaps included.
    missing_decisions: int = 0
    #: Gaps in which more decisions may be missing.
    uncounted_gaps: int = 0
    releases: list[str] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    torn: list[TornTail] = field(default_factory=list)
    problems: list[RecordingError] = field(default_factory=list)


def verify(path: pathlib.Path) -> Summary:
    """Read a file, or the segments of a folder.

    Insight may be writing to a folder, and may have crashed: a segment there is torn at any byte, as long as anything
    can be read. A file that was named has a full state. Raises: OSError where it cannot be read, or is empty of
    segments.
    """
    folder = path.is_dir()
    if folder:
        files: Sequence[pathlib.Path] = [segment.path for segment in segment_folder.list_segments(path)]
        if not files:
            raise FileNotFoundError(f"{path}: there are no recordings{segment_folder.describe_inner_folders(path)}")
    else:
        files = [path]
    summary, before, sequence = Summary(), None, _Sequence()
    for file in files:
        try:
            before = _verify_file(file, before, summary, sequence, torn_at_will=folder)
        except FileNotFoundError:
            if not folder:
                raise
            before = None  # insight has deleted it since the folder was listed
    summary.missing_decisions, summary.uncounted_gaps = sequence.numbers.missing, sequence.numbers.uncounted_gaps
    summary.gaps = [
        Gap(str(files[gap.place[0] - 1]), gap.from_ns, gap.to_ns, gap.reason, gap.dropped_messages)
        for gap in sequence.times.gaps(0)
    ]
    if not summary.totals.frames and not summary.problems:
        summary.problems.append(RecordingError(str(files[-1]), 0, "no file of this folder has a whole frame"))
    return summary


@dataclass(frozen=True, slots=True)
class ReadSegment:
    """A segment that was read: its header, and whether it was read to its end."""

    header: recording_pb2.RecordingHeader
    complete: bool


def follows(header: recording_pb2.RecordingHeader, before: ReadSegment | None) -> bool:
    """Whether nothing is missing between the segment before and the one with this header."""
    return (
        before is not None
        and before.complete
        and header.continuous
        and header.instance == before.header.instance
        and header.segment == before.header.segment + 1
    )


class _Sequence:
    """The frames of all files in order, in which only some are full states."""

    def __init__(self) -> None:
        self.numbers = decision_numbers.DecisionNumbers()
        self.times = frame_times.FrameTimes()
        self._file = self._frame = 0
        self._skips_state = False

    def begin(self, header: recording_pb2.RecordingHeader, before: ReadSegment | None) -> None:
        """The next file has this header, and the one before it is `before`, if that could be read."""
        self._file, self._frame = self._file + 1, 0
        self._skips_state = follows(header, before)
        if self._file > 1 and not self._skips_state:
            gap = recording_pb2.RecordingGap(dropped_messages=header.dropped_messages)
            self.take(recording_pb2.RecordedFrame(unix_time_ns=header.start_unix_ns, gap=gap))
        self.numbers.begin_stream(header.hello.fence)

    def pass_over(self) -> None:
        """The next file has no header."""
        self._file += 1

    def take(self, frame: recording_pb2.RecordedFrame) -> list[decision_pb2.Decision]:
        """Take the next frame of the file; returns its decisions. Raises: ValueError: one cannot be decoded."""
        self._frame += 1
        if not (frame.state_part and self._skips_state):
            self.times.add((self._file, self._frame), frame)
        return self.numbers.take(frame)


def _verify_file(
    path: pathlib.Path,
    before: ReadSegment | None,
    summary: Summary,
    sequence: _Sequence,
    *,
    torn_at_will: bool,
) -> ReadSegment | None:
    """Read a file, and add to the summary and to the sequence what it holds.

    `torn_at_will`: also if it ends within its header or its full state, that is no problem. Raises: OSError.
    """
    with path.open("rb") as file:
        summary.files += 1
        reader = None
        try:
            reader = segment_reader.SegmentReader(file, str(path))
            header = reader.header
            if header is not None:
                if header.release not in summary.releases:
                    summary.releases.append(header.release)
                sequence.begin(header, before)
            elif not torn_at_will:
                size = os.fstat(file.fileno()).st_size
                text = "the file ends within its header" if size else "the file is empty"
                raise RecordingError(str(path), 0, f"{text}: nothing can be read")
            _verify_frames(reader, str(path), summary, sequence, torn_at_will=torn_at_will)
        except RecordingError as error:
            summary.problems.append(error)
        # Insight may have written to it while it was read.
        size = os.fstat(file.fileno()).st_size
        summary.totals.size += size
        if reader is None or reader.header is None:
            header = None
            sequence.pass_over()
        if reader is not None and reader.torn_at is not None:
            summary.torn.append(TornTail(str(path), reader.torn_at, size - reader.torn_at))
        return None if reader is None or header is None else ReadSegment(header, reader.ended)


def _verify_frames(
    reader: segment_reader.SegmentReader,
    file: str,
    summary: Summary,
    sequence: _Sequence,
    *,
    torn_at_will: bool,
) -> None:
    """Read the frames, and check that each delta begins where the one before it ended. Raises: RecordingError."""
    generation: int | None = None
    state_complete = False
    for frame, offset in _frames_with_offsets(reader):
        summary.totals.add(frame)
        content, received = frame.WhichOneof("content"), not frame.state_part
        try:
            decisions = sequence.take(frame)
        except ValueError as error:
            raise RecordingError(file, offset, str(error)) from error
        if content != "message":
            continue
        if received and not state_complete:
            raise RecordingError(file, offset, "a message precedes the full state")
        state_complete |= frame.state_part == recording_pb2.STATE_PART_LAST
        _count_message(frame.message, summary, received=received)
        reports = sum(map(decision_numbers.is_report, decisions))
        summary.bindings += reports
        summary.decisions += len(decisions) - reports
        if frame.message.WhichOneof("message") == "delta":
            delta = frame.message.delta
            if not delta.reset and delta.from_generation != generation:
                text = f"a delta from generation {delta.from_generation} is behind generation {generation}"
                raise RecordingError(file, offset, text)
            generation = delta.to_generation
    if reader.header is not None and reader.header.segment == 0 and not reader.ended:
        # It appeared once it was whole.
        raise RecordingError(file, reader.offset, "the exported file ends here; it was not copied whole")
    if reader.header is not None and not state_complete and not (torn_at_will and reader.torn_at is not None):
        raise RecordingError(file, reader.offset, "the file ends before its full state is complete")


def _frames_with_offsets(
    reader: segment_reader.SegmentReader,
) -> Iterator[tuple[recording_pb2.RecordedFrame, int]]:
    """Yield each frame with where it begins. Raises: RecordingError."""
    offset = reader.offset
    for frame in reader.frames():
        yield frame, offset
        offset = reader.offset


def _count_message(message: snapshot_pb2.SyncRequest, summary: Summary, *, received: bool) -> None:
    """Add a message to the summary, if it was received."""
    if not received:
        return
    kind = message.WhichOneof("message")
    summary.deltas += kind == "delta"
    summary.queue_deltas += kind == "queue"
    summary.streams += kind == "hello"
