"""Reads the segments of a folder as one sequence of frames, while a process may be writing them.

Nothing is written, locked or held up: the files are opened to be read, and only frames that are whole are read. A
segment that is deleted while it is read is read to its end.
"""

import pathlib
from collections.abc import Generator
from typing import TypeAlias

from trireme.recording import frame_times, joining, segment_folder, segment_reader
from trireme.v1 import recording_pb2

# None: there is no further frame yet.
_Frames: TypeAlias = Generator[recording_pb2.RecordedFrame | None, None, None]


def start_of(folder: pathlib.Path, since_ns: int) -> segment_folder.Segment | None:
    """The last segment with a full state up to what reaches that time, else the first one that has one; None: none has.

    Units: nanoseconds since 1970. Raises: OSError.
    """
    segments = segment_folder.list_segments(folder)
    first = segment_folder.first_reaching(segments, since_ns)
    for segment in (*reversed(segments[: first + 1]), *segments[first + 1 :]):
        if _has_full_state(segment.path):
            return segment
    return None


def _has_full_state(path: pathlib.Path) -> bool:
    """Whether the segment's full state is there."""
    try:
        with path.open("rb") as file:
            frames = segment_reader.SegmentReader(file, str(path)).written_frames()
            return any(frame.state_part == recording_pb2.STATE_PART_LAST for frame in frames)
    except (segment_reader.RecordingError, FileNotFoundError):
        return False


class FollowedFolder:
    """The frames of the segments from one on, joined; `close` it."""

    def __init__(self, folder: pathlib.Path, number: int) -> None:
        """`number` is that of the first segment, which has a full state (`start_of`)."""
        #: What was wrong with segments, which are read as far as they can be.
        self.problems: list[segment_reader.RecordingError] = []
        #: Where the frame stands that was read last.
        self.place: frame_times.Place = (number, 0)
        #: The segments that have a full state, of those that were read, and when each began by its own account.
        #: Units: nanoseconds since 1970.
        self.starts: dict[int, int] = {}
        self._folder = folder
        self._before = number - 1
        # The number and the header of the segment that was read last; None: of none so far.
        self._last: tuple[int, recording_pb2.RecordingHeader] | None = None
        self._join = joining.SegmentJoin()
        self._frames = self._read()

    @property
    def header(self) -> recording_pb2.RecordingHeader | None:
        """The header of the first segment; None before its full state is read."""
        return self._join.header

    def next_frame(self) -> recording_pb2.RecordedFrame | None:
        """The next frame; None: there is none yet. Raises: OSError; ValueError: it failed before."""
        try:
            return next(self._frames)
        except StopIteration:
            raise ValueError(f"{self._folder}: reading it failed before: begin again") from None

    def is_replaced(self) -> bool:
        """Whether the folder has another recording by now, whose numbers began anew. Raises: OSError.

        A writer deletes the segment of the lowest number first.
        """
        if self._last is None:
            return False
        number, last = self._last
        try:
            header = segment_reader.read_header(self._folder / segment_folder.file_name(number))
        except FileNotFoundError:
            lowest = segment_folder.find_next_number(self._folder, 0)
            return lowest is not None and lowest < number
        except segment_reader.RecordingError:
            return False
        return header is not None and (header.start_unix_ns, header.instance) != (last.start_unix_ns, last.instance)

    def close(self) -> None:
        """Close the file that is being read."""
        self._frames.close()

    def _read(self) -> _Frames:
        """Yield the frames, and None each time that there is no further one, without end. Raises: OSError."""
        while True:
            number = segment_folder.find_next_number(self._folder, self._before)
            if number is None:
                yield None
                continue
            path = self._folder / segment_folder.file_name(number)
            try:
                yield from self._read_segment(path, number)
            except FileNotFoundError:
                pass  # its writer has deleted it; the next one begins with a gap
            except segment_reader.RecordingError as error:
                self.problems.append(error)
            self._before = number

    def _read_segment(self, path: pathlib.Path, number: int) -> _Frames:
        """Yield the frames of a segment, and None each time that there may be more of it.

        Raises: RecordingError, OSError.
        """
        with path.open("rb") as file:
            # Its header is one write: a reader that comes before it looks again.
            reader = segment_reader.SegmentReader(file, str(path))
            while reader.header is None:
                if segment_folder.find_next_number(self._folder, number) is not None:
                    return
                yield None
                file.seek(0)
                reader = segment_reader.SegmentReader(file, str(path))
            self._last = number, reader.header
            self.place = number, 0
            self._join.begin(reader.header)
            is_last = True
            while is_last and not reader.ended and reader.torn_at is None:
                # Asked before it is read: nothing is added to a segment once the next one has begun.
                is_last = segment_folder.find_next_number(self._folder, number) is None
                for frame in reader.written_frames():
                    self.place = number, self.place[1] + 1
                    if frame.state_part == recording_pb2.STATE_PART_LAST:
                        self.starts[number] = reader.header.start_unix_ns
                    yield from self._join.take(frame)
                if is_last and not reader.ended:
                    yield None
            self._join.end(complete=reader.ended)
