"""Joins the segments of a folder to one file that begins with a full state.

Between segments with nothing missing between them the later one's full state says nothing new, and is left out. At a
gap, a frame that says so precedes it.
"""

import os
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from trireme.recording import segment_folder, segment_format, segment_reader, verification
from trireme.v1 import recording_pb2, snapshot_pb2


class NothingToExportError(Exception):
    """The folder has no segment with a full state from the time requested."""


@dataclass(slots=True)
class Exported:
    """What was written. Units: times in nanoseconds since 1970, size in bytes."""

    frames: int = 0
    gaps: int = 0
    begin_ns: int = 0
    end_ns: int = 0
    size: int = 0
    #: What was wrong with segments, which are in the file as far as they can be read.
    problems: list[segment_reader.RecordingError] = field(default_factory=list)


def export(folder: pathlib.Path, target: pathlib.Path, since_ns: int) -> Exported:
    """Write to `target` what the folder has from the last segment on that begins before `since_ns`.

    `target` appears once it is whole. Raises: OSError, NothingToExportError.
    """
    segments = _segments_since(segment_folder.segments(folder), since_ns)
    partial = target.with_name(f".{target.name}.partial")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        with open(os.open(partial, flags, 0o600), "wb") as file:  # noqa: PTH123  # with the mode of its making
            joined = _Joined(file)
            for segment in segments:
                joined.add(segment.path)
            joined.end()
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    joined.result.size = target.stat().st_size
    return joined.result


def _segments_since(segments: Sequence[segment_folder.Segment], since_ns: int) -> Sequence[segment_folder.Segment]:
    """The segments from the last one on that begins before that time and can be read from; all if none does."""
    usable = [segment for segment in segments if _has_full_state(segment.path)]
    if not usable:
        raise NothingToExportError("there is no recording with a full state")
    first = usable[0]
    for segment in usable:
        if segment.start_ns <= since_ns:
            first = segment
    return [segment for segment in usable if segment.number >= first.number]


def _has_full_state(path: pathlib.Path) -> bool:
    """Whether a reader can begin with the segment; not where its writer crashed at its beginning. Raises: OSError."""
    try:
        with path.open("rb") as file:
            for frame in segment_reader.SegmentReader(file, str(path)).frames():
                if frame.state_part == recording_pb2.STATE_PART_LAST:
                    return True
    except (segment_reader.RecordingError, FileNotFoundError):
        return False
    return False


class _Joined:
    """The file that is being written."""

    def __init__(self, file: BinaryIO) -> None:
        self.result = Exported()
        self._file = file
        self._encoder: segment_format.FrameEncoder | None = None
        self._before: verification.ReadSegment | None = None
        self._last_ns = 0

    def add(self, path: pathlib.Path) -> None:
        """Add a segment, as far as it can be read. Raises: OSError."""
        try:
            with path.open("rb") as file:
                reader = segment_reader.SegmentReader(file, str(path))
                header = reader.header
                assert header is not None  # it has a full state
                self._add_frames(reader, header)
        except FileNotFoundError:
            return  # insight has deleted it since; the next one begins with a gap
        except segment_reader.RecordingError as error:
            self.result.problems.append(error)
            return
        self._before = verification.ReadSegment(header, reader.ended)

    def end(self) -> None:
        """Write the frame that ends the file."""
        if self._encoder is None:
            raise NothingToExportError("the recordings were deleted meanwhile")
        end = recording_pb2.RecordedFrame(unix_time_ns=self._last_ns, end=recording_pb2.RecordingEnd())
        self._file.write(self._encoder.encode(end.SerializeToString()))

    def _add_frames(self, reader: segment_reader.SegmentReader, header: recording_pb2.RecordingHeader) -> None:
        """Add the frames of a segment; those of its full state where it is the first, or behind a gap."""
        with_state = not verification.follows(header, self._before)
        # Until it is read to its end, the segment after it begins with a gap.
        self._before = None
        if self._encoder is None:
            self._begin(header)
        elif with_state:
            self._add_gap(header)
        for frame in reader.frames():
            if frame.WhichOneof("content") == "end" or (frame.state_part and not with_state):
                continue
            self._write(frame)

    def _begin(self, header: recording_pb2.RecordingHeader) -> None:
        """Write the header."""
        own = recording_pb2.RecordingHeader()
        own.CopyFrom(header)
        own.segment = own.dropped_messages = 0
        own.continuous = False
        content = segment_format.encode_header(own)
        self._file.write(content)
        self._encoder = segment_format.FrameEncoder(content)

    def _add_gap(self, header: recording_pb2.RecordingHeader) -> None:
        """Write that messages are missing, and the configuration behind the gap."""
        gap = recording_pb2.RecordingGap(dropped_messages=header.dropped_messages)
        self._write(recording_pb2.RecordedFrame(unix_time_ns=header.start_unix_ns, gap=gap))
        self.result.gaps += 1
        self._write(
            recording_pb2.RecordedFrame(
                unix_time_ns=header.start_unix_ns,
                state_part=recording_pb2.STATE_PART_MORE,
                message=snapshot_pb2.SyncRequest(hello=header.hello),
            )
        )

    def _write(self, frame: recording_pb2.RecordedFrame) -> None:
        """Write a frame."""
        assert self._encoder is not None
        self._file.write(self._encoder.encode(frame.SerializeToString()))
        self.result.frames += 1
        self.result.begin_ns = self.result.begin_ns or frame.unix_time_ns
        self.result.end_ns = self._last_ns = frame.unix_time_ns
