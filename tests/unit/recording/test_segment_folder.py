"""What counts as a segment of a folder, and what is read of one that changes meanwhile."""

import os
import pathlib
from collections.abc import Sequence

import pytest

from tests.helpers.recordings import BEGIN, encoded, end_frame, header, state_frame
from trireme.recording import export, segment_folder, verification


def segment(folder: pathlib.Path, number: int) -> pathlib.Path:
    """A whole segment."""
    path = folder / segment_folder.file_name(number)
    path.write_bytes(b"".join(encoded(header(BEGIN, segment=number), [state_frame(1), end_frame()])))
    return path


def test_segments_behind_the_last_of_ten_digits_are_found(tmp_path: pathlib.Path) -> None:
    """They were neither read nor deleted, however many there were."""
    segment(tmp_path, 10**10 - 1)
    segment(tmp_path, 10**10)
    assert [each.number for each in segment_folder.list_segments(tmp_path)] == [10**10 - 1, 10**10]
    assert segment_folder.find_next_number(tmp_path, 10**10 - 1) == 10**10


def test_what_is_no_regular_file_is_no_segment(tmp_path: pathlib.Path) -> None:
    """To open a FIFO of a segment's name held up insight's recorder and all commands."""
    segment(tmp_path, 4)
    os.mkfifo(tmp_path / segment_folder.file_name(1))
    (tmp_path / segment_folder.file_name(2)).mkdir()
    (tmp_path / segment_folder.file_name(3)).symlink_to(segment_folder.file_name(4))
    assert [each.number for each in segment_folder.list_segments(tmp_path)] == [4]
    assert segment_folder.find_next_number(tmp_path, 0) == 4


def test_a_segment_that_is_deleted_while_others_are_verified_is_passed_over(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check ended with an error, and said nothing of the others."""
    first, listed = segment(tmp_path, 1), segment_folder.list_segments
    segment(tmp_path, 2)

    def list_and_delete(folder: pathlib.Path) -> Sequence[segment_folder.Segment]:
        found = listed(folder)
        first.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(segment_folder, "list_segments", list_and_delete)
    summary = verification.verify(tmp_path)
    assert (summary.files, summary.problems) == (1, [])


def test_two_exports_to_one_file_do_not_disturb_each_other(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second removed the first's unfinished file, and one of them failed."""
    segment(tmp_path, 1)
    target, export_to = tmp_path / "out.trireme", export.export_to
    inner: list[export.Exported] = []

    def export_within(*args: object, **options: object) -> export.Exported:
        monkeypatch.setattr(export, "export_to", export_to)
        inner.append(export.export(tmp_path, target, 0))
        return export_to(*args, **options)  # type: ignore[arg-type]  # as they were given

    monkeypatch.setattr(export, "export_to", export_within)
    assert export.export(tmp_path, target, 0) == inner[0]
    assert not verification.verify(target).problems
    assert not list(tmp_path.glob(".*"))
