"""The frontend as a program on a live API server, until it is told to end.

The API server is an embedded cluster without nodes, one for all cases of a run.
"""

import atexit
import functools
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trireme_kube.componentbase.logs import start_log

FRONTEND = Path(__file__).parents[3] / "cmd" / "frontend"
RUNS_SECONDS = 60.0
RUNS = "caches are synced"
"""Who says so, or has not ended after so long, runs on until it is told to end."""
ENDS_SECONDS = 60.0
_FAILED = re.compile(r'^E.*\] "command failed" err=("(?:[^"\\]|\\.)*")$', re.MULTILINE)


@dataclass(frozen=True)
class Ended:
    """How the program ended."""

    code: int
    signalled: bool
    #: What it says failed; empty for nothing.
    error: str


def environment(home: Path) -> dict[str, str]:
    """What a program of a case has."""
    return {"PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)}


@functools.cache
def kubeconfig() -> Path:
    """The kubeconfig of the cluster, which is there until this process ends."""
    folder = tempfile.TemporaryDirectory(prefix="trireme-live-")
    path = Path(folder.name, "kubeconfig")
    log = Path(folder.name, "log")
    with log.open("wb") as output:
        cluster = subprocess.Popen(
            [sys.executable, "-u", "-m", "trireme_kube.embedded", "--kubeconfig", str(path), "--nodes", "0"],
            env=environment(Path(folder.name)),
            stdout=output,
            stderr=output,
        )

    def end() -> None:
        cluster.terminate()
        cluster.wait()
        folder.cleanup()

    atexit.register(end)
    deadline = time.monotonic() + ENDS_SECONDS
    while "embedded cluster" not in log.read_text():
        if cluster.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the embedded cluster does not start: {log.read_text()}")
        time.sleep(0.05)
    return path


def run(arguments: Sequence[str], folder: Path) -> Ended:
    """Runs the program; tells it to end if it has not by itself."""

    def said() -> str:
        return (folder / "stderr").read_text(errors="replace")

    with (folder / "stderr").open("wb") as output:
        program = subprocess.Popen(
            [sys.executable, str(FRONTEND), *arguments],
            cwd=folder,
            env=environment(folder),
            stdout=subprocess.DEVNULL,
            stderr=output,
        )
    deadline = time.monotonic() + RUNS_SECONDS
    while program.poll() is None and RUNS not in said() and time.monotonic() < deadline:
        time.sleep(0.05)
    signalled = program.poll() is None
    if signalled:
        program.send_signal(signal.SIGTERM)
    try:
        code = program.wait(ENDS_SECONDS)
    finally:
        program.kill()
    failed = _FAILED.findall(said())
    return Ended(code, signalled, str(start_log.unquote(failed[-1])) if failed else "")
