"""Output that cannot be written: which streams of a process are replaced, and which are left as they are."""

import io
import pathlib
import sys

import pytest

from trireme_kube.componentbase.logs import process_output


def test_a_stream_that_is_no_file_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin's author who collects the output in a test would get an error, or nothing."""
    collected = io.StringIO()
    monkeypatch.setattr(sys, "stdout", collected)
    monkeypatch.setattr(sys, "stderr", None)
    process_output.ignore_failed_writes()
    assert sys.stdout is collected
    assert sys.stderr is None


def test_lines_are_written_at_once_and_those_that_cannot_be_are_lost(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    """A log that is read while the process runs would be late, or a full disk end the process."""
    path = tmp_path / "log"
    with path.open("w") as log, pathlib.Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", log)
        monkeypatch.setattr(sys, "stderr", full)
        process_output.ignore_failed_writes()
        print("first")
        assert path.read_text() == "first\n"
        print("lost", file=sys.stderr, flush=True)
        sys.stderr.close()
        sys.stdout.close()
