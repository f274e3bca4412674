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

from tests.e2e import clusters, installation, prometheus_server
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


# What stands for five minutes in the alerts: their end is otherwise noticed after as long.
_RANGES = {"5m": "10s"}


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


@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)
async def test_alerts_fire_while_a_plugin_is_gone(tmp_path: pathlib.Path, cluster: clusters.OpenCluster) -> None:
    """If this fails, nobody hears of pods that wait for a plugin and have neither event nor condition."""
    script, address = str(pathlib.Path(__file__).parent / "gatekeeper.py"), f"unix:{tmp_path}/plugin.sock"
    plugin = installation.Process(
        "plugin", [sys.executable, "-u", script, "--listen", address], tmp_path / "plugin.log"
    )
    plugin.start()
    try:
        await plugin.listening()
        profile = {"plugins": {"preEnqueue": {"enabled": [{"name": "Gatekeeper"}]}}}
        own = {"remotePlugins": [{"name": "Gatekeeper", "address": address, "extensionPoints": ["preEnqueue"]}]}
        async with watched(tmp_path, cluster, configuration={"profiles": [profile]}, own=own) as seen:
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
    finally:
        plugin.stop()


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
