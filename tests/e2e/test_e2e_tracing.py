"""The trace of a pod through all processes and a plugin, from a collector to the terminal."""

import asyncio
import contextlib
import pathlib
import re
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from google.protobuf import json_format

from tests.e2e import clusters, installation, prometheus_server
from tests.e2e.installation import pod
from tests.e2e.test_e2e_plugins import plugin, profile, remote
from tests.helpers import otlp_receiver

pytestmark = pytest.mark.timeout(180)

REPOSITORY = pathlib.Path(__file__).parents[2]
SCRIPT = REPOSITORY / "tests/e2e/tracing_plugin.py"
TRIREME = [sys.executable, "-u", str(REPOSITORY / "cmd/trireme")]

# Services with the spans that the trace of a pod has at least.
EXPECTED = {
    ("trireme-frontend", "Pod"),
    ("trireme-frontend", "Queue"),
    ("trireme-frontend", "Attempt"),
    ("trireme-frontend", "Filter"),
    ("trireme-frontend", "Place"),
    ("trireme-frontend", "Bind"),
    ("trireme-filter", "trireme.v1.FilterPhase/Filter"),
    ("trireme-filter", "Tracing Filter"),
    ("tracing-plugin", "look at the node"),
    ("trireme-score", "trireme.v1.ScorePhase/Place"),
    ("trireme-bind", "trireme.v1.BindPhase/Bind"),
}

_WITH_EXEMPLARS = (
    "scheduler_scheduling_attempt_duration_seconds_bucket",
    "scheduler_pod_scheduling_sli_duration_seconds_bucket",
)


@contextlib.asynccontextmanager
async def _store(receiver: otlp_receiver.Receiver) -> AsyncIterator[str]:
    """A store of what the collector has, as Tempo answers; its URL for traces."""

    async def answer(request: web.Request) -> web.Response:
        wanted, found = bytes.fromhex(request.match_info["id"]), []
        for resource in receiver.resources:
            spans = [span for scope in resource.scope_spans for span in scope.spans if span.trace_id == wanted]
            document = {"resource": json_format.MessageToDict(resource.resource)}
            found.append({**document, "scopeSpans": [{"spans": [json_format.MessageToDict(each) for each in spans]}]})
        return web.json_response({"batches": found})

    site = web.Application()
    site.router.add_get("/api/traces/{id}", answer)
    runner = web.AppRunner(site)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/api/traces/{{traceID}}"
    finally:
        await runner.cleanup()


async def _ask(*arguments: str) -> str:
    """What a command of `trireme` prints."""
    done = await asyncio.to_thread(
        subprocess.run, [*TRIREME, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_a_pod_has_one_trace_through_all_processes_and_the_plugin(
    cluster: clusters.OpenCluster, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with otlp_receiver.receiving() as receiver, _store(receiver) as store:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{receiver.address}")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        async with cluster(nodes=2) as here, plugin(tmp_path, SCRIPT) as address:
            socket = here.folder / "admin.sock"
            own = {"admin": {"socket": str(socket)}, "tracing": {"url": "https://t/{traceID}", "storeUrl": store}}
            await here.start(
                configuration=profile("Tracing", "filter"), own={**remote("Tracing", address, "filter"), **own}
            )
            await here.create_pods([pod("p")])
            await here.bound(1)
            explained = await _ask("explain", "p", "--socket", str(socket))
            (trace_id,) = re.findall(r"^Trace ([0-9a-f]{32}), if it is kept$", explained, re.MULTILINE)
            assert f"https://t/{trace_id}" in explained

            async def arrived() -> bool:
                return receiver.names(int(trace_id, 16)) >= EXPECTED

            await installation.until(arrived, 30, lambda: str(receiver.names(int(trace_id, 16)) ^ EXPECTED))
            monkeypatch.setenv("COLUMNS", "140")
            shown = await _ask("trace", "p", "--socket", str(socket), "-o", "wide")
            assert shown.startswith("default/p was bound ")
            assert re.search(r"^ +look at the no\S+ +tracing-plugin ", shown, re.MULTILINE)


@prometheus_server.needs_prometheus
@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)
async def test_exemplars_in_prometheus_name_the_traces_of_pods(
    cluster: clusters.OpenCluster, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way from a slow bucket of a dashboard to the trace of a pod."""
    async with otlp_receiver.receiving() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{receiver.address}")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        async with cluster(nodes=2) as here:
            await here.start()
            targets = {prometheus_server.FRONTEND: [f"127.0.0.1:{here.port(here.frontends[0])}"]}
            await here.create_pods([pod("p")])
            await here.bound(1)
            async with prometheus_server.scraping(
                here, tmp_path, targets, "--enable-feature=exemplar-storage"
            ) as prometheus:
                found: dict[str, set[str]] = {}

                async def scraped() -> bool:
                    query = {"query": "{__name__=~'scheduler_.+_bucket'}", "start": "0", "end": "4e9"}
                    url = f"{prometheus}/api/v1/query_exemplars"
                    async with here.session.get(url, params=query) as response:
                        series = (await response.json())["data"]
                    for entry in series:
                        traces = {each["labels"]["trace_id"] for each in entry["exemplars"]}
                        found[entry["seriesLabels"]["__name__"]] = traces
                    return found.keys() == set(_WITH_EXEMPLARS)

                await installation.until(scraped, 30, lambda: f"exemplars: {found}")
            (trace_id,) = set.union(*found.values())
            uid = (await here.pod("p"))["metadata"]["uid"]

            async def arrived() -> bool:
                return ("trireme-frontend", "Pod") in receiver.names(int(trace_id, 16))

            await installation.until(arrived, 30, lambda: str(receiver.names(int(trace_id, 16))))
            (root,) = (span for _, span in receiver.spans if span.name == "Pod")
            assert uid in {each.value.string_value for each in root.attributes}
