"""A simulated soak counts what every process holds, and its report tells growth from none."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from tools.soak import container_sizes, simulated_soak

ROOT = pathlib.Path(__file__).parents[2]


class _Holder:
    __slots__ = ("by_name", "listed")

    def __init__(self) -> None:
        self.by_name: dict[str, Any] = {"a": [1, 2, 3], "b": [4]}
        self.listed = [_Held(), _Held()]


class _Held:
    def __init__(self) -> None:
        self.names = {"x", "y"}
        self.back = self


def test_all_entries_are_counted_by_what_holds_them() -> None:
    """If this fails, something may grow that no sample shows."""
    assert container_sizes.sizes(_Holder(), __name__) == {
        "_Holder.by_name": 2,
        "_Holder.by_name[]": 4,
        "_Holder.listed": 2,
        "_Held.names": 4,
    }


def test_objects_of_other_packages_are_left_out() -> None:
    """If this fails, counts are of libraries and of the other processes, which they share."""
    assert container_sizes.sizes([_Holder()], "another") == {"": 1}


@pytest.mark.parametrize(("per_sample", "exit_code"), [(0, 0), (1, 1)])
def test_a_report_fails_where_something_grows(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], per_sample: int, exit_code: int
) -> None:
    """The exit code says what the table says."""
    series = {
        "bind-0: A.b": [(900.0 * number, 20 + per_sample * number + number % 2, "1") for number in range(96)],
        "bind-0: A.c": [(900.0 * number, 7, "1") for number in range(96)],
    }
    file = tmp_path / "soak.json"
    file.write_text(json.dumps({"summary": "24 virtual hours", "series": series}))
    assert simulated_soak.report(file) == exit_code
    said = capsys.readouterr().out
    assert ("GROWS" in said) == bool(exit_code)
    assert "24 virtual hours; 2 quantities, 1 of which never change" in said


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_short_simulated_soak_samples_every_process(tmp_path: pathlib.Path) -> None:
    """What was not sampled cannot be seen to grow."""
    file = tmp_path / "soak.json"
    command = [sys.executable, "-m", "tools.soak.simulated_soak", "--hours=0.5", f"--result={file}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " nodes replaced" in done.stdout
    series = json.loads(file.read_text())["series"]
    for process in ("filter-0", "filter-1", "score-0", "score-1", "bind-0", "bind-1", "frontend-0", "frontend-1"):
        for quantity in ("tasks", "connections"):
            values = [value for _, value, _ in series[f"{process}: {quantity}"]]
            assert len(values) == 2
            assert min(values) > 0
    assert {
        "filter-0: Snapshot.classes",
        "bind-0: BindingWriter._jobs",
        "frontend-0: ClassRegistry._ids",
    } <= series.keys()
    pods = [value for _, value, _ in series["API server: pods"]]
    assert len(set(pods)) == 1, "the load is not steady"
