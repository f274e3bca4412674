"""Writes segments into a folder and deletes the oldest, so that neither their size nor their age passes a limit.

Each frame reaches the file by one write, so a crash of the process loses none that was written; `sync` and the end of a
segment have the machine write it to its disk. Nothing here waits or retries: every failure is an exception, after which
only a new segment can be begun.

Also change: docs/recording.md.
Also change: protos/trireme/v1/recording.proto (the messages).
"""

import fcntl
import os
import pathlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from trireme.recording import private_files, segment_folder, segment_format, steady_time
from trireme.v1 import recording_pb2

LOCK_NAME = "recording.lock"

# A segment may take this part of each limit: what is deleted at once is no more than that.
_SHARE = 8
_SEGMENT_BYTES = 64 << 20
_SEGMENT_SECONDS = 1800.0
_NS = 1_000_000_000


class RecordingFullError(Exception):
    """The limit of bytes does not suffice for one segment."""


class FolderInUseError(Exception):
    """Another process writes to the folder."""


class RecordingRemovedError(OSError):
    """The folder, the segment or the lock was removed or replaced: nobody reads what is written there."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How many bytes the segments of a folder may take together, and how old what they hold may be."""

    size_bytes: int
    age_seconds: float


class RecordingWriter:
    """Writes one segment after the other into a folder. `now_ns` arguments are nanoseconds since 1970.

    Segments age by the time without steps of the wall clock; those that the folder had before, by what they say.
    """

    def __init__(
        self, folder: pathlib.Path, limits: Limits, steady: Callable[[], float] = steady_time.boot_seconds
    ) -> None:
        """`steady` returns seconds of a clock that is never set."""
        #: Where the segments are.
        self.folder = folder
        self._limits = limits
        self._segment_bytes = min(limits.size_bytes // _SHARE, _SEGMENT_BYTES)
        self._segment_ns = int(min(limits.age_seconds / _SHARE, _SEGMENT_SECONDS) * _NS)
        self._lock: BinaryIO | None = None
        self._segments: list[segment_folder.Segment] = []
        self._number = 0
        self._file: BinaryIO | None = None
        self._encoder: segment_format.FrameEncoder | None = None
        self._path = folder
        self._start_ns = 0
        self._time = steady_time.SteadyTime(steady)
        # When each segment of this writer began, by `_time`, and when it first had the folder.
        self._began_ns: dict[int, int] = {}
        self._claimed_ns = 0
        self._size = 0
        # The size of the segment's header and full state; None: the state is not complete.
        self._state_size: int | None = None
        self._unsynced = False

    @property
    def active(self) -> bool:
        """Whether a segment has begun and not ended."""
        return self._file is not None

    @property
    def total_bytes(self) -> int:
        """The size of all segments."""
        return sum(segment.size for segment in self._segments) + self._size

    def is_due(self, now_ns: int) -> bool:
        """Whether the segment is long or old enough for the next one.

        By length it is once what follows its full state is as long as the state, however long that is: else most of
        a recording would be states.
        """
        if self._state_size is None:
            return False
        most = max(self._segment_bytes, self._state_size)
        return self._size - self._state_size >= most or abs(now_ns - self._start_ns) >= self._segment_ns

    def begin(self, header: recording_pb2.RecordingHeader) -> None:
        """End the segment, and begin the next one, whose number is set in `header`.

        Raises: OSError, FolderInUseError, RecordingFullError.
        """
        self.end(header.start_unix_ns)
        now_ns = self._time.at(header.start_unix_ns)
        self._claimed_ns = self._claimed_ns or now_ns
        self._claim_folder()
        self._number += 1
        self._began_ns[self._number] = now_ns
        header.segment = self._number
        content = segment_format.encode_header(header)
        self._make_room(len(content))
        path = self.folder / segment_folder.file_name(self._number)
        self._file = private_files.create(path, buffered=False)
        self._path, self._size, self._start_ns, self._state_size = path, 0, header.start_unix_ns, None
        self._encoder = segment_format.FrameEncoder(content)
        self._write(content)
        _sync_folder(self.folder)

    def append(self, frame: bytes, *, completes_state: bool = False) -> int:
        """Write a serialised RecordedFrame to the segment; returns its size in the file.

        `completes_state`: it is the last frame of the full state. Raises: OSError, RecordingFullError.
        """
        assert self._encoder is not None
        content = self._encoder.encode(frame)
        self._make_room(len(content))
        self._write(content)
        if completes_state:
            self._state_size = self._size
        return len(content)

    def sync(self) -> None:
        """Flush the segment to the disk, and its entry in the folder. Raises: OSError."""
        if self._file is None:
            return
        for file, path in ((self._file, self._path), (self._lock, self.folder / LOCK_NAME)):
            if not _is_at(file, path):
                raise RecordingRemovedError(f"{path} was removed or replaced while it was in use")
        if self._unsynced:
            os.fsync(self._file.fileno())
            self._unsynced = False

    def end(self, now_ns: int) -> None:
        """End the segment, if there is one, by a closing frame. Raises: OSError."""
        if self._file is None or self._encoder is None:
            return
        frame = recording_pb2.RecordedFrame(unix_time_ns=now_ns, end=recording_pb2.RecordingEnd())
        self._write(self._encoder.encode(frame.SerializeToString()))
        self.sync()
        self._close()

    def abandon(self) -> None:
        """Leave the segment as it is after a failure; one without its full state is of no use and deleted."""
        if self._file is None:
            return
        useless = self._state_size is None
        try:
            self._close()
            if useless:
                self._delete(self._segments.pop())
        except OSError:
            # The disk that failed fails again. What is left is read as far as it is whole.
            return

    def delete_expired(self, now_ns: int) -> None:
        """Delete the segments that began too long ago, the present one included. Raises: OSError."""
        oldest = self._time.at(now_ns) - int(self._limits.age_seconds * _NS)
        if self._file is not None and self._began_ns[self._number] < oldest:
            self.end(now_ns)
        while self._segments and self._age_from(self._segments[0]) < oldest:
            self._delete(self._segments[0])
            del self._segments[0]

    def _age_from(self, segment: segment_folder.Segment) -> int:
        """When the segment began. One of a writer before this one is not from later, whatever its clock was."""
        return self._began_ns.get(segment.number, min(segment.start_ns, self._claimed_ns))

    def release(self) -> None:
        """Let another process write to the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _claim_folder(self) -> None:
        """Make the folder, lock it, and read which segments it has; again where the lock was removed.

        Raises: OSError, FolderInUseError.
        """
        if not _is_at(self._lock, self.folder / LOCK_NAME):
            self.release()
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = (self.folder / LOCK_NAME).open("wb")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                lock.close()
                if isinstance(error, BlockingIOError):
                    raise FolderInUseError(f"{self.folder}: another process records there") from error
                raise
            self._lock = lock
        # Files may also have been deleted by somebody who needed the room.
        self._segments = list(segment_folder.list_segments(self.folder))
        self._number = max([self._number, *(segment.number for segment in self._segments)])
        present = {segment.number for segment in self._segments}
        self._began_ns = {number: began for number, began in self._began_ns.items() if number in present}

    def _make_room(self, size: int) -> None:
        """Delete the oldest segments until so many bytes more are within the limit, with the frame that ends a segment.

        Raises: OSError, RecordingFullError.
        """
        while self.total_bytes + size + segment_format.END_BYTES > self._limits.size_bytes:
            if not self._segments:
                raise RecordingFullError(f"{self._limits.size_bytes} bytes do not suffice for one segment")
            self._delete(self._segments[0])
            del self._segments[0]

    def _write(self, content: bytes) -> None:
        """Write to the file. Raises: OSError."""
        assert self._file is not None
        rest = memoryview(content)
        while rest:
            written = self._file.write(rest) or 0
            self._size += written
            self._unsynced = True
            rest = rest[written:]

    def _close(self) -> None:
        """Close the file, which is a segment of the folder from now on. Raises: OSError."""
        assert self._file is not None
        file, self._file, self._encoder = self._file, None, None
        self._segments.append(segment_folder.Segment(self._number, self._path, self._size, self._start_ns))
        self._size, self._state_size, self._unsynced = 0, None, False
        file.close()

    def _delete(self, segment: segment_folder.Segment) -> None:
        """Delete the file, unless somebody else has. Raises: OSError."""
        segment.path.unlink(missing_ok=True)


def _is_at(file: BinaryIO | None, path: pathlib.Path) -> bool:
    """Whether the open file is the one that the path leads to. Raises: OSError."""
    if file is None:
        return False
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except (FileNotFoundError, NotADirectoryError):
        return False


def _sync_folder(folder: pathlib.Path) -> None:
    """Have the names of new files reach the disk. Raises: OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
