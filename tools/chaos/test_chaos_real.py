"""The short form of `make chaos`: forty faults on real processes, and nothing left behind where it is interrupted."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

from tools.chaos import chaos_isolation
from tools.controlplane import launcher

pytestmark = [pytest.mark.controlplane, pytest.mark.slow]

FAULTS = 40
INTERVAL_SECONDS = 2.3
"""They overlap, which is harder on the processes, and says nothing of how long one fault is felt."""


@pytest.fixture(autouse=True)
def _possible() -> None:
    why = chaos_isolation.missing()
    if why:
        pytest.skip(f"needs root or user namespaces, and iptables: {why}")


def command(*flags: str) -> list[str]:
    """The command line of a run that ends with its test."""
    return launcher.ending_with_parent([sys.executable, "-u", "-m", "tools.chaos.chaos", *flags])


@pytest.mark.timeout(400)
def test_forty_faults_lose_no_pod_bind_none_twice_and_overcommit_no_node(tmp_path: pathlib.Path) -> None:
    """Kills, pauses, cut networks, clocks that jump, restarts of the control plane and a full disk, under load."""
    result = tmp_path / "result.json"
    flags = (f"--faults={FAULTS}", f"--interval={INTERVAL_SECONDS}", f"--result={result}")
    outcome = subprocess.run(command(*flags), capture_output=True, text=True, check=False, cwd=launcher.REPOSITORY)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    document = json.loads(result.read_text())
    assert document["faults_injected"] == FAULTS
    assert not document["violation_list"]


@pytest.mark.timeout(300)
def test_an_interrupted_run_leaves_nothing_behind(tmp_path: pathlib.Path) -> None:
    """As with Ctrl-C, even in the middle of a program that it runs: every process and file is gone."""
    path = f"{slow_iptables(tmp_path / 'bin')}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TMPDIR": str(tmp_path)}
    run = subprocess.Popen(
        command("--seed=1"),
        stdout=subprocess.PIPE,
        text=True,
        cwd=launcher.REPOSITORY,
        env=environment,
        start_new_session=True,
    )
    try:
        assert run.stdout is not None
        assert " cut " in run.stdout.readline(), "the first fault of this seed is to run iptables"
        assert processes_with(str(tmp_path))
        os.killpg(run.pid, signal.SIGINT)
        assert run.wait(120) == 130
    finally:
        run.kill()
        run.stdout.close()
    assert not processes_with(str(tmp_path))
    assert not list(tmp_path.glob("trireme-chaos-*"))


def slow_iptables(folder: pathlib.Path) -> pathlib.Path:
    """A folder with an `iptables` that takes a second, so that the interruption comes while it runs."""
    folder.mkdir()
    program = folder / "iptables"
    program.write_text(f'#!/bin/sh\nsleep 1\nexec {shutil.which("iptables")} "$@"\n')
    program.chmod(0o755)
    return folder


def processes_with(text: str) -> list[str]:
    """The command lines that have it."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes().decode(errors="replace") if entry.name.isdigit() else ""
        except OSError:
            continue  # it has ended
        if text in line:
            found.append(line)
    return found
