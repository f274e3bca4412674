"""Small recordings: their bytes, their folders, and what is read of them."""

import io
import pathlib
from collections.abc import Sequence
from typing import Any

from trireme.recording import segment_format, segment_reader, segment_writer
from trireme.v1 import recording_pb2, snapshot_pb2

SECOND = 1_000_000_000
BEGIN = 1_700_000_000 * SECOND


def header(start_ns: int = BEGIN, **fields: Any) -> recording_pb2.RecordingHeader:
    return recording_pb2.RecordingHeader(**{"instance": "i", "start_unix_ns": start_ns, "release": "0", **fields})


def state_frame(generation: int, time_ns: int = BEGIN) -> recording_pb2.RecordedFrame:
    """A full state that is empty."""
    delta = snapshot_pb2.Delta(reset=True, to_generation=generation)
    return recording_pb2.RecordedFrame(
        unix_time_ns=time_ns,
        state_part=recording_pb2.STATE_PART_LAST,
        message=snapshot_pb2.SyncRequest(delta=delta),
    )


def delta_frame(generation: int, time_ns: int = BEGIN, padding: str = "") -> recording_pb2.RecordedFrame:
    """A delta to this generation, of about the size of the padding."""
    delta = snapshot_pb2.Delta(from_generation=generation - 1, to_generation=generation, removed_nominations=[padding])
    return recording_pb2.RecordedFrame(unix_time_ns=time_ns, message=snapshot_pb2.SyncRequest(delta=delta))


def end_frame(time_ns: int = BEGIN) -> recording_pb2.RecordedFrame:
    return recording_pb2.RecordedFrame(unix_time_ns=time_ns, end=recording_pb2.RecordingEnd())


def encoded(head: recording_pb2.RecordingHeader, frames: Sequence[recording_pb2.RecordedFrame]) -> list[bytes]:
    """The bytes of the header and of each frame."""
    begin = segment_format.encode_header(head)
    encoder = segment_format.FrameEncoder(begin)
    return [begin, *(encoder.encode(frame.SerializeToString()) for frame in frames)]


def read(content: bytes) -> tuple[list[recording_pb2.RecordedFrame], segment_reader.SegmentReader]:
    """The frames of the bytes. Raises: RecordingError."""
    reader = segment_reader.SegmentReader(io.BytesIO(content), "file")
    return list(reader.frames()), reader


def read_until_error(
    content: bytes,
) -> tuple[list[recording_pb2.RecordedFrame], segment_reader.RecordingError | None]:
    """The frames before the damage, and what it is."""
    found: list[recording_pb2.RecordedFrame] = []
    try:
        for frame in segment_reader.SegmentReader(io.BytesIO(content), "file").frames():
            found.append(frame)  # noqa: PERF402  # what came before the error counts
    except segment_reader.RecordingError as error:
        return found, error
    return found, None


def readable(content: bytes) -> list[recording_pb2.RecordedFrame]:
    """The frames before the damage, if there is one."""
    return read_until_error(content)[0]


def write(writer: segment_writer.RecordingWriter, *frames: recording_pb2.RecordedFrame) -> None:
    """Append the frames to the segment."""
    for frame in frames:
        last = frame.state_part == recording_pb2.STATE_PART_LAST
        writer.append(frame.SerializeToString(), completes_state=last)


def size_of(folder: pathlib.Path) -> int:
    """The size of all recordings of the folder."""
    return sum(path.stat().st_size for path in folder.glob("*.trireme"))
