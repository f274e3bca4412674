"""`trireme up` as the README has it: the embedded cluster, the demo, the example plugin, and asking what goes on."""

import asyncio
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
from typing import Any

import aiohttp
import pytest
import yaml

from tests.e2e import installation, mixed_pods
from tools.controlplane import ports
from trireme.cli.up import RESTART_SECONDS
from trireme_kube.componentbase import clocks

REPOSITORY = pathlib.Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "examples"
TRIREME = [sys.executable, "-u", str(REPOSITORY / "cmd/trireme")]


def _ask(*arguments: str) -> str:
    done = subprocess.run([*TRIREME, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_the_commands_of_the_readme(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first commands that a newcomer types would not work: the demo, a plugin beside it, status and explain."""
    monkeypatch.setenv("TRIREME_SOCKET", str(tmp_path / "admin.sock"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "")  # readline sets it for children, past os.environ
    (port,) = ports.free_ports(1)
    own = tmp_path / "trireme.yaml"
    own.write_text((EXAMPLES / "trireme.yaml").read_text().replace("127.0.0.1:9000", f"127.0.0.1:{port}"))
    command = [sys.executable, "-u", str(EXAMPLES / "plugin-python/maintenance.py"), "--listen", f"127.0.0.1:{port}"]
    plugin = installation.Process("plugin", command, tmp_path / "plugin.log")
    scheduler = tmp_path / "scheduler.yaml"
    scheduler.write_text((EXAMPLES / "scheduler.yaml").read_text() + "leaderElection: {resourceName: another}\n")
    files = ["--config", str(scheduler), "--trireme-config", str(own)]
    up = installation.Process("up", [*TRIREME, "up", "--nodes", "10", "--demo", *files], tmp_path / "up.log")
    try:
        plugin.start()
        await plugin.listening()
        up.start()
        await installation.until(lambda: "demo: giant" in up.said, 3 * installation.START_SECONDS, lambda: up.said)
        assert "demo: web: 50 pods on 10 nodes" in up.said
        status = await asyncio.to_thread(_ask, "status")
        assert "this scheduler, epoch " in status
        assert "10 nodes, 60 pods" in status
        (giant, *_) = re.findall(r"default/giant-\S+", status)
        explanation = await asyncio.to_thread(_ask, "explain", giant)
        assert re.search(r"10  NodeResourcesFit +Insufficient cpu \(1,000 CPUs requested\)", explanation)
        details = json.loads(await asyncio.to_thread(_ask, "explain", giant, "-o", "json"))
        (refusal,) = details["refusals"]
        assert (refusal["status"]["plugin"], len(refusal["nodes"])) == ("NodeResourcesFit", 10)
        bound = await _explained_with_decision(tmp_path / "state" / "trireme" / "kubeconfig")
        assert bound["decision"]["nodeName"] == bound["nodeName"]
        assert int({step["name"]: step["durationUs"] for step in bound["decision"]["steps"]}["Bind"]) > 0
        one = await asyncio.to_thread(_ask, "explain", giant, "--nodes", "node-3")
        assert re.search(r"1  NodeResourcesFit .*node-3", one)
        (page,) = re.findall(r"why a pod waits: curl (http://127\.0\.0\.1:\d+/v1/\S+)", up.said)
        page = page.replace("NAMESPACE", "default").replace("POD", giant.removeprefix("default/"))
        async with aiohttp.ClientSession() as http, http.get(page, params={"nodes": "node-3"}) as response:
            (refusal,) = (await response.json())["refusals"]
        assert (refusal["nodes"], refusal["nodeCount"]) == (["node-3"], 10)
        await _check_the_past(page.partition("/v1/")[0], giant)
        assert "manifest file" not in up.said
        assert f"export KUBECONFIG={tmp_path}/state/trireme/kubeconfig" in up.said
        up.signal(signal.SIGINT)
        assert await up.ended() == 0
    finally:
        up.stop()
        plugin.stop()


async def _check_the_past(console: str, giant: str) -> None:
    """The console looks back at what was recorded, though nobody asked for a recording."""
    async with aiohttp.ClientSession() as http:
        async with http.get(f"{console}/v1/recording") as response:
            newest = (await response.json())["toMs"]
        page = f"{console}/v1/recorded/{newest}/namespaces/{giant.replace('/', '/pods/')}/explanation"
        async with http.get(page) as response:
            explanation = await response.json()
            assert (response.status, explanation["feasibleCount"], explanation["nodeCount"]) == (200, 0, 10)


async def _explained_with_decision(kubeconfig: pathlib.Path) -> dict[str, Any]:
    """The explanation of a bound pod of `web` whose decision insight has: not of one that was bound before it came."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    headers = {"Authorization": f"Bearer {user['token']}"}
    url = f"{cluster['server']}/api/v1/namespaces/default/pods"
    found: list[dict[str, Any]] = []

    async def is_there() -> bool:
        async with aiohttp.ClientSession() as http, http.get(url, headers=headers, ssl=False) as response:
            pods = (await response.json())["items"]
        for pod in pods:
            if pod["metadata"]["name"].startswith("web-") and pod["spec"].get("nodeName"):
                name = f"default/{pod['metadata']['name']}"
                explanation = json.loads(await asyncio.to_thread(_ask, "explain", name, "-o", "json"))
                if "decision" in explanation:
                    found.append({**explanation, "nodeName": pod["spec"]["nodeName"]})
                    return True
        return False

    await installation.until(is_there, installation.START_SECONDS, lambda: "no bound pod of web has a decision")
    return found[0]


_ELECTION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaseDuration: 6s, renewDeadline: 4s, retryPeriod: 1s}
"""


async def _steal_the_lease(url: str, http: aiohttp.ClientSession) -> None:
    """Once there is one, and until it is stolen: its holder may renew it in between."""
    lease = f"{url}/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
    while True:
        async with http.get(lease) as reply:
            if reply.status == 404:
                await asyncio.sleep(0.1)
                continue
            body = await reply.json()
        renewed = clocks.utc_now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        body["spec"] |= {"holderIdentity": "somebody-else", "renewTime": renewed}
        async with http.put(lease, json=body) as reply:
            if reply.status == 200:
                return


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_a_service_that_ends_is_started_again(tmp_path: pathlib.Path) -> None:
    """A frontend that loses its Lease ends, and so does a killed phase; the cluster with all its pods was gone, too.

    And what insight recorded meanwhile could not be decided again.
    """
    election = tmp_path / "scheduler.yaml"
    election.write_text(_ELECTION)
    (port,) = ports.free_ports(1)
    recordings = tmp_path / "recordings"
    flags = ["--nodes", "2", "--port", str(port), "--config", str(election), "--record-dir", str(recordings)]
    command = [*TRIREME, "up", *flags]
    up = installation.Process("up", command, tmp_path / "up.log")
    limit = 3 * installation.START_SECONDS
    try:
        up.start(_environment(tmp_path, "up"))
        await installation.until(lambda: "[nodes 2 " in up.said, limit, lambda: up.said)
        await asyncio.sleep(RESTART_SECONDS + 1)  # one that ends at once is not started again
        url = f"http://127.0.0.1:{port}"
        async with aiohttp.ClientSession() as http:
            await _steal_the_lease(url, http)
            await installation.until(
                lambda: "frontend ended with exit code 1 and is started again" in up.said, limit, lambda: up.said
            )
            await _create_pod(url, http, "after")
            await installation.until(lambda: "bound 1" in up.said or "running 1" in up.said, limit, lambda: up.said)
            os.kill(_child(up.pid, "trireme.score.process"), signal.SIGKILL)
            killed = "score was ended by SIGKILL and is started again"
            await installation.until(lambda: killed in up.said, limit, lambda: up.said)
            await _create_pod(url, http, "later")
            await installation.until(lambda: "running 2" in up.said, limit, lambda: up.said)
            await mixed_pods.create_and_delete(url, http, 200)
        up.signal(signal.SIGINT)
        assert await up.ended() == 0
    finally:
        up.stop()
    _check_replay(recordings / "insight", tmp_path / "incident.trireme")


def _check_replay(recordings: pathlib.Path, exported: pathlib.Path) -> None:
    """Every decision of the recordings is the same again, but for those that the change of leaders left open."""
    held = json.loads(_ask("record", "check", str(recordings), "-o", "json"))
    assert (held["problems"], held["missingDecisions"]) == ([], 0)
    _ask("record", "export", "--dir", str(recordings), str(exported))
    report = json.loads(_ask("replay", str(exported), "-o", "json"))
    assert report["differences"] == []
    # How many pods share a decision depends on how busy the machine is.
    assert report["same"] > held["decisions"] - report["bindings"] - 10 > 0
    assert report["placedPods"] > 10


async def _create_pod(url: str, http: aiohttp.ClientSession, name: str) -> None:
    pod = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    async with http.post(f"{url}/api/v1/namespaces/default/pods", json=pod) as reply:
        assert reply.status == 201


def _child(parent: int, word: str) -> int:
    """The process that this one started with the word in its command line."""
    children = pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    (found,) = [each for each in children if word in pathlib.Path(f"/proc/{each}/cmdline").read_text()]
    return int(found)


def _environment(folder: pathlib.Path, name: str) -> dict[str, str]:
    return {**os.environ, "TRIREME_SOCKET": str(folder / f"{name}.sock"), "XDG_STATE_HOME": str(folder / name)}


def test_once_ends_where_nothing_fits(tmp_path: pathlib.Path) -> None:
    """A script that tries it out on an empty cluster would hang."""
    done = subprocess.run(
        [*TRIREME, "up", "--once", "--nodes", "0"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env=_environment(tmp_path, "once"),
    )
    assert done.returncode == 1
    assert "demo: web: 50 of 50 pods stay pending: no nodes available to schedule pods" in done.stdout


def test_up_ends_when_its_output_is_closed(tmp_path: pathlib.Path) -> None:
    """`trireme up | head` would print a traceback, or leave its processes behind."""
    environment = _environment(tmp_path, "pipe")
    command = [*TRIREME, "up", "--nodes", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        complaint = process.stderr.read()
        assert process.wait(100) == 141
    assert complaint == b""


@pytest.mark.slow
async def test_a_second_scheduler_reports_that_it_is_standby(tmp_path: pathlib.Path) -> None:
    """It would sit there, schedule nothing, and not say why."""
    first = installation.Process("first", [*TRIREME, "up", "--nodes", "1"], tmp_path / "first.log")
    kubeconfig = tmp_path / "first/trireme/kubeconfig"
    second = installation.Process("second", [*TRIREME, "up", "--kubeconfig", str(kubeconfig)], tmp_path / "second.log")
    try:
        first.start(_environment(tmp_path, "first"))
        await installation.until(lambda: "pods/s]" in first.said, installation.START_SECONDS, lambda: first.said)
        second.start(_environment(tmp_path, "second"))
        await installation.until(
            lambda: "holds the lease kube-system/kube-scheduler" in second.said,
            2 * installation.START_SECONDS,
            lambda: second.said,
        )
    finally:
        second.stop()
        first.stop()
