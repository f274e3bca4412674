"""Where the frames of a recording come from that the console shows: an exported file, or a folder that may still grow.

A source knows from when to when it reaches, and reads its frames from a place on; `None` in place of a frame says that
there is no further one, of a folder: not yet.
"""

import asyncio
import contextlib
import pathlib
from typing import BinaryIO, Protocol

from trireme.recording import followed_folder, frame_totals, segment_folder, segment_reader
from trireme.v1 import recording_pb2

# Frames read between two turns of the event loop.
FRAMES_PER_TURN = 50
# In a folder, how long before a moment what is read begins at least: decisions of that time are explained.
HISTORY_NS = 30 * 60 * 1_000_000_000


class Frames(Protocol):
    """Frames in order, from a place on."""

    @property
    def header(self) -> recording_pb2.RecordingHeader | None:
        """The header of what is read; known from the first frame on."""
        ...

    def next_frame(self) -> recording_pb2.RecordedFrame | None:
        """The next frame; None: there is none. Raises: OSError, RecordingError."""
        ...

    def close(self) -> None:
        """Let go of files."""
        ...


class Source(Protocol):
    """A recording. Units: times in nanoseconds since 1970."""

    #: What people call it.
    name: str
    from_ns: int
    to_ns: int
    #: How often it was begun again, as another recording is there or reading it failed: frames of before are of no use.
    restarts: int

    async def refresh(self) -> None:
        """Bring the times up to date. Raises: OSError, RecordingError, ValueError: there is nothing to be shown."""
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


def source_at(path: pathlib.Path) -> Source:
    """The recording at this path: a file, or a folder of segments. Raises: OSError."""
    return FolderSource(path) if path.is_dir() else FileSource(path)


class _FileFrames:
    """The frames of a file from its beginning. The file is closed with them."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        """Raises: RecordingError."""
        self._file = file
        self._reader = segment_reader.SegmentReader(file, name)
        self._frames = self._reader.frames()
        self.header = self._reader.header

    def next_frame(self) -> recording_pb2.RecordedFrame | None:
        """The next frame. Raises: OSError, RecordingError."""
        return next(self._frames, None)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class FileSource:
    """An exported file, or one segment, which is read once to see how far it reaches."""

    def __init__(self, path: pathlib.Path) -> None:
        """Raises: OSError."""
        self.name = path.name
        self.from_ns = self.to_ns = self.restarts = 0
        self._path = path
        self._file: BinaryIO = path.open("rb")

    async def refresh(self) -> None:
        """Read the file, the first time. Raises: OSError, RecordingError, ValueError."""
        if self.to_ns:
            return
        totals = frame_totals.FrameTotals()
        with contextlib.closing(self._open()) as frames:
            while (frame := frames.next_frame()) is not None:
                totals.add(frame)
                if totals.frames % FRAMES_PER_TURN == 0:
                    await asyncio.sleep(0)
        if frames.header is None or not totals.frames:
            raise ValueError(f"{self._path}: the file ends before its full state is complete")
        self.from_ns, self.to_ns = frames.header.start_unix_ns, max(totals.end_ns, frames.header.start_unix_ns)

    def start_of(self, at_ns: int) -> int:
        """The beginning of the file."""
        return self.from_ns

    def frames_for(self, at_ns: int) -> Frames:
        """All frames. Raises: OSError, RecordingError."""
        return self._open()

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
        self.from_ns = self.to_ns = self.restarts = 0
        self._folder = folder
        # The number of the segment that begins at `from_ns`.
        self._first = 0
        # Reads what is written, for its times alone.
        self._newest: followed_folder.FollowedFolder | None = None
        self._refreshing = asyncio.Lock()

    async def refresh(self) -> None:
        """Read what was written since. Raises: OSError; ValueError: the folder has no full state."""
        async with self._refreshing:
            try:
                if self._newest is not None and self._newest.is_replaced():
                    self._restart()
                await self._read_on()
            except (OSError, ValueError):
                self._restart()
                raise

    async def _read_on(self) -> None:
        """Bring the times up to date. Raises: OSError; ValueError: the folder has no full state."""
        self._refresh_beginning()
        if self._newest is None:
            last = followed_folder.start_of(self._folder, 1 << 63)
            if last is None:
                raise ValueError(f"{self._folder}: there is no recording with a full state")
            self._newest = followed_folder.FollowedFolder(self._folder, last)
            self.to_ns = last.start_ns
        read = 0
        while (frame := self._newest.next_frame()) is not None:
            self.to_ns = max(self.to_ns, frame.unix_time_ns)
            read += 1
            if read % FRAMES_PER_TURN == 0:
                await asyncio.sleep(0)

    def _restart(self) -> None:
        """Find out anew from when to when the recording reaches: insight may begin its numbers again."""
        if self._newest is not None:
            self._newest.close()
            self.restarts += 1
        self._newest, self._first = None, 0

    def _refresh_beginning(self) -> None:
        """Find when the first segment begins. Raises: OSError."""
        number = segment_folder.next_number(self._folder, 0)
        if number is None or number == self._first:
            return
        path = self._folder / segment_folder.file_name(number)
        with contextlib.suppress(FileNotFoundError, segment_reader.RecordingError):
            header = segment_reader.read_header(path)
            if header is not None:
                self._first, self.from_ns = number, header.start_unix_ns

    def start_of(self, at_ns: int) -> int:
        """When the segment begins that is read first. Raises: OSError; ValueError: there is none any more."""
        return self._start(at_ns).start_ns

    def frames_for(self, at_ns: int) -> Frames:
        """The frames from that segment on. Raises: OSError, ValueError."""
        return followed_folder.FollowedFolder(self._folder, self._start(at_ns))

    def close(self) -> None:
        """Close the segment that is being read."""
        if self._newest is not None:
            self._newest.close()

    def _start(self, at_ns: int) -> segment_folder.Segment:
        """The segment that is read first. Raises: OSError, ValueError."""
        found = followed_folder.start_of(self._folder, at_ns - HISTORY_NS)
        if found is None:
            raise ValueError(f"{self._folder}: there is no recording with a full state any more")
        return found
