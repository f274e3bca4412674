"""`trireme record`: check on whole and damaged recordings, and what export joins."""

import json
import os
import pathlib
from typing import Any

import pytest

from tests.helpers.recordings import BEGIN, SECOND, delta_frame, encoded, end_frame, header, read, state_frame, write
from trireme.cli import main
from trireme.recording import export, segment_folder, segment_writer, verification
from trireme.v1 import decision_pb2, recording_pb2, snapshot_pb2
from trireme_kube.componentbase import clocks

HELLO = snapshot_pb2.Hello(config_hash=5)


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """Four segments, a minute each, of three deltas each; nothing is missing between the first two and the last two."""
    out = tmp_path / "recordings"
    writer = segment_writer.RecordingWriter(out, segment_writer.Limits(1 << 20, 3600))
    generation = 1
    for number, (instance, dropped) in enumerate([("i", 0), ("i", 0), ("i", 7), ("i", 0)]):
        at = BEGIN + number * 60 * SECOND
        continuous = number in (1, 3)
        generation += dropped
        writer.begin(header(at, instance=instance, continuous=continuous, dropped_messages=dropped, hello=HELLO))
        write(writer, state_frame(generation, at))
        for second in range(3):
            generation += 1
            write(writer, delta_frame(generation, at + (10 + second) * SECOND))
    writer.end(at + 59 * SECOND)
    writer.release()
    return out


def files(folder: pathlib.Path) -> list[pathlib.Path]:
    return [segment.path for segment in segment_folder.list_segments(folder)]


def check(path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, Any, str]:
    """The exit code, the report, and what is on stderr."""
    code = main.main(["record", "check", str(path), "-o", "json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out) if captured.out else None, captured.err


def generations(path: pathlib.Path) -> list[int | str]:
    """The generations of the deltas of a file; `state` before that of a state, `gap` where one is."""
    out: list[int | str] = []
    for frame in read(path.read_bytes())[0]:
        content = frame.WhichOneof("content")
        if content == "gap":
            out.append("gap")
        elif frame.message.HasField("delta"):
            out += [*(["state"] if frame.state_part else []), frame.message.delta.to_generation]
    return out


def test_check_says_what_a_folder_holds(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "")  # lines are as long as they are
    code, report, errors = check(folder, capsys)
    assert (code, errors) == (0, "")
    assert report == {
        "from": "2023-11-14T22:13:20.000000Z",
        "to": "2023-11-14T22:17:19.000000Z",
        "files": 4,
        "sizeBytes": sum(path.stat().st_size for path in files(folder)),
        "frames": 4 * 5,
        "deltas": 12,
        "queueDeltas": 0,
        "streams": 0,
        "decisions": 0,
        "bindings": 0,
        "missingDecisions": 0,
        "uncountedGaps": 1,
        "releases": ["0"],
        "gaps": [
            {
                "file": str(files(folder)[2]),
                "begin": "2023-11-14T22:14:32.000000Z",
                "end": "2023-11-14T22:15:20.000000Z",
                "reason": "notRecorded",
                "droppedMessages": 7,
            }
        ],
        "torn": [],
        "problems": [],
    }
    assert main.main(["record", "check", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "12 of the cluster, 0 of the queue" in shown
    assert f"2023-11-14T22:15:20.000000Z  notRecorded         7  {files(folder)[2]}" in shown


def test_check_names_file_and_place_of_damage(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody would rely on a recording that cannot be read."""
    damaged = files(folder)[1]
    content = bytearray(damaged.read_bytes())
    content[-30] ^= 4
    damaged.write_bytes(content)
    code, report, errors = check(folder, capsys)
    assert code == 1
    (problem,) = report["problems"]
    assert (problem["file"], problem["problem"]) == (str(damaged), "the checksum of the frame's lengths does not match")
    assert errors == f"Error: {damaged}: byte {problem['offset']}: {problem['problem']}\n"
    # What is behind the damage is missing.
    assert [gap["file"] for gap in report["gaps"]] == [str(path) for path in files(folder)[2:3]]


def test_a_torn_tail_is_no_damage(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every check during an incident would fail, for insight is writing."""
    last = files(folder)[-1]
    last.write_bytes(last.read_bytes()[:-3])
    code, report, errors = check(folder, capsys)
    assert (code, errors) == (0, "")
    assert [(torn["file"], torn["offset"] + torn["sizeBytes"]) for torn in report["torn"]] == [
        (str(last), last.stat().st_size)
    ]


@pytest.mark.parametrize(
    ("frames", "problem"),
    [
        pytest.param([delta_frame(2)], "a message precedes the full state", id="no-state"),
        pytest.param([state_frame(1), delta_frame(3)], "from generation 2 is behind generation 1", id="missing-delta"),
        pytest.param([], "ends before its full state is complete", id="empty"),
    ],
)
def test_check_finds_what_no_checksum_finds(
    frames: list[recording_pb2.RecordedFrame],
    problem: str,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A mistake of the writer would be found when the recording is needed."""
    file = tmp_path / "f"
    file.write_bytes(b"".join(encoded(header(segment=1), [*frames, end_frame()])))
    code, _, errors = check(file, capsys)
    assert code == 1
    assert problem in errors


@pytest.mark.parametrize("name", ["none", ""], ids=["no-such-file", "no-recordings"])
def test_check_of_what_is_not_there(name: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped path would be a recording without damage."""
    code, report, errors = check(tmp_path / name, capsys)
    assert (code, report) == (1, None)
    assert errors.startswith(f"Error: {tmp_path / name}: ")


def test_export_joins_segments_with_one_state_for_each_gap(
    folder: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of some hours would be mostly states; or who reads it would not notice that deltas are missing."""
    target = tmp_path / "incident.trireme"
    assert main.main(["record", "export", "--dir", str(folder), str(target)]) == 0
    assert capsys.readouterr().out.startswith(
        f"{target}: 2023-11-14T22:13:20.000000Z to 2023-11-14T22:16:32.000000Z, 16 frames, "
    )
    third, fourth = files(folder)[2:]
    # The state of the third segment is in it, and that of the second and the fourth are not.
    assert generations(target) == ["state", 1, 2, 3, 4, 5, 6, 7, "gap", *generations(third), *generations(fourth)[2:]]
    code, report, _ = check(target, capsys)
    assert (code, report["deltas"], len(report["gaps"])) == (0, 12, 1)
    (first, *_), reader = read(target.read_bytes())
    assert first.message.delta.reset
    assert reader.header is not None
    assert (reader.header.hello, reader.header.segment) == (HELLO, 0)
    assert target.stat().st_mode & 0o777 == 0o600


def test_export_begins_at_the_segment_that_has_the_time(
    folder: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour's incident would be a day's file, or lack its beginning."""
    monkeypatch.setattr(clocks, "wall_ns", lambda: BEGIN + 4 * 60 * SECOND)
    target = tmp_path / "incident.trireme"
    for since, segment in (("30s", 3), ("1m", 3), ("61s", 2), ("2h", 0)):
        assert main.main(["record", "export", "--since", since, "--dir", str(folder), str(target)]) == 0
        assert generations(target)[1] == generations(files(folder)[segment])[1], since


def test_export_has_all_since_a_time_though_the_clock_was_set_back(tmp_path: pathlib.Path) -> None:
    """The incident before the clock was set would be left out, without a word."""
    folder, target = tmp_path / "recordings", tmp_path / "incident.trireme"
    writer = segment_writer.RecordingWriter(folder, segment_writer.Limits(1 << 20, 1e6))
    for number, at in enumerate([0, 60, 120 - 3600, 180 - 3600], 1):
        time_ns = BEGIN + at * SECOND
        writer.begin(header(time_ns, continuous=number > 1, hello=HELLO))
        write(writer, state_frame(number, time_ns), delta_frame(number + 1, time_ns + SECOND))
    writer.end(time_ns + SECOND)
    writer.release()
    for since, first in ((0, 1), (30, 1), (61, 2), (-3590, 1)):
        export.export(folder, target, BEGIN + since * SECOND)
        assert generations(target) == ["state", *range(first, 6)], since


def test_export_takes_what_can_be_read(
    folder: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One damaged block would take the whole incident."""
    first, second, third, _ = files(folder)
    first.write_bytes(first.read_bytes()[:-5])
    content = bytearray(second.read_bytes())
    content[-30] ^= 4
    second.write_bytes(content)
    third.write_bytes(third.read_bytes()[:60])
    target = tmp_path / "incident.trireme"
    assert main.main(["record", "export", "--dir", str(folder), str(target)]) == 0
    assert f"{second}: byte " in capsys.readouterr().err
    joined = generations(target)
    assert joined[:6] == ["state", 1, 2, 3, 4, "gap"]
    assert joined.count("gap") == 2
    assert verification.verify(target).problems == []


def test_export_reads_only_what_it_needs(
    folder: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day's segments would be read for the last minute; or none before a crash be found."""
    monkeypatch.setattr(clocks, "wall_ns", lambda: BEGIN + 4 * 60 * SECOND)
    first, second, third, fourth = files(folder)
    for damaged, size in ((first, -30), (third, 60)):
        content = damaged.read_bytes()
        damaged.write_bytes(content[:size] + b"x" * 40)
    target = tmp_path / "incident.trireme"
    assert main.main(["record", "export", "--since", "61s", "--dir", str(folder), str(target)]) == 0
    errors = capsys.readouterr().err
    # The third has no full state, so it begins with the second.
    assert str(third) in errors
    assert str(first) not in errors
    assert generations(target) == [*generations(second), "gap", *generations(fourth)]


@pytest.mark.slow
def test_an_exported_file_that_is_cut_is_damaged(
    folder: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A copy that was interrupted would pass for the whole incident."""
    target = tmp_path / "incident.trireme"
    export.export(folder, target, 0)
    content = target.read_bytes()
    target.write_bytes(content[:-3])
    code, _, errors = check(target, capsys)
    assert code == 1
    assert "it was not copied whole" in errors
    # Also where it is cut between two frames.
    for size in range(len(content) - 1, 0, -1):
        target.write_bytes(content[:size])
        assert verification.verify(target).problems


@pytest.mark.parametrize(
    ("size", "problem"),
    [
        pytest.param(0, "the file is empty: nothing can be read", id="empty"),
        pytest.param(10, "the file ends within its header: nothing can be read", id="preamble"),
        pytest.param(30, "the file ends within its header: nothing can be read", id="header"),
        pytest.param(-40, "the file ends before its full state is complete", id="state"),
    ],
)
def test_a_file_of_which_nothing_can_be_read_is_damaged(
    size: int, problem: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`record check FILE && upload` keeps a file that `replay` refuses."""
    head, state = encoded(header(segment=1), [state_frame(1)])
    file = tmp_path / "f"
    file.write_bytes((head + state)[:size])
    code, report, errors = check(file, capsys)
    assert code == 1
    assert report["problems"][0]["file"] == str(file)
    assert problem in errors


@pytest.mark.parametrize("size", [0, 10, 30, None], ids=["empty", "preamble", "header", "state"])
def test_a_folder_that_is_written_to_may_end_anywhere(
    size: int | None, folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every check during an incident would fail; one of a folder without anything in it would pass."""
    last = files(folder)[-1]
    head = len(encoded(header(), [])[0])
    last.write_bytes(last.read_bytes()[: head + 30 if size is None else size])
    code, report, errors = check(folder, capsys)
    assert (code, errors) == (0, "")
    assert [torn["file"] for torn in report["torn"]] == [str(last)]
    for path in files(folder):
        path.write_bytes(path.read_bytes()[:30])
    code, _, errors = check(folder, capsys)
    assert (code, errors) == (1, f"Error: {last}: byte 0: no file of this folder has a whole frame\n")


def test_recordings_in_folders_of_a_folder_are_named(
    folder: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`trireme up --record-dir DIR` records in DIR/insight, and DIR `has no recordings`."""
    own = tmp_path / "dir"
    own.mkdir()
    folder.rename(own / "insight")
    hint = f"; there are recordings in {own / 'insight'}\n"
    code, _, errors = check(own, capsys)
    assert (code, errors) == (1, f"Error: {own}: there are no recordings{hint}")
    assert main.main(["record", "export", "--dir", str(own), str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err == f"Error: {own}: there is no recording with a full state{hint}"


@pytest.mark.parametrize("redact", [False, True])
def test_an_export_to_standard_output_is_the_same_file(
    folder: pathlib.Path, tmp_path: pathlib.Path, capfdbinary: pytest.CaptureFixture[bytes], redact: bool
) -> None:
    """A recording in a container without a shell, and with no room beside it, could not be taken out."""
    target, flags = tmp_path / "incident.trireme", ["--redact"] if redact else []
    assert main.main(["record", "export", *flags, "--dir", str(folder), str(target)]) == 0
    told = capfdbinary.readouterr().out
    assert f"{target.stat().st_size} bytes".encode() in told
    assert main.main(["record", "export", *flags, "--dir", str(folder), "-"]) == 0
    captured = capfdbinary.readouterr()
    if not redact:  # which replaces names by others each time
        assert captured.out == target.read_bytes()
    assert b"standard output: 2023-11-14T22:13:20.000000Z to" in captured.err
    target.write_bytes(captured.out)
    assert verification.verify(target).problems == []


def test_an_export_replaces_what_is_a_file_alone(
    folder: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """/dev/stdout would be a file from then on, for every program of the machine."""
    link, target, pipe = tmp_path / "link", tmp_path / "incident.trireme", tmp_path / "pipe"
    link.symlink_to(target)
    os.mkfifo(pipe)
    for path, reason in ((pipe, "is no regular file"), (tmp_path, "is a directory; name a file in it")):
        assert main.main(["record", "export", "--dir", str(folder), str(path)]) == 1
        assert f"Error: {path}: {reason}" in capsys.readouterr().err
    assert pipe.is_fifo()
    assert main.main(["record", "export", "--dir", str(folder), str(link)]) == 0
    assert link.is_symlink()
    assert verification.verify(target).problems == []
    assert sorted(each.name for each in tmp_path.iterdir()) == ["incident.trireme", "link", "pipe", "recordings"]


def test_nothing_to_export_is_an_error_that_says_how_to_record(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty file would be sent around; or one from before would be lost."""
    advice = ". Insight records where it has --record-dir: `trireme up --record-dir DIR` on one machine, "
    target = tmp_path / "incident.trireme"
    target.write_bytes(b"before")
    assert main.main(["record", "export", "--dir", str(tmp_path), str(target)]) == 1
    start = f"Error: {tmp_path}: there is no recording with a full state{advice}"
    assert capsys.readouterr().err.startswith(start)
    assert main.main(["record", "export", "--dir", str(tmp_path / "none"), str(target)]) == 1
    assert f"none: No such file or directory{advice}" in capsys.readouterr().err
    assert target.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [target]


def test_a_duration_that_is_none_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """All would be exported."""
    for text in ("1d", "-1h"):
        with pytest.raises(SystemExit):
            main.main(["record", "export", f"--since={text}", "f"])
        assert "argument --since: " in capsys.readouterr().err


def test_check_counts_decisions_and_those_that_are_missing(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who replays a recording would not know that a part of the decisions is not in it."""
    monkeypatch.setenv("COLUMNS", "")
    path = tmp_path / "recording.trireme"
    gap = recording_pb2.RecordedFrame(gap=recording_pb2.RecordingGap())
    first, second, third = delta_frame(2), delta_frame(3), delta_frame(10)
    for frame, numbers in ((first, (4, 5)), (second, (8,)), (third, (100, 101))):
        frame.message.decisions.extend(decision_pb2.Decision(number=each).SerializeToString() for each in numbers)
    bound = decision_pb2.Decision(number=102, bound=decision_pb2.BoundPods(uid=["u"]))
    third.message.decisions.append(bound.SerializeToString())
    frames = [state_frame(1), first, second, gap, state_frame(9), third, end_frame()]
    path.write_bytes(b"".join(encoded(header(), frames)))
    code, report, _ = check(path, capsys)
    # A report of bindings is numbered among the decisions, and is none: nobody decides it again.
    assert (code, report["decisions"], report["bindings"], report["missingDecisions"]) == (0, 5, 1, 93)
    # Nobody knows everything about a gap in which insight did not run.
    assert report["uncountedGaps"] == 1
    assert main.main(["record", "check", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "5, and at least 93 missing: how many were in 1 gap is not known" in shown
    assert "1 reports" in shown


def test_check_names_a_decision_that_is_none(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The replay would fail in its middle."""
    path = tmp_path / "recording.trireme"
    frame = delta_frame(2)
    frame.message.decisions.append(b"\xff")
    path.write_bytes(b"".join(encoded(header(), [state_frame(1), frame, end_frame()])))
    code, _, errors = check(path, capsys)
    assert code == 1
    assert "a decision cannot be decoded" in errors


def test_a_silent_frontend_is_a_gap_without_missing_messages(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody would look for messages that never were."""
    monkeypatch.setenv("COLUMNS", "")
    status = snapshot_pb2.SyncRequest(queue=snapshot_pb2.QueueDelta())
    frames = [recording_pb2.RecordedFrame(unix_time_ns=BEGIN + at * SECOND, message=status) for at in (1, 36)]
    path = tmp_path / "incident.trireme"
    path.write_bytes(b"".join(encoded(header(segment=0), [state_frame(1), *frames, end_frame(BEGIN + 36 * SECOND)])))
    assert main.main(["record", "check", str(path)]) == 0
    shown = capsys.readouterr().out
    assert f"2023-11-14T22:13:21.000000Z  2023-11-14T22:13:56.000000Z  noStream         -  {path}" in shown
