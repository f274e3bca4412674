"""A soak of a few seconds gives samples of every process, and its report tells growth from none."""

from __future__ import annotations

import pathlib

import pytest

from tools.soak import soak_load, soak_run

PROCESSES = ("filter-0", "filter-1", "score-0", "score-1", "bind-0", "bind-1", "frontend-0", "frontend-1")


@pytest.mark.slow
@pytest.mark.processes
async def test_a_short_soak_samples_every_process(tmp_path: pathlib.Path) -> None:
    """What was not sampled cannot be seen to grow."""
    shape = soak_load.Shape(pods_per_second=10, lifetime=3, node_period=2, leader_period=600)
    recording = await soak_run.record(tmp_path / "soak", shape, nodes=10, seconds=15, seed=1)
    for process in PROCESSES:
        for quantity in ("private memory", "file descriptors", "threads", "trireme_event_loop_tasks"):
            assert recording.series[f"{process}: {quantity}"][0].value > 0
    assert recording.series["p99 of scheduling, ms"]
    assert recording.pods > 0
    assert recording.node_replacements > 0
    file = tmp_path / "soak.json"
    recording.write(file)
    assert soak_run.Recording.read(file) == recording


@pytest.mark.parametrize(("per_sample", "exit_code"), [(0.0, 0), (1e5, 1)])
def test_a_report_fails_where_something_grows(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], per_sample: float, exit_code: int
) -> None:
    """The exit code says what the table says, and the plot is written in any case."""
    recording = soak_run.Recording()
    for number in range(720):
        recording.seconds = number * 10.0
        recording.add("bind-0: private memory", 5e7 + number * per_sample + number % 7, "1 follows")
    assert soak_run.report(recording, tmp_path / "plot.svg") == exit_code
    assert ("GROWS" in capsys.readouterr().out) == bool(exit_code)
    assert (tmp_path / "plot.svg").read_text().count("<path") > 0


@pytest.mark.parametrize(("hours_of_growth", "exit_code"), [(1, 0), (2, 1)])
def test_the_hour_that_score_takes_to_fill_is_left_out(hours_of_growth: int, exit_code: int) -> None:
    """If this fails, score is always unsure, or growth that goes on is taken for what settles."""
    recording = soak_run.Recording()
    for number in range(720):
        recording.seconds = number * 10.0
        filled = min(number, 360 * hours_of_growth)
        recording.add("score-0: private memory", 5e7 + filled * 1e5 + number % 7, "1 follows")
        leader = number // 360
        recording.add(f"frontend-{leader}: leader_election_master_status", 1, f"{2 + leader} leads")
    assert soak_run.report(recording, None) == exit_code


def test_a_report_names_what_ended_by_itself(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is no failure of the soak, and nobody may have to guess it from the samples."""
    file = tmp_path / "soak.json"
    soak_run.Recording(restarts=["frontend-1 ended with 1: lost the Lease"]).write(file)
    assert soak_run.report(soak_run.Recording.read(file), None) == 0
    said = capsys.readouterr().out
    assert "1 processes that ended by themselves" in said
    assert "started again: frontend-1 ended with 1: lost the Lease" in said


def test_a_report_fails_where_a_pod_was_bound_twice(capsys: pytest.CaptureFixture[str]) -> None:
    """However flat everything is."""
    assert soak_run.report(soak_run.Recording(double_bindings=["pod-1 went from a to b"]), None) == 1
    assert "pod-1 went from a to b" in capsys.readouterr().out
