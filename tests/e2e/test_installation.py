"""The processes that end-to-end tests start."""

import os
import pathlib
import select
import subprocess
import sys

import installation
import launcher

_STARTER = """
import pathlib, sys, time, installation
process = installation.Process("sleeper", ["sleep", "100"], pathlib.Path(sys.argv[1]))
process.start()
print(process.pid, flush=True)
time.sleep(100)
"""


def test_no_process_outlives_whoever_started_it(tmp_path: pathlib.Path) -> None:
    """A worker of pytest that is killed would leave schedulers and clusters behind, which slow down later tests."""
    folders = [str(pathlib.Path(module.__file__ or "").parent) for module in (installation, launcher)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    command = [sys.executable, "-c", _STARTER, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as started:
        assert started.stdout is not None
        handle = os.pidfd_open(int(started.stdout.readline()))
        started.kill()
    readable, _, _ = select.select([handle], [], [], 10.0)  # a pidfd is readable once its process has ended
    os.close(handle)
    assert readable
