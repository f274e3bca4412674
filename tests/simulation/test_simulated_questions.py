"""What insight says would happen is what a whole Trireme does, on random scenarios."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]

RUNS = (("--seed=1",), ("--seed=2",), ("--seed=1", "--several"))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(len(RUNS)))
def test_pods_go_where_insight_said(number: int) -> None:
    """If this fails, an answer of `trireme simulate` is not what the scheduler does."""
    command = [sys.executable, "-m", "tests.simulation.simulated_questions", *RUNS[number], "--scenarios=15"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{RUNS[number]}:\n{done.stdout}{done.stderr}"
    assert "15 scenarios" in done.stdout
    assert not done.stdout.splitlines()[-1].partition(": ")[2].startswith("0 pods placed")
