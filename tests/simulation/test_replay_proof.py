"""All decisions of a simulated run are the same when they are made again, with and without names."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_recorded_run_of_mixed_load_is_decided_the_same() -> None:
    """If this fails, an evaluation depends on more than what is recorded, and no bug report can be replayed."""
    command = [sys.executable, "-m", "tests.simulation.replay_proof", "--seed=5", "--decisions=1200", "--redact"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    counted = re.findall(r"(plain|redacted): (\d+) decisions are the same, 0 differ", done.stdout)
    assert [kind for kind, _ in counted] == ["plain", "redacted"]
    assert all(int(number) >= 1200 for _, number in counted)
    checked = re.search(r"self-check: (\d+) decisions made again, 0 samples failed, differences: \[{}\]", done.stdout)
    assert checked is not None, done.stdout
    assert int(checked[1]) >= 200
    calls = ("Filter ", "Place ", "Reserve ", "RunPostFilter ", "ScorePodGroupPlacements ")
    assert all(call in done.stdout for call in calls)
    assert re.search(r"answers of the extender: filter \d+, .*prioritize \d+", done.stdout)
    # Beside a remote filter too: else a decision that would differ may be counted as one that cannot be made again.
    assert len(re.findall(r"inexact 0, remote 0, incomplete 0, missing 0, gaps 0", done.stdout)) == 2
