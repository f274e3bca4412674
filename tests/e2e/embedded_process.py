"""An embedded cluster as a process of its own, and the programs that end-to-end tests use against it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent.parent
CONTROLPLANE = REPOSITORY / "build" / "controlplane"
STOP_SECONDS = 10.0


async def eventually(check: Callable[[], Awaitable[bool]], seconds: float = 20.0) -> None:
    """Waits until `check` says yes; fails after so many seconds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not await check():
        if loop.time() > end:
            raise AssertionError(f"not within {seconds} s")
        await asyncio.sleep(0.01)


def kubectl_command() -> list[str]:
    """How to run kubectl: TRIREME_KUBECTL, or the one in the control plane's binary; skips the test without either."""
    named = os.environ.get("TRIREME_KUBECTL")
    if named:
        return [named]
    return [*controlplane_command(), "kubectl"]


def controlplane_command() -> list[str]:
    """How to run a program of the real control plane; skips the test where it is not built."""
    if os.access(CONTROLPLANE, os.X_OK):
        return [str(CONTROLPLANE)]
    missing = "no kubectl: set TRIREME_KUBECTL, or build the control plane with `make controlplane` (needs Go)"
    if os.environ.get("CI") == "true":
        pytest.fail(missing)
    pytest.skip(missing)


@contextlib.contextmanager
def program(command: list[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that ends with the block."""
    process = subprocess.Popen(command, text=True, **options)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@dataclass(frozen=True)
class Running:
    """A running embedded cluster."""

    url: str
    kubeconfig: Path

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Runs kubectl and answers what it printed; raises AssertionError with its words where it failed."""
        command = [*kubectl_command(), "--kubeconfig", str(self.kubeconfig), *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(arguments)}\n{done.stdout}{done.stderr}")
        return done.stdout if check else done.stdout + done.stderr


@contextlib.contextmanager
def embedded_cluster(directory: Path, *flags: str) -> Iterator[Running]:
    """`python -m trireme_kube.embedded` with these flags, ready."""
    kubeconfig = directory / "kubeconfig"
    command = [sys.executable, "-m", "trireme_kube.embedded", "--kubeconfig", str(kubeconfig), *flags]
    with (
        (directory / "embedded.log").open("w") as log,
        program(command, stdout=subprocess.PIPE, stderr=log) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        if " at http" not in line:
            raise AssertionError((directory / "embedded.log").read_text())
        yield Running(line.rpartition(" ")[2].strip(), kubeconfig)
        process.stdout.close()


@contextlib.contextmanager
def real_scheduler(cluster: Running, directory: Path) -> Iterator[None]:
    """The real kube-scheduler, on the embedded cluster."""
    flags = [f"--kubeconfig={cluster.kubeconfig}", "--leader-elect=false", "--secure-port=0"]
    with (
        (directory / "kube-scheduler.log").open("w") as log,
        program([*controlplane_command(), "kube-scheduler", *flags], stdout=log, stderr=log),
    ):
        yield
