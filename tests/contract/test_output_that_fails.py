"""A full disk for the log, or a log that nobody reads any more, stops no service: not at its start, nor at its end."""

import asyncio
import os
import pathlib
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from trireme_kube.embedded.cluster import EmbeddedCluster

REPOSITORY = pathlib.Path(__file__).parents[2]
START_SECONDS = 60.0
PLUGIN = "examples/plugin-python/pod_limit.py"


@contextmanager
def _output(kind: str) -> Iterator[int]:
    """The descriptor of an output that takes nothing."""
    if kind == "full disk":
        out = os.open("/dev/full", os.O_WRONLY)
    else:
        read, out = os.pipe()
        os.close(read)
    try:
        yield out
    finally:
        os.close(out)


async def _exit_code(command: list[str], output: str, serves: Callable[[], bool]) -> int:
    """Run a program with that output until it serves, then end it."""
    with _output(output) as out:
        process = await asyncio.create_subprocess_exec(sys.executable, *command, cwd=REPOSITORY, stdout=out, stderr=out)
    try:
        async with asyncio.timeout(START_SECONDS):
            while not serves():
                assert process.returncode is None, f"ended with exit code {process.returncode}"
                await asyncio.sleep(0.05)
        process.terminate()
        return await asyncio.wait_for(process.wait(), 30)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def _is_listening(address: pathlib.Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(address)) == 0


@pytest.mark.parametrize("output", ["full disk", "closed pipe"])
@pytest.mark.parametrize("program", ["cmd/filter", PLUGIN])
async def test_a_phase_or_plugin_without_output(program: str, output: str, tmp_path: pathlib.Path) -> None:
    """Its one line about where it listens failed, and with it the process."""
    address = tmp_path / "s"
    assert await _exit_code([program, f"--listen=unix:{address}"], output, lambda: _is_listening(address)) == 0


@pytest.mark.parametrize("output", ["full disk", "closed pipe"])
async def test_a_scheduler_without_output(output: str, tmp_path: pathlib.Path) -> None:
    """One that restarts forever because its log cannot grow could not even say so."""
    address, configuration = tmp_path / "admin.sock", tmp_path / "scheduler.yaml"
    configuration.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        f"clientConnection: {{kubeconfig: {tmp_path}/kubeconfig}}\n"
    )
    own = tmp_path / "trireme.yaml"
    own.write_text(f"apiVersion: trireme.dev/v1alpha1\nkind: TriremeConfiguration\nadmin: {{socket: {address}}}\n")
    async with EmbeddedCluster(nodes=1) as cluster:
        cluster.write_kubeconfig(tmp_path / "kubeconfig")
        command = ["cmd/frontend", f"--config={configuration}", f"--trireme-config={own}", "--secure-port=0"]
        assert await _exit_code(command, output, lambda: _is_listening(address)) == 0


@pytest.mark.parametrize("output", ["full disk", "closed pipe"])
async def test_an_embedded_cluster_without_output(output: str, tmp_path: pathlib.Path) -> None:
    """The line with its address failed, and with it the cluster and all that it had stored."""
    kubeconfig = tmp_path / "kubeconfig"
    command = ["-m", "trireme_kube.embedded", "--nodes=1", f"--kubeconfig={kubeconfig}"]
    assert await _exit_code(command, output, kubeconfig.exists) == 0
