"""The segments of a folder: how much they take, how old they get, and what a crash or a full disk leaves."""

import errno
import os
import pathlib
import random
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.helpers.recordings import BEGIN, SECOND, delta_frame, header, read, size_of, state_frame, write
from trireme.recording import segment_folder, segment_writer
from trireme.recording.segment_writer import Limits, RecordingWriter

MIB = 1 << 20
HOUR = 3600.0
LIMITS = Limits(MIB, HOUR)


def noise(size: int, seed: int = 0) -> str:
    """Text that does not compress below half its size."""
    return random.Random(seed).randbytes(size // 2).hex()


_MADE: list[RecordingWriter] = []
# Seconds of the clock that is never set.
_STEADY = [0.0]


@pytest.fixture(autouse=True)
def _close_files() -> Iterator[None]:
    yield
    while _MADE:
        writer = _MADE.pop()
        writer.abandon()
        writer.release()


def made(folder: pathlib.Path, limits: Limits = LIMITS) -> RecordingWriter:
    """A writer whose files are closed behind the test."""
    _MADE.append(RecordingWriter(folder, limits, lambda: _STEADY[0]))
    return _MADE[-1]


def begun(folder: pathlib.Path, limits: Limits = LIMITS, at: int = BEGIN) -> RecordingWriter:
    writer = made(folder, limits)
    writer.begin(header(at))
    write(writer, state_frame(1, at))
    return writer


def numbers(folder: pathlib.Path) -> list[int]:
    return [segment.number for segment in segment_folder.list_segments(folder)]


@pytest.mark.slow
def test_all_segments_together_stay_below_the_limit_at_any_moment(tmp_path: pathlib.Path) -> None:
    """A disk that others need would fill up."""
    writer = begun(tmp_path)
    now, generation, rotations = BEGIN, 1, 0
    for number in range(600):
        now += SECOND
        generation += 1
        write(writer, delta_frame(generation, now, noise(8000, number)))
        assert size_of(tmp_path) == writer.total_bytes <= MIB
        if writer.is_due(now):
            rotations += 1
            writer.begin(header(now, continuous=True))
            write(writer, state_frame(generation, now))
        assert size_of(tmp_path) <= MIB
    assert rotations > 10
    assert size_of(tmp_path) > MIB // 2
    assert numbers(tmp_path) == list(range(numbers(tmp_path)[0], rotations + 2))
    # What is deleted is the oldest, and what remains is whole.
    for segment in segment_folder.list_segments(tmp_path)[:-1]:
        assert read(segment.path.read_bytes())[1].ended


def test_nothing_older_than_the_limit_remains(tmp_path: pathlib.Path) -> None:
    """Names of pods would be stored for longer than the limit of age allows."""
    writer = begun(tmp_path, Limits(MIB, HOUR))
    now = BEGIN
    for generation in range(2, 300):
        now += 60 * SECOND
        _STEADY[0] += 60
        write(writer, delta_frame(generation, now))
        writer.delete_expired(now)
        if writer.is_due(now):
            writer.begin(header(now, continuous=True))
            write(writer, state_frame(generation, now))
        starts = [segment.start_ns for segment in segment_folder.list_segments(tmp_path)]
        assert now - min(starts) <= HOUR * SECOND
    assert now - min(starts) > HOUR * SECOND * 3 / 4
    # A segment that nothing follows does not stay either.
    _STEADY[0] += 2 * HOUR
    writer.delete_expired(now + int(2 * HOUR) * SECOND)
    assert not writer.active
    assert numbers(tmp_path) == []
    writer.begin(header(now))
    assert len(numbers(tmp_path)) == 1


def test_a_clock_that_is_set_back_begins_a_segment(tmp_path: pathlib.Path) -> None:
    """The segment would not be due before the clock is where it was."""
    writer = begun(tmp_path)
    assert not writer.is_due(BEGIN)
    assert writer.is_due(BEGIN - int(HOUR) * SECOND)


@pytest.mark.parametrize("step", [48 * HOUR, -48 * HOUR], ids=["forward", "back"])
def test_a_step_of_the_wall_clock_deletes_nothing(
    tmp_path: pathlib.Path, step: float, caplog: pytest.LogCaptureFixture
) -> None:
    """One second of a wrong clock would delete every recording, or what is recorded then would never be deleted."""
    begun(tmp_path).end(BEGIN)
    _MADE.pop().release()
    writer = begun(tmp_path, at=BEGIN + SECOND)
    set_by = int(step) * SECOND
    for now in (BEGIN + 2 * SECOND, BEGIN + set_by + 3 * SECOND, BEGIN + set_by + 4 * SECOND):
        _STEADY[0] += 1
        writer.delete_expired(now)
    assert numbers(tmp_path) == [1, 2]
    assert [each.levelname for each in caplog.records if "wall clock was set" in each.message] == ["WARNING"]
    writer.begin(header(BEGIN + set_by + 4 * SECOND, continuous=True))
    write(writer, state_frame(2, BEGIN + set_by + 4 * SECOND))
    # The clock is right again; what was recorded meanwhile ages as all else does.
    _STEADY[0] += HOUR - 1
    writer.delete_expired(BEGIN + (int(HOUR) + 3) * SECOND)
    assert numbers(tmp_path) == [3]
    _STEADY[0] += 5
    writer.delete_expired(BEGIN + (int(HOUR) + 8) * SECOND)
    assert numbers(tmp_path) == []


def test_a_large_state_is_not_written_again_and_again(tmp_path: pathlib.Path) -> None:
    """A state larger than a segment's share of the limit would be followed by the next one at once."""
    writer = made(tmp_path)
    writer.begin(header())
    state = state_frame(1)
    state.message.delta.removed_nominations.append(noise(600_000))
    write(writer, state)
    state_size = size_of(tmp_path)
    assert state_size > MIB // 8
    generation = 1
    while not writer.is_due(BEGIN):
        generation += 1
        write(writer, delta_frame(generation, BEGIN, noise(8000, generation)))
    assert size_of(tmp_path) >= 2 * state_size


def test_a_state_that_does_not_fit_is_refused(tmp_path: pathlib.Path) -> None:
    """The limit would not hold."""
    writer = begun(tmp_path)
    with pytest.raises(segment_writer.RecordingFullError, match="1048576 bytes do not suffice"):
        write(writer, delta_frame(2, BEGIN, noise(3 * MIB)))
    assert size_of(tmp_path) <= MIB
    writer.abandon()
    assert len(numbers(tmp_path)) == 1


@pytest.mark.slow
def test_a_restart_after_a_crash_continues_with_a_segment_of_its_own(tmp_path: pathlib.Path) -> None:
    """The tail of a segment that is torn would be followed by frames that nobody can read."""
    crashed = begun(tmp_path)
    write(crashed, delta_frame(2))
    (path,) = tmp_path.glob("*.trireme")
    content = path.read_bytes()
    crashed.release()  # as the end of a process does
    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        writer = begun(tmp_path, at=BEGIN + SECOND)
        writer.end(BEGIN + SECOND)
        writer.release()
        assert path.read_bytes() == content[:cut]
        (_, second) = segment_folder.list_segments(tmp_path)
        assert second.number == 2
        assert read(second.path.read_bytes())[1].ended
        second.path.unlink()


def test_two_processes_do_not_share_a_folder(tmp_path: pathlib.Path) -> None:
    """Each would delete what the other has just written."""
    first = begun(tmp_path)
    second = made(tmp_path)
    with pytest.raises(segment_writer.FolderInUseError, match="another process"):
        second.begin(header())
    first.end(BEGIN)
    first.release()
    second.begin(header())
    assert numbers(tmp_path) == [1, 2]


@pytest.mark.parametrize("removed", ["folder", "segment", "lock"])
def test_what_is_removed_while_it_is_written_is_noticed_and_made_again(tmp_path: pathlib.Path, removed: str) -> None:
    """What follows would go to a file that nobody can open; without the lock, a second process writes too."""
    folder = tmp_path / "recordings"
    writer = begun(folder)
    writer.sync()
    if removed == "folder":
        shutil.rmtree(folder)
    else:
        (folder / (segment_writer.LOCK_NAME if removed == "lock" else segment_folder.file_name(1))).unlink()
    with pytest.raises(segment_writer.RecordingRemovedError, match="was removed"):
        writer.sync()
    writer.abandon()
    writer.begin(header(BEGIN + SECOND))
    write(writer, state_frame(2, BEGIN + SECOND))
    writer.sync()
    assert numbers(folder)[-1:] == [2]
    with pytest.raises(segment_writer.FolderInUseError):
        made(folder).begin(header(BEGIN))


def test_other_files_are_left_alone(tmp_path: pathlib.Path) -> None:
    """Somebody's export, or a file that has nothing to do with it, would be deleted as the oldest."""
    others = ["incident.trireme", "recording-1.trireme", "notes"]
    for name in others:
        (tmp_path / name).write_bytes(bytes(2 * MIB))
    writer = begun(tmp_path)
    _STEADY[0] += 5 * HOUR
    writer.delete_expired(BEGIN + int(5 * HOUR) * SECOND)
    assert numbers(tmp_path) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*others, segment_writer.LOCK_NAME])


def test_files_are_for_their_owner_alone(tmp_path: pathlib.Path) -> None:
    """They hold the names and labels of everybody's pods."""
    folder = tmp_path / "new" / "folder"
    begun(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.glob("*.trireme")} == {0o600}


class FullDisk:
    """A file to which only so many bytes can be written, in pieces."""

    def __init__(self, file: Any, room: int) -> None:
        self._file = file
        self._room = room

    def write(self, content: memoryview) -> int:
        if not self._room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        piece = content[: min(self._room, 7)]
        self._room -= len(piece)
        written: int = self._file.write(piece)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@pytest.mark.parametrize("room", [0, 1, 50, 150, 2000])
def test_a_full_disk_leaves_what_is_readable(tmp_path: pathlib.Path, room: int) -> None:
    """Frames would be lost that were written, or read that were not."""
    writer = begun(tmp_path)
    assert writer._file is not None
    writer._file = FullDisk(writer._file, room)
    generation = 1

    def write_on() -> None:
        nonlocal generation
        while True:
            write(writer, delta_frame(generation + 1, BEGIN, noise(200, generation)))
            generation += 1

    with pytest.raises(OSError, match="No space left"):
        write_on()
    writer.abandon()
    (path,) = tmp_path.glob("*.trireme")
    frames, reader = read(path.read_bytes())
    assert frames[-1].message.delta.to_generation == generation
    assert (reader.torn_at is None) == (room == 0)
    assert writer.total_bytes == size_of(tmp_path)
    writer.begin(header())
    assert numbers(tmp_path) == [1, 2]


def test_a_segment_without_its_full_state_is_deleted(tmp_path: pathlib.Path) -> None:
    """Nobody can read it, and the disk is full."""
    writer = made(tmp_path)
    writer.begin(header())
    writer.abandon()
    assert numbers(tmp_path) == []
    assert writer.total_bytes == 0


@pytest.mark.parametrize("fails", ["fsync", "write"])
def test_a_segment_that_cannot_be_ended_is_an_error(
    tmp_path: pathlib.Path, fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What insight logs and counts; the segment before it stays readable."""
    writer = begun(tmp_path)

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "no")

    failing: Callable[..., None] = fail
    if fails == "fsync":
        monkeypatch.setattr(os, "fsync", failing)
    else:
        monkeypatch.setattr(writer, "_write", failing)
    with pytest.raises(OSError, match="no"):
        writer.begin(header(BEGIN + SECOND))
    writer.abandon()
    monkeypatch.undo()
    assert [frame.message.delta.to_generation for frame in read_first(tmp_path)] == [1, 0][
        : 2 if fails == "fsync" else 1
    ]


def read_first(folder: pathlib.Path) -> list[Any]:
    return read(min(folder.glob("*.trireme")).read_bytes())[0]
