"""Insight remembers the decision about every pod, whatever happens to plugins and the configuration meanwhile."""

import asyncio
import pathlib
import sys
from typing import Any

import aiohttp
import orjson
import pytest
import yaml

from tests.e2e import clusters, installation
from tests.e2e.installation import pod

pytestmark = pytest.mark.timeout(180)

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
PLUGIN = "Maintenance"


def _profile(weight: int) -> dict[str, Any]:
    """A profile with a service at Filter and Score; the plugin's weight is its only difference."""
    plugins = {
        "filter": {"enabled": [{"name": PLUGIN}]},
        "score": {"enabled": [{"name": PLUGIN, "weight": weight}]},
    }
    return {"schedulerName": "default-scheduler", "plugins": plugins}


class Scheduler:
    """A scheduler with insight and a plugin that can be restarted."""

    def __init__(self, here: installation.Installation) -> None:
        self.here = here
        address = f"unix:{here.folder}/plugin.sock"
        program = [sys.executable, str(EXAMPLES / "plugin-python" / "maintenance.py"), "--listen", address]
        self._plugin = installation.Process("plugin", program, here.folder / "plugin.log")
        self._insight_address = f"unix:{here.folder}/insight.sock"
        insight = [*installation.program("trireme.insight.process"), "--listen", self._insight_address]
        self._insight = installation.Process("insight", insight, here.folder / "insight.log")
        self._own = {
            "admin": {"socket": str(here.folder / "admin.sock")},
            "insight": {"endpoints": [self._insight_address]},
            "remotePlugins": [
                {"name": PLUGIN, "address": address, "extensionPoints": ["filter", "score"], "failurePolicy": "Fail"}
            ],
        }
        self.created = 0

    async def start(self) -> None:
        for process in (self._plugin, self._insight):
            process.start()
            await process.listening()
        await self.here.start(configuration={"profiles": [_profile(1)]}, own=self._own)
        await self.here.logged(self.here.frontends[0], f"{self._insight_address}: in step")

    def stop(self) -> None:
        for process in (self._plugin, self._insight):
            process.stop()

    async def create(self, count: int) -> None:
        await self.here.create_pods(pod(f"p-{self.created + n}", cpu="10m") for n in range(count))
        self.created += count

    async def restart_plugin(self) -> None:
        """Pods that come while it is gone wait for it."""
        self._plugin.kill()
        await self.create(2)
        self._plugin.start()
        await self.here.bound(self.created)

    async def reload(self, weight: int) -> None:
        """Change the plugin's weight, while pods come one after the other."""
        path = self.here.folder / "config-0.yaml"
        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "profiles": [_profile(weight)]}))
        frontend = self.here.frontends[0]
        reloads = frontend.said.count("Configuration reloaded")
        while frontend.said.count("Configuration reloaded") == reloads:
            await self.create(1)
            await asyncio.sleep(0.05)
        await self.create(3)
        await self.here.bound(self.created)

    async def decisions(self) -> dict[str, Any]:
        """What `trireme explain` has of the decision about each pod, by name, once insight has the configuration."""
        connector = aiohttp.UnixConnector(str(self.here.folder / "admin.sock"))
        async with aiohttp.ClientSession(connector=connector) as session:

            async def decision(number: int) -> Any:
                query = {"pod": f"default/p-{number}"}
                async with session.get("http://frontend/trireme/v1/explain", params=query) as response:
                    report = orjson.loads(await response.read())
                    return report.get("decision") or report

            async def in_step() -> bool:
                return "in step" not in (await decision(0)).get("insightError", "")

            await installation.until(in_step, 30, self.here.story)
            return {f"p-{number}": await decision(number) for number in range(self.created)}


async def test_each_pod_bound_around_restarts_and_reloads_has_its_decision(cluster: clusters.OpenCluster) -> None:
    """For most of these pods `trireme explain` found no decision in memory."""
    async with cluster(nodes=3, cpu="64") as here:
        scheduler = Scheduler(here)
        try:
            await scheduler.start()
            await scheduler.create(3)
            await here.bound(3)
            for weight in (2, 3):
                await scheduler.restart_plugin()
                await scheduler.reload(weight)
            found = await scheduler.decisions()
            nodes = {one["metadata"]["name"]: one["spec"]["nodeName"] for one in await here.bound(scheduler.created)}
        finally:
            scheduler.stop()
        assert {name: decision.get("nodeName", decision) for name, decision in found.items()} == nodes
