"""What insight says would happen is what a whole Trireme does on a real control plane, on scenarios of each kind."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
# Two scenarios of each kind.
SCENARIOS = 26


@pytest.mark.controlplane
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_was_said_happens() -> None:
    """If this fails, an answer of `trireme simulate` is not what the scheduler does."""
    folders = (HERE.parent / "controlplane", HERE.parent / "simulation")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    command = [sys.executable, HERE / "compare_scenarios.py", "--seed=12", f"--scenarios={SCENARIOS}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    compared = dict(re.findall(r"^([a-z-]+) +(\d+) scenarios +0 differences$", done.stdout, re.MULTILINE))
    assert len(compared) == SCENARIOS // 2
    assert set(compared.values()) == {"2"}
    placed = re.search(r"'placed': (\d+)", done.stdout)
    assert placed is not None
    assert int(placed[1]) > SCENARIOS
