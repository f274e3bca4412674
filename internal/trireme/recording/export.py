"""Joins the segments of a folder to one file that begins with a full state (`joining`).

Also change: docs/recording.md.

Tests: tests/unit/cli/test_record_command.py, tests/unit/recording/test_segment_folder.py,
tests/unit/recording/test_redaction.py.
"""

import contextlib
import os
import pathlib
import secrets
import tempfile
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from trireme.recording import (
    decision_numbers,
    frame_times,
    frame_totals,
    joining,
    private_files,
    redaction,
    segment_folder,
    segment_format,
    segment_reader,
)
from trireme.v1 import recording_pb2
from trireme_kube.componentbase import replaceable_files


class NothingToExportError(Exception):
    """The folder has no segment with a full state from the time requested."""


@dataclass(slots=True)
class Exported:
    """What was written."""

    totals: frame_totals.FrameTotals = field(default_factory=frame_totals.FrameTotals)
    gaps: int = 0
    #: Not recorded, by the numbers of the others, and the gaps in which more may be missing.
    missing_decisions: int = 0
    uncounted_gaps: int = 0
    #: What was wrong with segments, which are in the file as far as they can be read.
    problems: list[segment_reader.RecordingError] = field(default_factory=list)


def export(
    folder: pathlib.Path, target: pathlib.Path, since_ns: int, *, redact: bool = False, in_tree: Container[str] = ()
) -> Exported:
    """Write a file, as `export_to` does; it appears once it is whole.

    Raises: OSError, also where `target` is a device or the like; NothingToExportError; ValueError, as `export_to`.
    """
    target = replaceable_files.resolve(target)
    # Another export to this target may be running.
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        with private_files.create(partial, buffered=True) as file:
            result = export_to(folder, file, since_ns, redact=redact, in_tree=in_tree, scratch=target.parent)
            os.fsync(file.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return result


def export_to(
    folder: pathlib.Path,
    out: BinaryIO,
    since_ns: int,
    *,
    redact: bool = False,
    in_tree: Container[str] = (),
    scratch: pathlib.Path | None = None,
) -> Exported:
    """Write what the folder has from the last full state on that is from before `since_ns`; needs no more than `write`.

    With `redact`, names and labels are replaced (`redaction`), and arguments left out but for plugins `in_tree`. What
    is read twice for that is in a file without a name in the folder `scratch` (None: that for temporary files).

    Raises: OSError, NothingToExportError; ValueError for what `redact` cannot decode.
    """
    segments = segment_folder.list_segments(folder)
    if not redact:
        return _write_joined(segments, since_ns, out)
    with tempfile.TemporaryFile(dir=scratch) as joined:
        result = _write_joined(segments, since_ns, joined)
        result.totals.size = _write_redacted(joined, out, in_tree)
    return result


def _write_joined(segments: Sequence[segment_folder.Segment], since_ns: int, out: BinaryIO) -> Exported:
    """Write the segments as one recording. Raises: OSError, NothingToExportError."""
    joined = _Joined(out)
    _join(joined, segments, since_ns)
    joined.end()
    out.flush()
    return joined.result


def _write_redacted(joined: BinaryIO, out: BinaryIO, in_tree: Container[str]) -> int:
    """Write a recording with its names replaced: all are collected before the first is replaced. Returns the bytes.

    Raises: OSError, ValueError.
    """
    names = redaction.Names(in_tree)
    for message in _messages(joined):
        names.add(message)
    replacing, size = redaction.Redaction(names), 0
    encoder: segment_format.FrameEncoder | None = None
    for message in _messages(joined):
        replacing.redact(message)
        if isinstance(message, recording_pb2.RecordingHeader):
            content = segment_format.encode_header(message)
            encoder = segment_format.FrameEncoder(content)
        else:
            assert encoder is not None
            content = encoder.encode(message.SerializeToString())
        out.write(content)
        size += len(content)
    out.flush()
    return size


def _messages(file: BinaryIO) -> Iterator[recording_pb2.RecordingHeader | recording_pb2.RecordedFrame]:
    """The header and the frames of an exported file, from its beginning. Raises: OSError, RecordingError."""
    file.seek(0)
    reader = segment_reader.SegmentReader(file, "the joined recording")
    assert reader.header is not None
    yield reader.header
    yield from reader.frames()


def _join(joined: "_Joined", segments: Sequence[segment_folder.Segment], since_ns: int) -> None:
    """Add the segments from the first one on that may have something from that time or later, with a full state.

    Raises: OSError.
    """
    first = segment_folder.first_reaching(segments, since_ns)
    # Where the writer of a segment crashed at its beginning, the one before it is the last to begin with.
    for segment in reversed(segments[: first + 1]):
        if joined.add(segment.path):
            break
    for segment in segments[first + 1 :]:
        joined.add(segment.path)


class _Joined:
    """The file that is being written."""

    def __init__(self, file: BinaryIO) -> None:
        self.result = Exported()
        self._file = file
        self._encoder: segment_format.FrameEncoder | None = None
        self._join = joining.SegmentJoin()
        self._numbers = decision_numbers.DecisionNumbers()
        self._times = frame_times.FrameTimes()
        self._last_ns = 0

    def add(self, path: pathlib.Path) -> bool:
        """Add a segment, as far as it can be read; returns whether anything was added. Raises: OSError."""
        frames = self.result.totals.frames
        try:
            with path.open("rb") as file:
                reader = segment_reader.SegmentReader(file, str(path))
                if reader.header is not None:
                    self._add_frames(reader, reader.header)
        except FileNotFoundError:
            return False  # insight has deleted it since; the next one begins with a gap
        except segment_reader.RecordingError as error:
            self.result.problems.append(error)
        return self.result.totals.frames > frames

    def end(self) -> None:
        """Write the frame that ends the file, and count what is missing in it. Raises: NothingToExportError."""
        if self._encoder is None:
            raise NothingToExportError("there is no recording with a full state")
        self.result.gaps = len(self._times.gaps(0))
        self.result.missing_decisions = self._numbers.missing
        self.result.uncounted_gaps = self._numbers.uncounted_gaps
        end = recording_pb2.RecordedFrame(unix_time_ns=self._last_ns, end=recording_pb2.RecordingEnd())
        self._write_bytes(self._encoder.encode(end.SerializeToString()))

    def _add_frames(self, reader: segment_reader.SegmentReader, header: recording_pb2.RecordingHeader) -> None:
        """Add the frames of a segment. Raises: RecordingError, OSError."""
        self._join.begin(header)
        for frame in reader.frames():
            for joined in self._join.take(frame):
                self._write(joined)
        self._join.end(complete=reader.ended)

    def _write(self, frame: recording_pb2.RecordedFrame) -> None:
        """Write a frame; before the first one, the header."""
        if self._encoder is None:
            own = recording_pb2.RecordingHeader()
            assert self._join.header is not None  # there is a frame
            own.CopyFrom(self._join.header)
            own.segment = own.dropped_messages = 0
            own.continuous = False
            content = segment_format.encode_header(own)
            self._write_bytes(content)
            self._encoder = segment_format.FrameEncoder(content)
            self._numbers.begin_stream(own.hello.fence)
        self._write_bytes(self._encoder.encode(frame.SerializeToString()))
        self._last_ns = frame.unix_time_ns
        self.result.totals.add(frame)
        self._times.add((1, self.result.totals.frames), frame)
        # It is in the file all the same: a check of the file says that it cannot be decoded.
        with contextlib.suppress(ValueError):
            self._numbers.take(frame)

    def _write_bytes(self, content: bytes) -> None:
        self._file.write(content)
        self.result.totals.size += len(content)
