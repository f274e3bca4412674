"""Alerts on a real Prometheus: a fault of real processes makes each fire, and its end makes it clear.

The rules are those that are shipped, but for how long an expression has to hold. The other alerts fire and clear in
tests/alerts, on series that are made up.
"""

import asyncio
import contextlib
import pathlib
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml

from tests.e2e import clusters, forgetful, installation, prometheus_server
from tests.e2e.installation import pod
from tools.controlplane import ports

pytestmark = [pytest.mark.timeout(300), prometheus_server.needs_prometheus]

_PODS = "/api/v1/namespaces/default/pods"


class Watched:
    """An installation, and the Prometheus that scrapes its frontend."""

    def __init__(self, here: installation.Installation, url: str) -> None:
        self.here = here
        self._url = url

    async def alerts(self) -> set[str]:
        """The alerts that fire."""
        async with self.here.session.get(f"{self._url}/api/v1/alerts") as response:
            found = (await response.json())["data"]["alerts"]
        return {each["labels"]["alertname"] for each in found if each["state"] == "firing"}

    async def fires(self, name: str, *, not_yet: bool = False) -> None:
        """Return once the alert fires; `not_yet`: once it does not."""

        async def changed() -> bool:
            return (name in await self.alerts()) is not not_yet

        await installation.until(changed, 60, lambda: f"{name} does {'' if not_yet else 'not '}fire")

    async def clears(self, name: str) -> None:
        """Return once the alert does not fire any more."""
        await self.fires(name, not_yet=True)


# What stands for ranges of time in the alerts: their end is otherwise noticed after as long.
_RANGES = {"5m": "10s", "1h": "15s"}


@contextlib.asynccontextmanager
async def watched(folder: pathlib.Path, cluster: clusters.OpenCluster, **frontend: Any) -> AsyncIterator[Watched]:
    """A scheduler on two small nodes, scraped each second."""
    async with cluster(nodes=2, cpu="4") as here:
        await here.start(**frontend)
        targets = {prometheus_server.FRONTEND: [f"127.0.0.1:{here.port(here.frontends[0])}"]}
        async with prometheus_server.scraping(here, folder, targets, wait="2s", ranges=_RANGES) as url:
            seen = Watched(here, url)
            # Before the first scrape no frontend is known.
            await seen.clears("TriremeNoLeader")
            yield seen


@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)
async def test_alerts_fire_while_a_fault_lasts_and_clear_when_it_is_over(
    tmp_path: pathlib.Path, cluster: clusters.OpenCluster
) -> None:
    async with watched(tmp_path, cluster) as seen:
        here = seen.here
        await here.create_pods([pod("small", cpu="100m")])
        await here.bound(1)
        assert await seen.alerts() == set()

        # A pod that is larger than any node.
        await here.create_pods([pod("giant", cpu="64")])
        await seen.fires("TriremePodsWaitForNodes")
        await here.request("DELETE", f"{_PODS}/giant?gracePeriodSeconds=0")
        await seen.clears("TriremePodsWaitForNodes")

        # The only replica of a phase dies.
        score = here.phases["score"][0]
        score.kill()
        await here.create_pods([pod("waiting", cpu="100m")])
        of_phase = "TriremePhaseMissing", "TriremeReplicaBehind", "TriremeNothingTried"
        for name in of_phase:
            await seen.fires(name)
        score.start()
        for name in of_phase:
            await seen.clears(name)
        await here.bound(2)

        # Somebody writes what is no configuration.
        path = here.folder / "config-0.yaml"
        before = path.read_text()
        replaced = path.with_suffix(".new")
        replaced.write_text(yaml.safe_dump({**yaml.safe_load(before), "profiles": [{"schedulerName": 7}]}))
        replaced.replace(path)
        await seen.fires("TriremeConfigurationRefused")
        replaced.write_text(before)
        replaced.replace(path)
        await seen.clears("TriremeConfigurationRefused")

        # The only frontend dies.
        frontend = here.frontends[0]
        frontend.kill()
        await seen.fires("TriremeNoLeader")
        frontend.start()
        await seen.clears("TriremeNoLeader")
        await here.create_pods([pod("after", cpu="100m")])
        await here.bound(3)


@contextlib.asynccontextmanager
async def running(name: str, folder: pathlib.Path, *command: str) -> AsyncIterator[tuple[installation.Process, str]]:
    """A process that listens on a socket of its own, with its address."""
    address = f"unix:{folder}/{name}.sock"
    process = installation.Process(name, [*command, "--listen", address], folder / f"{name}.log")
    process.start()
    try:
        await process.listening()
        yield process, address
    finally:
        process.stop()


def _plugin(script: str) -> tuple[str, ...]:
    return sys.executable, "-u", str(pathlib.Path(__file__).parent / script)


def _enabling(name: str, address: str, point: str) -> dict[str, Any]:
    """The frontend's configuration with this plugin."""
    return {
        "configuration": {"profiles": [{"plugins": {point: {"enabled": [{"name": name}]}}}]},
        "own": {"remotePlugins": [{"name": name, "address": address, "extensionPoints": [point]}]},
    }


@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)
async def test_alerts_fire_while_a_plugin_is_gone(tmp_path: pathlib.Path, cluster: clusters.OpenCluster) -> None:
    """If this fails, nobody hears of pods that wait for a plugin and have neither event nor condition."""
    async with (
        running("plugin", tmp_path, *_plugin("gatekeeper.py")) as (plugin, address),
        watched(tmp_path, cluster, **_enabling("Gatekeeper", address, "preEnqueue")) as seen,
    ):
        await seen.here.create_pods([pod("before")])
        await seen.here.bound(1)
        plugin.kill()
        await seen.here.create_pods([pod("held")])
        of_plugin = "TriremePluginHoldsPods", "TriremePluginFails", "TriremePluginBreakerOpen"
        for name in of_plugin:
            await seen.fires(name)
        plugin.start()
        for name in of_plugin:
            await seen.clears(name)
        await seen.here.bound(2)


@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)
async def test_an_alert_fires_after_a_plugin_missed_an_event(
    tmp_path: pathlib.Path, cluster: clusters.OpenCluster
) -> None:
    """If this fails, the plugin's author learns nothing of the pods that waited for nothing."""
    insight_command = *installation.program("trireme.insight.process"), "--record-dir", str(tmp_path / "recordings")
    async with (
        running("plugin", tmp_path, *_plugin("forgetful.py")) as (_, plugin_address),
        running("insight", tmp_path, *insight_command) as (_, insight_address),
    ):
        settings = _enabling("Forgetful", plugin_address, "filter")
        settings["own"]["insight"] = {"endpoints": [insight_address]}
        async with watched(tmp_path, cluster, **settings) as seen:
            here = seen.here
            await here.logged(here.frontends[0], f"{insight_address}: in step")
            nodes = [each["metadata"]["name"] for each in await here.nodes()]
            for node in nodes:
                await _close(here, node, "yes")
            await here.create_pods([pod("late")])
            await here.condition("late", "2 node(s) were closed")
            await _close(here, nodes[0], None)
            await here.bound(1, 60)
            await seen.fires("TriremeMissedWakeUps")
            await seen.clears("TriremeMissedWakeUps")


async def _close(here: installation.Installation, node: str, value: str | None) -> None:
    patch = {"metadata": {"labels": {forgetful.LABEL: value}}}
    await here.request("PATCH", f"/api/v1/nodes/{node}", patch, "application/merge-patch+json")


@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)
async def test_an_alert_fires_while_score_decides_otherwise(
    tmp_path: pathlib.Path, cluster: clusters.OpenCluster
) -> None:
    """If this fails, no alert fires while score chooses nodes that it should not choose."""
    folder = pathlib.Path(__file__).parent
    async with cluster(nodes=2, cpu="64") as here:
        address, (port,) = f"unix:{here.folder}/insight.sock", ports.free_ports(1)
        flags = ["--listen", address, "--record-dir", str(tmp_path / "recordings"), "--metrics-listen"]
        command = [sys.executable, "-u", str(folder / "eager_insight.py"), *flags, f"127.0.0.1:{port}"]
        insight = installation.Process("insight", command, here.folder / "insight.log")
        score = here.add_phase("score")
        in_order = score.command
        faulty = [sys.executable, "-u", str(folder / "faulty_score.py")]
        score.command = [*faulty, *in_order[len(installation.program("trireme.score.process")) :]]
        processes = [insight, score, here.add_phase("filter"), here.add_phase("bind")]
        try:
            for process in processes:
                process.start()
            await asyncio.gather(*(process.listening() for process in processes))
            frontend = here.add_frontend(own={"insight": {"endpoints": [address]}})
            frontend.start()
            await here.leads(frontend)
            await here.logged(frontend, f"{address}: in step")
            targets = {
                "trireme-insight": [f"127.0.0.1:{port}"],
                prometheus_server.FRONTEND: [f"127.0.0.1:{here.port(frontend)}"],
            }
            async with prometheus_server.scraping(here, tmp_path, targets, wait="2s", ranges={"1h": "15s"}) as url:
                seen = Watched(here, url)
                await seen.clears("TriremeNoLeader")
                scheduling = asyncio.create_task(_schedule_one_by_one(here))
                await seen.fires("TriremeDecisionsDiffer")
                score.kill()
                score.command = in_order
                score.start()
                await score.listening()
                await seen.clears("TriremeDecisionsDiffer")
                scheduling.cancel()
        finally:
            insight.stop()


async def _schedule_one_by_one(here: installation.Installation) -> None:
    for number in range(1000):
        await here.create_pods([pod(f"p-{number}", cpu="10m")])
        await asyncio.sleep(0.2)
