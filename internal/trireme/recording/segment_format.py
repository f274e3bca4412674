"""The bytes of a segment: a header, then frames, each with its lengths and checksums (docs/recording.md).

Invariants: each checksum continues the one before, so a frame is valid only behind the frames that it was written
behind; a prefix of a segment is a segment whose tail is torn.

Also change: docs/recording.md.
Also change: protos/trireme/v1/recording.proto (the messages).

Tests: tests/unit/recording/test_segments.py.
"""

import struct
import zlib

from trireme.v1 import recording_pb2
from trireme_kube.apimachinery import protobuf_wire

MAGIC = b"\x89TRIREC\n"
VERSION = 1
# The only compression. Recordings are read on other machines, and Python has zstd from 3.14 on.
DEFLATE = 1

# Magic, version, compression, length of the header's message.
PREAMBLE = struct.Struct("<8sHHI")
# Length of the compressed message, length of the message; a checksum follows.
LENGTHS = struct.Struct("<II")
CHECKSUM = struct.Struct("<I")
FRAME_HEAD_BYTES = LENGTHS.size + CHECKSUM.size

# The longest message of a frame; gRPC messages of the stream are up to 64 MiB.
LONGEST_MESSAGE = 128 << 20
# No frame that ends a segment is longer.
END_BYTES = 64

# The tag of RecordedFrame.message: its field number, and that it has a length.
_MESSAGE_TAG = bytes([recording_pb2.RecordedFrame.MESSAGE_FIELD_NUMBER << 3 | 2])

# Raw deflate: the checksums of zlib's own format would be a second pair.
_WINDOW_BITS = -15
# The fastest: of 3,000 deltas that place 60,000 pods it leaves 50% where level 6 leaves 47% and takes twice the time.
_LEVEL = 1


def encode_header(header: recording_pb2.RecordingHeader) -> bytes:
    """The bytes with which a segment begins."""
    message = header.SerializeToString()
    content = PREAMBLE.pack(MAGIC, VERSION, DEFLATE, len(message)) + message
    return content + CHECKSUM.pack(zlib.crc32(content))


def message_frame(unix_time_ns: int, request: bytes) -> bytes:
    """A RecordedFrame, serialised, of a message that is serialised already: to decode it first would take longer."""
    frame = recording_pb2.RecordedFrame(unix_time_ns=unix_time_ns).SerializeToString()
    return b"".join((frame, _MESSAGE_TAG, protobuf_wire.encode_varint(len(request)), request))


class FrameEncoder:
    """Encodes the frames of one segment, in order: each depends on those before it."""

    def __init__(self, header: bytes) -> None:
        """`header`: the bytes with which the segment begins."""
        (self._checksum,) = CHECKSUM.unpack(header[-CHECKSUM.size :])
        self._compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW_BITS)

    def encode(self, message: bytes) -> bytes:
        """The next frame, of a serialised RecordedFrame."""
        # The flush ends at a byte boundary, and what was compressed so far can be read.
        payload = self._compressor.compress(message) + self._compressor.flush(zlib.Z_SYNC_FLUSH)
        lengths = LENGTHS.pack(len(payload), len(message))
        of_head = zlib.crc32(lengths, self._checksum)
        self._checksum = zlib.crc32(payload, of_head)
        return b"".join((lengths, CHECKSUM.pack(of_head), payload, CHECKSUM.pack(self._checksum)))


class FrameDecoder:
    """Decodes the frames of one segment, in order."""

    def __init__(self, checksum: int) -> None:
        """`checksum`: that of the header."""
        self._checksum = checksum
        self._decompressor = zlib.decompressobj(_WINDOW_BITS)

    def read_head(self, head: bytes) -> tuple[int, int]:
        """The lengths of the payload and of the message. Raises: ValueError."""
        lengths = head[: LENGTHS.size]
        (stored,) = CHECKSUM.unpack(head[LENGTHS.size :])
        of_head = zlib.crc32(lengths, self._checksum)
        if stored != of_head:
            raise ValueError("the checksum of the frame's lengths does not match")
        payload, message = LENGTHS.unpack(lengths)
        if message > LONGEST_MESSAGE or payload > LONGEST_MESSAGE:
            raise ValueError(f"a frame of {max(payload, message)} bytes is longer than {LONGEST_MESSAGE}")
        self._checksum = of_head
        return payload, message

    def decode(self, payload: bytes, checksum: bytes, length: int) -> bytes:
        """The message of so many bytes, after `read_head`. Raises: ValueError."""
        (stored,) = CHECKSUM.unpack(checksum)
        self._checksum = zlib.crc32(payload, self._checksum)
        if stored != self._checksum:
            raise ValueError("the checksum of the frame does not match")
        try:
            # One byte more than expected: a limit that is reached would leave the end of the block unread.
            message = self._decompressor.decompress(payload, length + 1)
        except zlib.error as error:
            raise ValueError(f"the frame cannot be decompressed: {error}") from error
        if len(message) != length or self._decompressor.unconsumed_tail or self._decompressor.eof:
            raise ValueError("the frame does not have the length that it names")
        return message
