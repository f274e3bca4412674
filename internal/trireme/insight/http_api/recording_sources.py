"""Where the frames of a recording come from that the console shows: an exported file, or a folder that may still grow.

A source reads all frames once for their times: from when to when it reaches, where nothing was recorded, and as of when
each frame is shown (`frame_times`), which is its time where it is read again from a place on. `None` in place of a
frame says that there is no further one, of a folder: not yet.

Tests: tests/unit/insight/http_api/test_recorded_gaps.py.
"""

import asyncio
import bisect
import contextlib
import pathlib
from collections.abc import Sequence
from typing import BinaryIO, Protocol

from trireme.recording import decision_numbers, followed_folder, frame_times, segment_folder, segment_reader
from trireme.v1 import recording_pb2

# Frames read between two turns of the event loop.
FRAMES_PER_TURN = 50
# In a folder, how long before a moment what is read begins at least: decisions of that time are explained.
HISTORY_NS = 30 * 60 * 1_000_000_000


class Frames(Protocol):
    """Frames in order, from a place on.

    Implementers: trireme.recording.followed_folder.FollowedFolder,
    trireme.insight.http_api.recording_sources._TimedFrames, trireme.insight.http_api.recording_sources._FileFrames.
    """

    @property
    def header(self) -> recording_pb2.RecordingHeader | None:
        """The header of what is read; known from the first frame on."""
        ...

    @property
    def place(self) -> frame_times.Place:
        """Where the frame stands that was read last."""
        ...

    def next_frame(self) -> recording_pb2.RecordedFrame | None:
        """The next frame; None: there is none. Raises: OSError, RecordingError."""
        ...

    def close(self) -> None:
        """Let go of files."""
        ...


class Source(Protocol):
    """A recording. Units: times in nanoseconds since 1970.

    Implementers: trireme.insight.http_api.recording_sources.FileSource,
    trireme.insight.http_api.recording_sources.FolderSource.
    """

    #: What people call it.
    name: str
    from_ns: int
    to_ns: int

    @property
    def numbers(self) -> decision_numbers.DecisionNumbers:
        """The numbers of its decisions."""
        ...

    @property
    def restarts(self) -> int:
        """How often earlier frames became useless.

        Another recording is there, reading it failed, or the clock was set back: they are shown as of other times.
        """
        ...

    async def refresh(self, wait_seconds: float | None = None) -> None:
        """Bring the times up to date, within a time if one is given.

        Raises: OSError, RecordingError; ValueError: there is nothing to be shown, or not within that time.
        """
        ...

    def gaps(self) -> Sequence[frame_times.Gap]:
        """The spans of time in which it is not certain what was."""
        ...

    def start_of(self, at_ns: int) -> int:
        """When what is to be read for this moment begins. Raises: OSError."""
        ...

    def frames_for(self, at_ns: int) -> Frames:
        """The frames from that time on. Raises: OSError, RecordingError, ValueError."""
        ...

    def close(self) -> None:
        """Let go of files."""
        ...


def open_source(path: pathlib.Path) -> Source:
    """Open the recording at this path: a file, or a folder of segments. Raises: OSError."""
    return FolderSource(path) if path.is_dir() else FileSource(path)


class _TimedFrames:
    """Frames, each with the time that it shows."""

    def __init__(self, frames: Frames, times: frame_times.FrameTimes) -> None:
        self._frames = frames
        self._times = times

    @property
    def header(self) -> recording_pb2.RecordingHeader | None:
        """The header of what is read."""
        return self._frames.header

    @property
    def place(self) -> frame_times.Place:
        """Where the frame stands that was read last."""
        return self._frames.place

    def next_frame(self) -> recording_pb2.RecordedFrame | None:
        """The next frame; None: there is none. Raises: OSError, RecordingError, ValueError."""
        frame = self._frames.next_frame()
        if frame is not None:
            frame.unix_time_ns = self._times.of(self._frames.place, frame.unix_time_ns)
        return frame

    def close(self) -> None:
        """Let go of files."""
        self._frames.close()


def _numbers_from(frames: Frames) -> decision_numbers.DecisionNumbers:
    return decision_numbers.DecisionNumbers(None if frames.header is None else frames.header.hello.fence)


class _FileFrames:
    """The frames of a file from its beginning. The file is closed with them."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        """Raises: RecordingError."""
        self._file = file
        self._reader = segment_reader.SegmentReader(file, name)
        self._frames = self._reader.frames()
        self.header = self._reader.header
        self.place: frame_times.Place = (0, 0)

    def next_frame(self) -> recording_pb2.RecordedFrame | None:
        """The next frame. Raises: OSError, RecordingError."""
        self.place = 0, self.place[1] + 1
        return next(self._frames, None)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class FileSource:
    """An exported file, or one segment, which is read once to see how far it reaches."""

    restarts = 0

    def __init__(self, path: pathlib.Path) -> None:
        """Raises: OSError."""
        self.name = path.name
        self.from_ns = self.to_ns = 0
        self._path = path
        self._file: BinaryIO = path.open("rb")
        self._times = frame_times.FrameTimes()
        self.numbers = decision_numbers.DecisionNumbers()

    async def refresh(self, wait_seconds: float | None = None) -> None:
        """Read the file, the first time. Raises: OSError, RecordingError, ValueError."""
        if self.to_ns:
            return
        times = frame_times.FrameTimes()
        with contextlib.closing(self._open()) as frames:
            numbers = _numbers_from(frames)
            while (frame := frames.next_frame()) is not None:
                times.add(frames.place, frame)
                numbers.take(frame)
                if times.frames % FRAMES_PER_TURN == 0:
                    await asyncio.sleep(0)
        if frames.header is None or not times.frames:
            raise ValueError(f"{self._path}: the file ends before its full state is complete")
        self._times, self.from_ns, self.to_ns = times, times.begin_ns, times.end_ns
        self.numbers = numbers

    def gaps(self) -> Sequence[frame_times.Gap]:
        """The spans of time in which it is not certain what was."""
        return self._times.gaps(self.from_ns)

    def start_of(self, at_ns: int) -> int:
        """The beginning of the file."""
        return self.from_ns

    def frames_for(self, at_ns: int) -> Frames:
        """All frames. Raises: OSError, RecordingError."""
        return _TimedFrames(self._open(), self._times)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _open(self) -> _FileFrames:
        """Frames that are read independently of others, of the same file also where its name is another's by now.

        Raises: OSError, RecordingError.
        """
        file = pathlib.Path(f"/proc/self/fd/{self._file.fileno()}").open("rb")  # noqa: SIM115  # closed with the frames
        try:
            return _FileFrames(file, str(self._path))
        except BaseException:
            file.close()
            raise


class FolderSource:
    """The segments of a folder, which insight may be writing: its end moves on, its beginning as some are deleted."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.name = folder.resolve().name
        self.from_ns = self.to_ns = 0
        self._folder = folder
        self._restarts = 0
        # Reads all that is written, for its times alone.
        self._reader: followed_folder.FollowedFolder | None = None
        self._times = frame_times.FrameTimes()
        self.numbers = decision_numbers.DecisionNumbers()
        self._reading: asyncio.Task[None] | None = None

    @property
    def restarts(self) -> int:
        """How often earlier frames became useless."""
        return self._restarts + self._times.changes

    async def refresh(self, wait_seconds: float | None = None) -> None:
        """Read what was written since, within a time if one is given; it is read on also where that is over.

        Raises: OSError; ValueError: the folder has no full state, or has not been read within that time.
        """
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._refresh())
        # By the time that it is done, another request may have begun the next one.
        reading = self._reading
        done, _ = await asyncio.wait({reading}, timeout=wait_seconds)
        if not done:
            read = 0 if self._reader is None else len(self._reader.starts)
            raise ValueError(f"its times are being read, segments so far: {read}; try again")
        reading.result()

    def gaps(self) -> Sequence[frame_times.Gap]:
        """The spans of time in which it is not certain what was."""
        return self._times.gaps(self.from_ns)

    async def _refresh(self) -> None:
        """Read what was written since. Raises: OSError; ValueError: the folder has no full state."""
        try:
            if self._reader is not None and self._reader.is_replaced():
                self._restart()
            await self._read_on()
        except (OSError, ValueError):
            self._restart()
            raise

    async def _read_on(self) -> None:
        """Bring the times up to date. Raises: OSError; ValueError: the folder has no full state."""
        if self._reader is None:
            first = followed_folder.start_of(self._folder, 0)
            if first is None:
                raise ValueError(f"{self._folder}: there is no recording with a full state")
            self._reader = followed_folder.FollowedFolder(self._folder, first.number)
        while (frame := self._reader.next_frame()) is not None:
            if not self._times.frames:
                self.numbers = _numbers_from(self._reader)
            self._times.add(self._reader.place, frame)
            self.numbers.take(frame)
            if self._times.frames % FRAMES_PER_TURN == 0:
                await asyncio.sleep(0)
        # What was deleted is of no use, and what is left begins with a full state.
        lowest = segment_folder.find_next_number(self._folder, 0)
        for number in [each for each in self._reader.starts if lowest is None or each < lowest]:
            del self._reader.starts[number]
        if not self._reader.starts:
            raise ValueError(f"{self._folder}: there is no recording with a full state any more")
        self.from_ns = self._begin_of(min(self._reader.starts))
        self.to_ns = max(self._times.end_ns, self.from_ns)

    def _restart(self) -> None:
        """Find out anew from when to when the recording reaches: insight may begin its numbers again."""
        if self._reader is not None:
            self._reader.close()
            self._restarts += 1 + self._times.changes
        self._reader, self._times = None, frame_times.FrameTimes()

    def start_of(self, at_ns: int) -> int:
        """When the segment begins that is read first. Raises: ValueError: there is none any more."""
        return self._begin_of(self._start(at_ns))

    def frames_for(self, at_ns: int) -> Frames:
        """The frames from that segment on. Raises: OSError, ValueError."""
        return _TimedFrames(followed_folder.FollowedFolder(self._folder, self._start(at_ns)), self._times)

    def close(self) -> None:
        """Close the segment that is being read."""
        if self._reading is not None:
            self._reading.cancel()
        if self._reader is not None:
            self._reader.close()

    def _begin_of(self, number: int) -> int:
        assert self._reader is not None
        return self._times.of((number, 0), self._reader.starts[number])

    def _start(self, at_ns: int) -> int:
        """The segment that is read first: the last that began the half hour before. Raises: ValueError."""
        numbers = sorted(self._reader.starts) if self._reader is not None else []
        if not numbers:
            raise ValueError(f"{self._folder}: there is no recording with a full state any more")
        before = bisect.bisect_right(numbers, at_ns - HISTORY_NS, key=self._begin_of)
        return numbers[max(before - 1, 0)]
