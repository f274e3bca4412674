"""A folder of segments is read as one recording, while its writer goes on."""

import pathlib
from collections.abc import Iterator

import pytest

from tests.helpers.recordings import BEGIN, SECOND, delta_frame, end_frame, header, state_frame, write
from trireme.recording import export, followed_folder, segment_folder, segment_reader, segment_writer
from trireme.v1 import recording_pb2

LIMITS = segment_writer.Limits(1 << 24, 3600.0)


@pytest.fixture(name="writer")
def _writer(tmp_path: pathlib.Path) -> Iterator[segment_writer.RecordingWriter]:
    """A writer whose first segment has a full state."""
    writer = segment_writer.RecordingWriter(tmp_path, LIMITS)
    writer.begin(header())
    write(writer, state_frame(1))
    yield writer
    writer.abandon()
    writer.release()


def followed(folder: pathlib.Path, since_ns: int = BEGIN) -> followed_folder.FollowedFolder:
    segment = followed_folder.start_of(folder, since_ns)
    assert segment is not None
    return followed_folder.FollowedFolder(folder, segment.number)


def all_so_far(reader: followed_folder.FollowedFolder) -> list[recording_pb2.RecordedFrame]:
    """The frames that are there now."""
    return list(iter(reader.next_frame, None))


def test_what_is_written_later_is_read_later(tmp_path: pathlib.Path, writer: segment_writer.RecordingWriter) -> None:
    """The reader would end where the file ended when it was opened."""
    reader = followed(tmp_path)
    assert all_so_far(reader) == [state_frame(1)]
    assert reader.header is not None
    assert all_so_far(reader) == []
    for generation in (2, 3):
        write(writer, delta_frame(generation))
    assert all_so_far(reader) == [delta_frame(2), delta_frame(3)]
    reader.close()


def test_a_frame_is_read_once_it_is_whole(tmp_path: pathlib.Path, writer: segment_writer.RecordingWriter) -> None:
    """A frame that is being written would be taken for the end, or for damage."""
    write(writer, delta_frame(2))
    path = tmp_path / segment_folder.file_name(1)
    whole = path.read_bytes()
    copies = tmp_path / "copies"
    copies.mkdir()
    copy = copies / path.name
    state_ends = next(size for size in range(len(whole)) if _has_state(whole[:size], copy))
    copy.write_bytes(whole[:state_ends])
    reader = followed(copies)
    assert all_so_far(reader) == [state_frame(1)]
    for size in range(state_ends + 1, len(whole)):
        with copy.open("ab") as file:
            file.write(whole[size - 1 : size])
        assert all_so_far(reader) == []
    with copy.open("ab") as file:
        file.write(whole[-1:])
    assert all_so_far(reader) == [delta_frame(2)]
    assert reader.problems == []
    reader.close()


def _has_state(content: bytes, path: pathlib.Path) -> bool:
    path.write_bytes(content)
    return followed_folder.start_of(path.parent, BEGIN) is not None


def test_the_next_segment_continues_without_its_state(
    tmp_path: pathlib.Path, writer: segment_writer.RecordingWriter
) -> None:
    """The state would be applied twice, or what is between two segments be missing."""
    reader = followed(tmp_path)
    all_so_far(reader)
    write(writer, delta_frame(2))
    writer.begin(header(BEGIN + SECOND, continuous=True))
    write(writer, state_frame(2), delta_frame(3))
    assert all_so_far(reader) == [delta_frame(2), delta_frame(3)]
    reader.close()


def test_behind_a_segment_that_was_left_there_is_a_gap(
    tmp_path: pathlib.Path, writer: segment_writer.RecordingWriter
) -> None:
    """Deltas would be applied to a state that they do not follow."""
    reader = followed(tmp_path)
    all_so_far(reader)
    writer.abandon()
    writer.begin(header(BEGIN + SECOND))
    write(writer, state_frame(9, BEGIN + SECOND), delta_frame(10))
    gap, configuration, *frames = all_so_far(reader)
    assert gap.WhichOneof("content") == "gap"
    assert configuration.message.WhichOneof("message") == "hello"
    assert frames == [state_frame(9, BEGIN + SECOND), delta_frame(10)]
    reader.close()


def test_a_segment_that_is_deleted_is_read_to_its_end(
    tmp_path: pathlib.Path, writer: segment_writer.RecordingWriter
) -> None:
    """Insight deletes old segments whenever it needs the room."""
    write(writer, delta_frame(2))
    reader = followed(tmp_path)
    assert reader.next_frame() == state_frame(1)
    writer.begin(header(BEGIN + SECOND, continuous=True))
    write(writer, state_frame(2), delta_frame(3))
    (tmp_path / segment_folder.file_name(1)).unlink()
    assert all_so_far(reader) == [delta_frame(2), delta_frame(3)]
    reader.close()


def test_it_begins_with_the_last_segment_before_a_time(
    tmp_path: pathlib.Path, writer: segment_writer.RecordingWriter
) -> None:
    """A day would be read to show the last minute of it; or a segment without a state, which shows nothing."""
    for number in (1, 2):
        writer.begin(header(BEGIN + number * SECOND, continuous=True))
        write(writer, state_frame(number, BEGIN + number * SECOND))
    writer.begin(header(BEGIN + 3 * SECOND))
    found = {}
    for seconds in (-5, 0, 1.5, 2, 9):
        segment = followed_folder.start_of(tmp_path, BEGIN + round(seconds * SECOND))
        assert segment is not None
        found[seconds] = segment.number
    assert found == {-5: 1, 0: 1, 1.5: 2, 2: 3, 9: 3}
    empty = tmp_path / "empty"
    empty.mkdir()
    assert followed_folder.start_of(empty, BEGIN) is None


def test_damage_ends_a_segment_and_is_named(tmp_path: pathlib.Path, writer: segment_writer.RecordingWriter) -> None:
    """Nothing behind it can be trusted, but the next segment can."""
    write(writer, delta_frame(2))
    path = tmp_path / segment_folder.file_name(1)
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    writer.begin(header(BEGIN + SECOND, continuous=True))
    write(writer, state_frame(2), delta_frame(3))
    reader = followed(tmp_path)
    frames = all_so_far(reader)
    assert [frame.WhichOneof("content") for frame in frames] == ["message", "gap", "message", "message", "message"]
    assert frames[-1] == delta_frame(3)
    assert [type(error) for error in reader.problems] == [segment_reader.RecordingError]
    reader.close()


def test_it_reads_what_an_export_has(tmp_path: pathlib.Path, writer: segment_writer.RecordingWriter) -> None:
    """The same moment of a folder and of its export would show two states."""
    for generation in range(2, 9):
        write(writer, delta_frame(generation))
        if generation % 3 == 0:
            writer.begin(header(BEGIN, continuous=generation != 6))
            write(writer, state_frame(generation))
    target = tmp_path / "exported"
    export.export(tmp_path, target, BEGIN)
    reader = followed(tmp_path)
    frames = all_so_far(reader)
    with target.open("rb") as file:
        assert [*frames, end_frame()] == list(segment_reader.SegmentReader(file, "exported").frames())
    reader.close()
