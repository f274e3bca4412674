"""The bind process as its parent and its operator see it: one line when ready, one line when not, and a clean end."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from tests.contract import bind_cluster, metrics_document
from tests.contract.bind_cluster import Bind
from tools.controlplane import ports
from trireme.v1 import bind_pb2, bind_phase_pb2_grpc, snapshot_pb2, status_pb2
from trireme_kube.client.rest import client
from trireme_kube.client.rest.credentials import Source
from trireme_kube.componentbase.tls import certificate_expiry
from trireme_kube.embedded.cluster import EmbeddedCluster
from trireme_kube.embedded.endpoints.faults import Fault, FaultAction

COMMAND = [sys.executable, str(Path(__file__).parents[2] / "cmd" / "bind")]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    """A cluster, and its kubeconfig in `kubeconfig`."""
    async with EmbeddedCluster(nodes=1) as found:
        found.write_kubeconfig(tmp_path / "kubeconfig")
        yield found


async def start(*flags: str) -> tuple[asyncio.subprocess.Process, str]:
    """A bind process that is ready, and the address it told."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND, *flags, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    line = (await asyncio.wait_for(process.stdout.readline(), 20)).decode()
    assert line.startswith("listening on ")
    return process, line.removeprefix("listening on ").strip()


async def struck(fault: Fault) -> None:
    """Returns once a request has met the fault."""
    for _ in range(1000):
        if fault.struck:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("no request has met the fault")


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        pytest.param(["--bogus"], "--bogus", id="unknown-flag"),
        pytest.param(["--kubeconfig", "/nonexistent/config"], "/nonexistent/config", id="no-kubeconfig"),
        pytest.param(
            ["--tls-cert-file", "/nonexistent/a", "--tls-private-key-file", "/nonexistent/b", "--master", "http://x"],
            "--tls-cert-file: /nonexistent/a",
            id="no-certificate",
        ),
    ],
)
def test_bad_input_is_one_line(flags: list[str], named: str) -> None:
    """It names the flag or the file; the exit code is 1; stdout is left to the line that says it is ready."""
    ended = subprocess.run([*COMMAND, *flags], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert named in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


@contextlib.asynccontextmanager
async def _binding(
    cluster: EmbeddedCluster, tmp_path: Path, seconds: float
) -> AsyncIterator[tuple[asyncio.subprocess.Process, Bind, "asyncio.Task[Any]"]]:
    """A bind process in the middle of a write that takes so long; what answers is awaited by the task."""
    process, address = await start("--listen", f"unix:{tmp_path}/b.sock", "--kubeconfig", f"{tmp_path}/kubeconfig")
    async with (
        await client.connect(client.ClientSettings(Source(f"{tmp_path}/kubeconfig"), qps=-1)) as api,
        aio.insecure_channel(address) as channel,
    ):
        bind = Bind(cluster, api, bind_phase_pb2_grpc.BindPhaseStub(channel), channel)
        await bind.acquire()
        await bind.configure()
        await bind.make_pods("web")
        hit = cluster.faults.add(Fault(FaultAction.DELAY, "POST", "/binding", seconds=seconds))
        under_way = asyncio.create_task(bind.bind("web", node="node-00000"))
        await struck(hit)
        yield process, bind, under_way


async def test_a_write_under_way_outlives_sigterm(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """The process that is told to end finishes the write that it has, then ends with 0.

    The answer mostly arrives, too. gRPC closes the connection as soon as the last answer is written, and a caller that
    writes at that moment (an acknowledgement of its own will do) loses what it has not read: it gets UNAVAILABLE, and
    asks another replica, which finds the pod bound (`tests/unit/frontend/test_bind_phase_client.py`).
    """
    async with _binding(cluster, tmp_path, 0.5) as (process, bind, under_way):
        process.send_signal(signal.SIGTERM)
        await asyncio.wait({under_way})
        lost = under_way.exception()
        if lost is None:
            assert [status.code for status in under_way.result()] == [1]
        else:
            assert isinstance(lost, aio.AioRpcError)
            assert lost.code() is grpc.StatusCode.UNAVAILABLE
        assert await asyncio.wait_for(process.wait(), 20) == 0
        assert await bind.node_of("web") == "node-00000"


async def test_a_second_signal_ends_it_at_once(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """An operator who asks twice is obeyed, with exit code 1."""
    async with _binding(cluster, tmp_path, 3.0) as (process, _, under_way):
        assert process.stderr is not None
        process.send_signal(signal.SIGTERM)
        while b"stopping" not in await process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), 20) == 1  # after the first signal alone it would be 0
        with pytest.raises(aio.AioRpcError):
            await under_way


async def test_it_ends_with_its_parent(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """A frontend that is killed leaves no bind behind that obeys any process that finds its socket."""
    script = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([*sys.argv[1:], '--exit-with-parent', str(os.getpid())])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    flags = ["--listen", f"unix:{tmp_path}/b.sock", "--kubeconfig", f"{tmp_path}/kubeconfig"]
    parent = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        script,
        *COMMAND,
        *flags,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    assert (await asyncio.wait_for(parent.stdout.readline(), 20)).startswith(b"listening on")
    parent.kill()
    await parent.wait()
    # The pipe ends when the last process that holds it has ended.
    assert await asyncio.wait_for(parent.stdout.read(), 20) == b""
    with pytest.raises(ProcessLookupError):
        await _gone(child)


async def _gone(pid: int) -> None:
    """Raises ProcessLookupError once the process is gone; its new parent may take a moment to reap it."""
    for _ in range(200):
        os.kill(pid, 0)
        if _state(pid) == "Z":
            raise ProcessLookupError
        await asyncio.sleep(0.01)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def test_metrics_and_readiness(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """Ready once a leader has brought a configuration; the counters show what was done."""
    (port,) = ports.free_ports(1)
    listen = f"127.0.0.1:{port}"
    async with bind_cluster.running(tmp_path, "--metrics-listen", listen) as bind:

        async def get(path: str) -> tuple[int, str]:
            def fetch() -> tuple[int, str]:
                try:
                    with urllib.request.urlopen(f"http://{listen}{path}", timeout=20) as answer:
                        return answer.status, answer.read().decode()
                except urllib.error.HTTPError as error:
                    with error:
                        return error.code, error.read().decode()

            return await asyncio.to_thread(fetch)

        assert (await get("/healthz"))[0] == 200
        assert (await get("/readyz"))[0] == 500
        await bind.acquire()
        remote = snapshot_pb2.RemotePlugin(name="Harbour", endpoints=["unix:/nonexistent"], deadline_ms=100)
        await bind.configure(bind_cluster.configuration(remote=[remote], permit=["Harbour"]))
        await bind.make_pods("a", "b")
        request = bind_pb2.PermitRequest(cycle=bind.cycle(), items=bind.items(["a"], "node-00000"))
        await bind.stub.Permit(request, timeout=20)
        await bind.bind("a", "b", node="node-00000")
        assert await get("/readyz") == (200, "ok")
        text = (await get("/metrics"))[1]
        assert 'trireme_bind_pods_total{result="bound"} 2' in text
        assert 'trireme_plugin_calls_total{plugin="Harbour",result="failed"} 1' in text
        assert 'trireme_plugin_breaker_open{plugin="Harbour",rpc="Permit"} 0' in text
        assert f"trireme_epoch {bind.epoch}" in text
        served = set(re.findall(r"^# TYPE (trireme_\w+)", text, re.MULTILINE))
        # Shown once there is one.
        unmoved = {"trireme_bind_actions_total", certificate_expiry.METRIC, certificate_expiry.LIFETIME_METRIC}
        # No plugin is in shadow mode.
        unmoved |= {"trireme_plugin_shadow_comparisons_total", "trireme_plugin_shadow_refused_nodes_total"}
        assert served | unmoved == metrics_document.of_phases()["bind"].keys()


async def test_a_frontend_that_stops_its_own_bind_lets_a_binding_under_way_end(tmp_path: Path) -> None:
    """A new leader would have to find out what became of it."""
    async with bind_cluster.running(tmp_path) as found:
        arguments = [f"--kubeconfig={tmp_path}/kubeconfig", "--kube-api-qps=-1"]
        async with bind_cluster.serving_in_process(arguments) as channel:
            found.stub = bind_phase_pb2_grpc.BindPhaseStub(channel)
            await found.acquire()
            await found.configure()
            await found.make_pods("web")
            delayed = found.cluster.faults.add(Fault(FaultAction.DELAY, "POST", "/binding", seconds=0.3))
            binding = asyncio.create_task(found.bind("web", node="node-00000"))
            async with asyncio.timeout(20):
                while not delayed.struck:
                    await asyncio.sleep(0.01)
        assert binding.done()
        assert [status.code for status in await binding] == [status_pb2.CODE_SUCCESS]
        assert await found.node_of("web") == "node-00000"
