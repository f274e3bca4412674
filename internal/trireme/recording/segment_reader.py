"""Reads the frames of one file: those that were written, or an error that says where the file is damaged.

Also change: protos/trireme/v1/recording.proto (the messages).

Tests: tests/unit/recording/test_segments.py, tests/unit/recording/test_followed_folder.py.
"""

import contextlib
import os
import pathlib
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from google.protobuf import message as protobuf

from trireme.recording import message_bounds, segment_format
from trireme.v1 import recording_pb2

# How much is read at once to see whether the rest of a file is zeros.
_ZEROS = 1 << 16


class RecordingError(Exception):
    """The file is no recording, or is damaged; `offset` is where the frame begins that cannot be read."""

    def __init__(self, file: str, offset: int, problem: str) -> None:
        super().__init__(f"{file}: byte {offset}: {problem}")
        self.file = file
        self.offset = offset
        self.problem = problem


class SegmentReader:
    """A file of a recording, read once from beginning to end.

    A file whose writer crashed, or is still writing, ends within a frame. That is no error: the frames before it are
    read, and `torn_at` says where they end.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        """Read the header. Raises: RecordingError, OSError."""
        self._file = file
        self._name = name
        self.offset = 0
        """Where the next frame begins."""
        self.frame_offset = 0
        """Where the frame begins that was read last."""
        self.torn_at: int | None = None
        """Where the last frame begins that is not complete; None: the file ends with a frame, as far as it was read."""
        self.ended = False
        """Whether the last frame that was read says that it is the last."""
        self.header: recording_pb2.RecordingHeader | None = None
        """None: the file ends within its header."""
        self._decoder = segment_format.FrameDecoder(0)
        self._bounds = message_bounds.IndexBounds()
        self._read_header()

    def frames(self) -> Iterator[recording_pb2.RecordedFrame]:
        """Yield the frames, the one that ends the file included. Raises: RecordingError, OSError."""
        while self.header is not None and self.torn_at is None and not self.ended:
            frame = self._read_frame()
            if frame is None:
                return
            self.ended = frame.WhichOneof("content") == "end"
            yield frame
        if self.ended and self._file.read(1):
            raise self._error("there are bytes behind the frame that ends the file")

    def written_frames(self) -> Iterator[recording_pb2.RecordedFrame]:
        """As `frames`, of a file that may still be written: yield those that are whole by now, and may be called again.

        Raises: RecordingError, OSError.
        """
        while self.header is not None and self.torn_at is None and not self.ended and self._has_whole_frame():
            frame = self._read_frame()
            if frame is None:
                return
            self.ended = frame.WhichOneof("content") == "end"
            yield frame

    @contextlib.contextmanager
    def errors_located(self) -> Iterator[None]:
        """For code that uses frames: an error says at which byte the frame begins that was read last.

        Raises: RecordingError in place of ValueError, of numbers and places that do not fit, and of too little memory.
        """
        try:
            yield
        except ValueError as error:
            raise RecordingError(self._name, self.frame_offset, str(error)) from error
        except (ArithmeticError, LookupError) as error:
            text = f"the frame cannot be used: {type(error).__name__}: {error}"
            raise RecordingError(self._name, self.frame_offset, text) from error
        except MemoryError as error:
            raise RecordingError(self._name, self.frame_offset, "the frame needs more memory than there is") from error

    def _has_whole_frame(self) -> bool:
        """Whether the file has as many bytes as the next frame takes."""
        left = os.fstat(self._file.fileno()).st_size - self.offset
        if left < segment_format.FRAME_HEAD_BYTES:
            return False
        lengths = os.pread(self._file.fileno(), segment_format.LENGTHS.size, self.offset)
        stored, _ = segment_format.LENGTHS.unpack(lengths)
        whole: int = segment_format.FRAME_HEAD_BYTES + min(stored, segment_format.LONGEST_MESSAGE)
        return left >= whole + segment_format.CHECKSUM.size

    def _read_header(self) -> None:
        """Read the header, if it is whole. Raises: RecordingError."""
        preamble = self._file.read(segment_format.PREAMBLE.size)
        magic = preamble[: len(segment_format.MAGIC)]
        if not segment_format.MAGIC.startswith(magic) and any(magic):
            raise self._error("this is no recording")
        if len(preamble) < segment_format.PREAMBLE.size or not any(magic):
            self._note_torn_tail_of(preamble)
            return
        _, version, compression, length = segment_format.PREAMBLE.unpack(preamble)
        if version != segment_format.VERSION:
            raise self._error(f"it has format version {version}; this release reads {segment_format.VERSION}")
        if compression != segment_format.DEFLATE:
            raise self._error(f"it has compression {compression}; this release reads {segment_format.DEFLATE}")
        if length > segment_format.LONGEST_MESSAGE:
            raise self._error(f"a header of {length} bytes is longer than {segment_format.LONGEST_MESSAGE}")
        rest = self._file.read(length + segment_format.CHECKSUM.size)
        if len(rest) < length + segment_format.CHECKSUM.size:
            self.torn_at = 0
            return
        checksum = zlib.crc32(rest[:length], zlib.crc32(preamble))
        if segment_format.CHECKSUM.pack(checksum) != rest[length:]:
            raise self._error("the checksum of the header does not match")
        try:
            message_bounds.check_parts(rest[:length], recording_pb2.RecordingHeader.DESCRIPTOR)
            self.header = recording_pb2.RecordingHeader.FromString(rest[:length])
        except protobuf.DecodeError as error:
            raise self._error("the header cannot be decoded") from error
        except ValueError as error:
            raise self._error(str(error)) from error
        self._decoder = segment_format.FrameDecoder(checksum)
        self.offset = len(preamble) + len(rest)

    def _read_frame(self) -> recording_pb2.RecordedFrame | None:
        """The next frame; None: the file ends. Raises: RecordingError."""
        head = self._file.read(segment_format.FRAME_HEAD_BYTES)
        if len(head) < segment_format.FRAME_HEAD_BYTES:
            self.torn_at = self.offset if head else None
            return None
        try:
            stored, length = self._decoder.read_head(head)
        except ValueError as error:
            if not any(head):
                self._note_torn_tail_of(head)
                return None
            raise self._error(str(error)) from error
        payload = self._file.read(stored)
        checksum = self._file.read(segment_format.CHECKSUM.size)
        if len(payload) < stored or len(checksum) < segment_format.CHECKSUM.size:
            self.torn_at = self.offset
            return None
        try:
            content = self._decoder.decode(payload, checksum, length)
            message_bounds.check_parts(content)
            frame = recording_pb2.RecordedFrame.FromString(content)
            self._bounds.check(frame.message)
        except ValueError as error:
            raise self._error(str(error)) from error
        except protobuf.DecodeError as error:
            raise self._error("the frame's message cannot be decoded") from error
        except MemoryError as error:
            raise self._error("the frame needs more memory than there is") from error
        self.frame_offset = self.offset
        self.offset += len(head) + stored + len(checksum)
        return frame

    def _note_torn_tail_of(self, beginning: bytes) -> None:
        """Note that the rest is torn, which begins so: it is incomplete, or zeros, as after a crash of the machine.

        Raises: RecordingError where zeros precede something else.
        """
        if beginning and not any(beginning):
            while content := self._file.read(_ZEROS):
                if any(content):
                    raise self._error("there are zeros in place of a frame")
        self.torn_at = self.offset

    def _error(self, problem: str) -> RecordingError:
        return RecordingError(self._name, self.offset, problem)


def read_header(path: pathlib.Path) -> recording_pb2.RecordingHeader | None:
    """The header of the file; None: the file ends within it. Raises: RecordingError, OSError."""
    with path.open("rb") as file:
        return SegmentReader(file, str(path)).header
