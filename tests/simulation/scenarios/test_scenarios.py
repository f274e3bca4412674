"""What insight says would happen is what a whole Trireme does on a real control plane, on scenarios of each kind."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[3]
# Two scenarios of each kind.
SCENARIOS = 26


@pytest.mark.controlplane
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_was_said_happens() -> None:
    """If this fails, an answer of `trireme simulate` is not what the scheduler does."""
    module = "tests.simulation.scenarios.compare_scenarios"
    command = [sys.executable, "-m", module, "--seed=12", f"--scenarios={SCENARIOS}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    compared = dict(re.findall(r"^([a-z-]+) +(\d+) scenarios +0 differences$", done.stdout, re.MULTILINE))
    assert len(compared) == SCENARIOS // 2
    assert set(compared.values()) == {"2"}
    placed = re.search(r"'placed': (\d+)", done.stdout)
    assert placed is not None
    assert int(placed[1]) > SCENARIOS
