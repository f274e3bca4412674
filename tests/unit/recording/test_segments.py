"""The bytes of a segment: what is read of one that is cut, damaged or not finished."""

import itertools

import pytest

from tests.helpers import recordings
from tests.helpers.recordings import (
    BEGIN,
    delta_frame,
    encoded,
    end_frame,
    header,
    read,
    read_until_error,
    readable,
    state_frame,
)
from trireme.recording import segment_format
from trireme.recording.segment_reader import RecordingError
from trireme.v1 import recording_pb2, snapshot_pb2

FRAMES = [state_frame(1), *(delta_frame(number, BEGIN + number, f"uid-{number}") for number in range(2, 5))]
FRAMES.append(end_frame(BEGIN + 7))
PARTS = encoded(header(), FRAMES)
WHOLE = b"".join(PARTS)
# Where each part ends.
ENDS = list(itertools.accumulate(len(part) for part in PARTS))


def test_what_was_written_is_read() -> None:
    """A written segment reads back equal."""
    frames, reader = read(WHOLE)
    assert frames == FRAMES
    assert reader.header == header()
    assert (reader.torn_at, reader.ended, reader.offset) == (None, True, len(WHOLE))


def test_a_segment_that_is_cut_at_any_byte_gives_the_frames_before_it() -> None:
    """A crash would lose more than the frame that was being written, or a reader would fail on what it left."""
    for cut in range(len(WHOLE)):
        frames, reader = read(WHOLE[:cut])
        whole = sum(end <= cut for end in ENDS[1:])
        assert frames == FRAMES[:whole], cut
        last_end = max((end for end in ENDS if end <= cut), default=0)
        assert reader.torn_at == (None if cut == last_end and cut else last_end), cut
        assert not reader.ended


def test_a_flipped_bit_gives_the_frames_before_it_or_an_error_and_never_others() -> None:
    """A replay would decide on a cluster that never was."""
    refused = 0
    for position in range(len(WHOLE)):
        before = sum(end <= position for end in ENDS[1:])
        for bit in range(8):
            damaged = bytearray(WHOLE)
            damaged[position] ^= 1 << bit
            frames, error = read_until_error(bytes(damaged))
            assert frames == FRAMES[:before], (position, bit)
            if error is None:
                # The length of the header alone can make the file look cut.
                assert position < segment_format.PREAMBLE.size
            else:
                refused += 1
                assert error.offset in (0, *ENDS)
                assert error.offset <= position
    assert refused > 8 * (len(WHOLE) - segment_format.PREAMBLE.size)


@pytest.mark.parametrize("zeros", [1, 11, 12, 400, 100_000])
@pytest.mark.parametrize("end", [0, ENDS[0], ENDS[2]], ids=["at-the-beginning", "behind-the-header", "behind-a-frame"])
def test_zeros_at_the_end_are_a_torn_tail(end: int, zeros: int) -> None:
    """A file system may have made the file longer and not written it, when the machine crashed."""
    frames, reader = read(WHOLE[:end] + bytes(zeros))
    assert (reader.torn_at, frames) == (end, FRAMES[: sum(each <= end for each in ENDS[1:])])


def test_zeros_before_something_else_are_damage() -> None:
    """A hole in the middle of a file would be taken for its end."""
    with pytest.raises(RecordingError, match=f"byte {ENDS[1]}: there are zeros"):
        read(WHOLE[: ENDS[1]] + bytes(12) + WHOLE[ENDS[1] + 12 :])


def test_frames_are_not_read_out_of_order() -> None:
    """Each frame is whole; but the deltas would make another cluster."""
    for first, second in itertools.combinations(range(1, len(PARTS)), 2):
        swapped = PARTS.copy()
        swapped[first], swapped[second] = swapped[second], swapped[first]
        with pytest.raises(RecordingError):
            read(b"".join(swapped))
        assert readable(b"".join(swapped)) == FRAMES[: first - 1]
    other = encoded(header(instance="another"), FRAMES)
    assert readable(PARTS[0] + b"".join(other[1:])) == []


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"PK\x03\x04", "byte 0: this is no recording", id="another-format"),
        pytest.param(WHOLE + b"x", "bytes behind the frame that ends", id="more-behind-the-end"),
        pytest.param(
            segment_format.PREAMBLE.pack(segment_format.MAGIC, 2, 1, 0),
            "format version 2; this release reads 1",
            id="version",
        ),
        pytest.param(
            segment_format.PREAMBLE.pack(segment_format.MAGIC, 1, 9, 0), "compression 9; this release", id="compression"
        ),
        pytest.param(
            segment_format.PREAMBLE.pack(segment_format.MAGIC, 1, 1, 1 << 31), "a header of 2147483648 bytes", id="long"
        ),
    ],
)
def test_what_cannot_be_read_is_named(content: bytes, problem: str) -> None:
    """Who has a file of another kind or release would look for a damaged disk."""
    with pytest.raises(RecordingError, match=problem):
        read(content)


def test_a_frame_with_content_that_is_unknown_is_passed_on() -> None:
    """A recording of a newer release could not be read, though its format is the same."""
    unknown = recording_pb2.RecordedFrame.FromString(b"\x08\x01\x9a\x06\x02\x08\x01")  # field 99, a message
    frames, _ = read(b"".join(encoded(header(), [unknown, FRAMES[1]])))
    assert [frame.WhichOneof("content") for frame in frames] == [None, "message"]


@pytest.mark.parametrize("size", [0, 1, 127, 128, 300, 20_000, 3_000_000])
def test_a_message_is_put_into_a_frame_as_protobuf_does(size: int) -> None:
    """It is written around the message's bytes by hand."""
    request = snapshot_pb2.SyncRequest(delta=snapshot_pb2.Delta(removed_nominations=["x" * size]))
    frame = recording_pb2.RecordedFrame(unix_time_ns=BEGIN, message=request)
    assert segment_format.message_frame(BEGIN, request.SerializeToString()) == frame.SerializeToString()
    assert recordings.readable(b"".join(encoded(header(), [frame]))) == [frame]
