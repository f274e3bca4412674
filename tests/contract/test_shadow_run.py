"""Runs of shadow against an API server over HTTP: what it does with what goes wrong, and that it only reads."""

import asyncio
import contextlib
import dataclasses
import json
import os
import pathlib
import threading
import time
import types
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import aiohttp
import pytest

from tools.controlplane import ports
from trireme.shadow import flags, process, report, report_server, settings, shadow_run
from trireme.shadow.migration import check, finding
from trireme_kube.client.rest import client, credentials
from trireme_kube.embedded.cluster import EmbeddedCluster
from trireme_kube.embedded.endpoints.faults import Fault, FaultAction

_PODS = "/api/v1/namespaces/default/pods"
_NODE = "node-0"


class Observed:
    """A cluster, a run of shadow beside it, and a scheduler that binds as the test says."""

    def __init__(self, cluster: EmbeddedCluster, folder: pathlib.Path, **changes: Any) -> None:
        self.cluster = cluster
        self.requests: list[str] = []
        self.shown: list[str] = []
        self.page = folder / "report.html"
        values = {
            "report": self.page,
            "interval": 0.1,
            "output": "json",
            "start_timeout": 20.0,
        }
        self.source = credentials.Source(master=cluster.url)
        self.chosen = flags.Flags(**{**values, **changes})
        self.run: shadow_run.ShadowRun
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None]
        self.http: aiohttp.ClientSession

    async def start(self, stack: contextlib.AsyncExitStack) -> None:
        """Begin the run."""

        def record(method: str, status: int, seconds: float, throttled: float) -> None:
            self.requests.append(method)

        api = await stack.enter_async_context(await client.connect(client.ClientSettings(self.source), record))
        self.http = await stack.enter_async_context(aiohttp.ClientSession(self.cluster.url))
        configured = settings.load(self.chosen.config, self.chosen.feature_gates, api.host)
        self.run = shadow_run.ShadowRun(self.chosen, configured, api, time.monotonic, time.monotonic())
        self._task = asyncio.create_task(self.run.run(self._stopping, self.shown.append))

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return once it holds; fails with the run, and by the test's timeout."""
        while not holds():
            if self._task.done():
                self._task.result()
                raise AssertionError("the run ended")
            await asyncio.sleep(0.01)

    async def stop(self) -> report.Report:
        """End the run; its last report."""
        self._stopping.set()
        with contextlib.suppress(BaseExceptionGroup):
            await self._task
        return self.run.make_report(is_final=True)

    async def create(self, name: str) -> None:
        """Create a pod."""
        body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        async with self.http.post(_PODS, json=body) as reply:
            assert reply.status == 201, await reply.text()

    async def bind(self, name: str, node: str = _NODE) -> None:
        """Bind a pod, as the other scheduler."""
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        async with self.http.post(f"{_PODS}/{name}/binding", json=body) as reply:
            assert reply.status == 201, await reply.text()

    @property
    def notices(self) -> str:
        """The notices of the report as it would be now."""
        return "\n".join(self.run.make_report(is_final=False).notices)

    def settled(self) -> int:
        """How many bindings have an outcome."""
        return sum(self.run.comparison.counts.outcomes.values())


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    """Three nodes; nobody schedules."""
    async with EmbeddedCluster(nodes=3) as made:
        yield made


@contextlib.asynccontextmanager
async def observing(cluster: EmbeddedCluster, folder: pathlib.Path, **changes: Any) -> AsyncIterator[Observed]:
    """A run, until the block ends."""
    async with contextlib.AsyncExitStack() as stack:
        observed = Observed(cluster, folder, **changes)
        await observed.start(stack)
        try:
            yield observed
        finally:
            await observed.stop()


async def test_a_run_compares_schedules_a_simulated_cluster_and_only_reads(
    cluster: EmbeddedCluster, tmp_path: pathlib.Path
) -> None:
    """The whole of it: bindings are judged, pods placed in both clusters, the report written; the cluster unchanged."""
    async with observing(cluster, tmp_path) as observed:
        await observed.until(lambda: bool(observed.shown))
        for number in range(3):
            await observed.create(f"pod-{number}")
            await observed.bind(f"pod-{number}", f"node-{number}")
        await observed.create("pending")
        await observed.until(lambda: observed.settled() == 3)
        await observed.until(lambda: observed.run.own is not None and observed.run.own.counts.bound == 4)
        made = await observed.stop()
        assert made.agreement == 1.0, [each.found for each in made.examples]
        assert made.newest is not None
        assert made.newest.here is not None
        assert (made.newest.there.pending, made.newest.here.pending) == (1, 0)
        assert made.newest.here.measured.pods == made.newest.there.measured.pods + 1
        assert set(observed.requests) == {"GET"}
        assert "final" in observed.page.read_text()
        assert json.loads(observed.shown[-1])["final"] is True
        assert made.first_report > 0


async def test_a_kind_that_may_not_be_read_is_a_notice(cluster: EmbeddedCluster, tmp_path: pathlib.Path) -> None:
    """Without a word, decisions would be made as if there were no such objects."""
    cluster.faults.add(Fault(FaultAction.STATUS, path=r"/csinodes", code=403, times=-1))
    async with observing(cluster, tmp_path, no_own_world=True, output="text") as observed:
        await observed.until(lambda: bool(observed.shown))
        assert "csinodes may not be read, and count as if there were none" in observed.notices
        await observed.create("pod")
        await observed.bind("pod")
        await observed.until(lambda: observed.settled() == 1)


async def test_an_api_server_that_is_lost_later_is_a_notice_and_no_end(tmp_path: pathlib.Path) -> None:
    """An upgrade of the control plane takes minutes, and a run days."""
    async with EmbeddedCluster(nodes=1) as cluster, observing(cluster, tmp_path) as observed:
        await observed.until(lambda: bool(observed.shown))
        lost = Fault(FaultAction.DROP_BEFORE, times=-1)
        cluster.faults.add(lost)
        pods = next(each for each in observed.run.informers if each.resource.name == "pods")
        relisting = asyncio.create_task(pods.relist())
        await observed.until(lambda: "is interrupted, so what is shown of them is from that time" in observed.notices)
        cluster.faults.clear()
        await relisting
        await observed.until(lambda: "is interrupted, so" not in observed.notices)


async def test_a_failure_of_the_migration_check_is_a_notice(
    cluster: EmbeddedCluster, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a part of the report that a run can do without."""

    async def fail(api: client.ApiClient) -> list[finding.Finding]:
        raise KeyError("spec")

    monkeypatch.setattr(check, "of_cluster", fail)
    async with observing(cluster, tmp_path) as observed:
        await observed.until(lambda: bool(observed.shown))
        assert "the migration check failed: KeyError: 'spec'" in observed.notices


async def test_objects_that_cannot_be_decoded_are_a_notice(
    cluster: EmbeddedCluster, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are in neither cluster, so both would have less to do than the cluster, without a word."""
    async with observing(cluster, tmp_path) as observed:
        await observed.until(lambda: bool(observed.shown))
        pods = next(each for each in observed.run.informers if each.resource.name == "pods")
        statistics = dataclasses.replace(pods.statistics(), undecodable=3)
        monkeypatch.setattr(pods, "statistics", lambda: statistics)
        assert "3 events of pods cannot be decoded" in observed.notices


@pytest.mark.parametrize("kind", ["pods", "nodes"])
async def test_without_pods_or_nodes_the_run_ends_with_what_is_missing(
    cluster: EmbeddedCluster, tmp_path: pathlib.Path, kind: str
) -> None:
    """It would wait forever, and report nothing."""
    cluster.faults.add(Fault(FaultAction.STATUS, path=rf"/api/v1/{kind}\?", code=403, times=-1))
    async with contextlib.AsyncExitStack() as stack:
        observed = Observed(cluster, tmp_path)
        await observed.start(stack)
        with pytest.raises(BaseExceptionGroup) as caught:
            await observed.until(lambda: False)
        found = caught.value.subgroup(shadow_run.StartError)
        assert found is not None
        assert f"{kind} may not be read" in str(found.exceptions[0])
        assert "deploy/overlays/shadow" in str(found.exceptions[0])


async def test_a_binding_during_an_interruption_is_unknown_and_the_gap_is_said(
    cluster: EmbeddedCluster, tmp_path: pathlib.Path
) -> None:
    """A list shows what was bound, and not when: judging it by the state of now would be a guess."""
    async with observing(cluster, tmp_path) as observed:
        await observed.until(lambda: bool(observed.shown))
        await observed.create("pod")
        await observed.until(lambda: observed.run.comparison.pending_count == 1)
        # Watches end, and new ones are told that their version is too old: everything is listed again.
        pods = next(each for each in observed.run.informers if each.resource.name == "pods")
        cluster.faults.add(Fault(FaultAction.DELAY, method="LIST", path=r"/api/v1/pods", seconds=0.3, times=1))
        relisting = asyncio.create_task(pods.relist())
        await observed.bind("pod")
        await relisting
        await observed.until(lambda: observed.settled() == 1)
        made = await observed.stop()
        (relists,) = (text for text in made.notices if text.startswith("listed again"))
        assert "pods 1" in relists
        counts = {outcome.value: count for outcome, count in made.counts.items()}
        # The event may have come just before the watch ended.
        assert sum(counts.values()) == 1


async def test_a_report_that_cannot_be_written_is_a_notice_and_tried_again(
    cluster: EmbeddedCluster, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk must not end a run of days, nor leave half a page."""
    full, really = threading.Event(), os.fsync

    def sync(descriptor: int) -> None:
        if full.is_set():
            raise OSError(28, "No space left on device")
        really(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    async with observing(cluster, tmp_path) as observed:
        await observed.until(lambda: bool(observed.shown))
        full.set()
        await observed.until(lambda: "No space left on device" in observed.notices)
        before = observed.page.read_text()
        assert before.endswith("</html>")
        full.clear()
        await observed.until(lambda: "No space left" not in observed.notices)
        assert observed.page.read_text() != before


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(["--start-timeout=0.2"], "cannot be listed at http://127.0.0.1:1", id="unreachable"),
        pytest.param(["--config=/no/such/file"], "/no/such/file", id="no-configuration"),
        pytest.param(["--interval=0"], "--interval", id="flag"),
        pytest.param(["--kubeconfig=/no/such/kubeconfig"], "/no/such/kubeconfig", id="no-kubeconfig"),
        pytest.param(["--listen=192.0.2.1:80"], "--listen: 192.0.2.1:80: ", id="listen"),
    ],
)
def test_a_start_that_fails_is_one_line_and_a_code(
    arguments: list[str], text: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stack trace tells an operator nothing, and a code of 0 tells a script the wrong thing."""
    code = process.main(["--master=http://127.0.0.1:1", f"--report={tmp_path}/r.html", *arguments])
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Error: ")]
    assert code == 1
    assert len(errors) == 1
    assert text in errors[0]


@contextlib.asynccontextmanager
async def _silent_server() -> AsyncIterator[str]:
    """An API server that takes requests and never answers; its URL."""

    async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            pass
        writer.close()

    server = await asyncio.start_server(read, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("flag", ["start_timeout", "duration"])
async def test_a_server_that_never_answers_ends_the_start_in_time(flag: str, tmp_path: pathlib.Path) -> None:
    """It waited for each request's own time limit, some minutes."""
    async with _silent_server() as url, contextlib.AsyncExitStack() as stack:
        observed = Observed(cast(EmbeddedCluster, types.SimpleNamespace(url=url)), tmp_path, **{flag: 0.3})
        await observed.start(stack)
        with pytest.raises(BaseExceptionGroup) as caught:
            await asyncio.wait_for(observed._task, 15)
        (error,) = caught.value.exceptions
        assert f"cannot be listed at {url} within --{flag.replace('_', '-')} (0.3 s)" in str(error)


async def test_a_stop_before_the_cluster_is_listed_leaves_the_last_report(tmp_path: pathlib.Path) -> None:
    """A report about no nodes would replace it."""
    async with _silent_server() as url, contextlib.AsyncExitStack() as stack:
        observed = Observed(cast(EmbeddedCluster, types.SimpleNamespace(url=url)), tmp_path)
        observed.page.write_text("of yesterday")
        await observed.start(stack)
        await asyncio.sleep(0)
        observed._stopping.set()
        await asyncio.wait_for(observed._task, 15)
        assert observed.page.read_text() == "of yesterday"
        assert observed.shown == []


async def test_the_report_is_served_once_it_is_there(cluster: EmbeddedCluster, tmp_path: pathlib.Path) -> None:
    """In a pod there is no other way to read it: the image has no shell."""
    (port,) = ports.free_ports(1)
    pages = [""]
    url = f"http://127.0.0.1:{port}"
    async with report_server.serve(f"127.0.0.1:{port}", lambda: pages[0]), aiohttp.ClientSession() as http:
        async with http.get(f"{url}/readyz") as reply:
            assert reply.status == 503
        async with http.get(f"{url}/healthz") as reply:
            assert reply.status == 200
        pages[0] = "<!doctype html>"
        async with http.get(url) as reply:
            assert (reply.status, await reply.text()) == (200, "<!doctype html>")
            assert reply.content_type == "text/html"
        async with http.get(f"{url}/readyz") as reply:
            assert reply.status == 200
        async with http.post(url) as reply:
            assert reply.status == 405
