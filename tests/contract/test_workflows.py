"""The workflow files are valid, and call targets that there are."""

import pathlib
import re
import subprocess

import pytest
import yaml

from tools.programs import build_programs, programs_fixture

ROOT = build_programs.REPOSITORY
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yaml"))


def test_workflows_are_valid() -> None:
    """A workflow with a mistake does not run, and nobody notices until a release."""
    programs_fixture.require_programs()
    command = [str(build_programs.ACTIONLINT), "-no-color", "-shellcheck=", "-pyflakes=", *map(str, WORKFLOWS)]
    linted = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert linted.returncode == 0, linted.stdout


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_targets_that_there_are(workflow: pathlib.Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called: set[str] = set()
    for job in yaml.safe_load(workflow.read_text())["jobs"].values():
        called |= {name for step in job["steps"] for name in re.findall(r"\bmake ([a-z-]+)", step.get("run", ""))}
        called |= {text.split()[0] for text in job.get("strategy", {}).get("matrix", {}).get("target", ())}
    assert called <= targets
