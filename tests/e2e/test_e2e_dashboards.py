"""The queries of the dashboards on a real Prometheus, which scrapes a scheduler that has work.

Each query returns a number for some series, and the labels that its legend names. So do those of kubernetes-mixin's
dashboard of the scheduler.
"""

import asyncio
import contextlib
import math
import pathlib
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from deploy import make_dashboards
from tests.e2e import clusters, installation, prometheus_server
from tests.e2e.installation import pod
from tests.e2e.test_e2e_plugins import ROOT, plugin, profile, remote
from tools.controlplane import ports

pytestmark = [pytest.mark.timeout(300), prometheus_server.needs_prometheus]

Json = dict[str, Any]

# Source: kubernetes-mixin, dashboards/scheduler.libsonnet and rules/kube_scheduler.libsonnet; `$job` for its selector.
MIXIN = (
    *(
        f'sum(rate({name}_count{{job=~"$job"}}[$__rate_interval])) by (instance)'
        for name in (
            "scheduler_scheduling_attempt_duration_seconds",
            "scheduler_pod_scheduling_sli_duration_seconds",
            "scheduler_scheduling_algorithm_duration_seconds",
        )
    ),
    *(
        f'histogram_quantile({quantile}, sum(rate({name}_bucket{{job=~"$job"}}[$__rate_interval])) by (instance, le))'
        for quantile in ("0.99", "0.9", "0.5")
        for name in (
            "scheduler_scheduling_attempt_duration_seconds",
            "scheduler_pod_scheduling_sli_duration_seconds",
            "scheduler_scheduling_algorithm_duration_seconds",
        )
    ),
    'sum(rate(rest_client_requests_total{job=~"$job",code=~"2.."}[$__rate_interval]))',
    'histogram_quantile(0.99, sum(rate(rest_client_request_duration_seconds_bucket{job=~"$job",verb="POST"}'
    "[$__rate_interval])) by (verb, le))",
    # Without its rate: the frontend lists when it starts, before the first scrape, and then watches.
    'histogram_quantile(0.99, sum(rest_client_request_duration_seconds_bucket{job=~"$job",verb="GET"}) by (verb, le))',
    'process_resident_memory_bytes{job=~"$job"}',
    'rate(process_cpu_seconds_total{job=~"$job"}[$__rate_interval])',
)


@dataclass(frozen=True, slots=True)
class Query:
    """A query, where it is, and the labels that its legend shows; `may_be_empty` in a cluster in order."""

    place: str
    expr: str
    labels: frozenset[str] = frozenset()
    may_be_empty: bool = False

    @property
    def filled(self) -> str:
        """With what Grafana puts in for its variables: all jobs, and an interval."""
        return self.expr.replace("$job", ".+").replace("$__rate_interval", "15s")


def queries() -> Iterator[Query]:
    """Those of the dashboards, and of kubernetes-mixin."""
    for entry in make_dashboards.source():
        for panel in make_dashboards.panels(entry):
            for query in panel["queries"]:
                labels = frozenset(re.findall(r"\{\{(\w+)\}\}", query["legend"]))
                yield Query(f"{entry['name']}: {panel['title']}", query["expr"], labels, "empty" in panel)
    for expr in MIXIN:
        yield Query("kubernetes-mixin", expr)


class Watched:
    """An installation, and the Prometheus that scrapes all of its processes."""

    def __init__(self, here: installation.Installation, url: str) -> None:
        self.here = here
        self._url = url

    async def series(self, query: Query) -> list[Json]:
        """The newest values that are numbers. Raises: AssertionError: Prometheus does not take the query."""
        async with self.here.session.get(f"{self._url}/api/v1/query", params={"query": query.filled}) as response:
            answer = await response.json()
        assert answer["status"] == "success", f"{query.place}: {query.expr}: {answer['error']}"
        return [each for each in answer["data"]["result"] if not math.isnan(float(each["value"][1]))]


async def _start(here: installation.Installation, **frontend: Any) -> dict[str, list[str]]:
    """Start two replicas of filter and one of the other phases; returns the addresses of metrics by job."""
    targets: dict[str, list[str]] = {}
    for phase in ("filter", "filter", "score", "bind"):
        (port,) = ports.free_ports(1)
        process = here.add_phase(phase)
        process.command += ["--metrics-listen", f"127.0.0.1:{port}"]
        process.start()
        targets.setdefault(f"trireme-{phase}", []).append(f"127.0.0.1:{port}")
    await asyncio.gather(*(process.listening() for group in here.phases.values() for process in group))
    process = here.add_frontend(**frontend)
    process.start()
    await here.leads(process)
    return {**targets, prometheus_server.FRONTEND: [f"127.0.0.1:{here.port(process)}"]}


@contextlib.asynccontextmanager
async def watched(folder: pathlib.Path, here: installation.Installation, **frontend: Any) -> AsyncIterator[Watched]:
    """A scheduler, scraped each second."""
    targets = await _start(here, **frontend)
    async with prometheus_server.scraping(here, folder, targets) as url:
        yield Watched(here, url)


async def _work(here: installation.Installation) -> None:
    """Pods that are placed, that fit nowhere, that wait for the pods of others, and that evict, again and again."""
    await here.add_priority_class("high", 1000)
    await here.create_pods([pod("giant", cpu="64")])
    for turn in range(1000):
        await here.create_pods([pod(f"equal-{turn}-{number}", cpu="10m") for number in range(10)])
        await here.create_pods([pod(f"low-{turn}-{number}", cpu="1500m") for number in range(4)])
        await asyncio.sleep(1)
        await here.create_pods([pod(f"high-{turn}", cpu="3", priorityClassName="high")])
        await asyncio.sleep(1)
        for each in await here.pods():
            if each["metadata"]["name"] != "giant":
                name = each["metadata"]["name"]
                with contextlib.suppress(AssertionError):  # it was evicted meanwhile
                    await here.request("DELETE", f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0")


async def _answered(seen: Watched, wanted: Sequence[Query], seconds: float) -> list[Query]:
    """The queries that have returned nothing within that time. Raises: AssertionError: a legend shows no label."""
    left = list(wanted)
    for _ in range(int(seconds)):
        still = []
        for query in left:
            series = await seen.series(query)
            if not series:
                still.append(query)
            for each in series:
                assert query.labels <= each["metric"].keys(), f"{query.place}: {query.expr}: {each['metric']}"
        left = still
        if not left:
            return []
        await asyncio.sleep(1)
    return left


@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)
async def test_each_query_returns_series(cluster: clusters.OpenCluster, tmp_path: pathlib.Path) -> None:
    wanted = list(queries())
    assert len(wanted) > 80
    script = ROOT / "examples/plugin-python/maintenance.py"
    async with cluster(nodes=2, cpu="4") as here, plugin(tmp_path, script) as address:
        frontend = {
            "configuration": profile("Maintenance", "filter", "score"),
            "own": remote("Maintenance", address, "filter", "score"),
        }
        async with watched(tmp_path, here, **frontend) as seen, asyncio.TaskGroup() as tasks:
            working = tasks.create_task(_work(here))
            left = await _answered(seen, [each for each in wanted if not each.may_be_empty], 90)
            for query in wanted:
                await seen.series(query)  # those that may be empty are valid, at least
            working.cancel()
        assert not left, "\n".join(f"{query.place}: {query.expr}" for query in left)
