"""A plugin in shadow mode beside the whole scheduler."""

import pathlib
from typing import Any

import aiohttp
import orjson
import pytest

from tests.e2e import clusters, installation
from tests.e2e.installation import pod
from tests.e2e.test_e2e_plugins import plugin, profile, remote

pytestmark = pytest.mark.timeout(180)

SCRIPT = pathlib.Path(__file__).parents[2] / "examples/plugin-python/maintenance.py"


async def test_it_is_asked_and_compared_and_no_pod_notices(
    cluster: clusters.OpenCluster, tmp_path: pathlib.Path
) -> None:
    """Broken, a plugin cannot be tried on a cluster without deciding about its pods, or what it would do is unknown."""
    async with cluster(nodes=2) as here, plugin(tmp_path, SCRIPT) as address:
        for node in await here.nodes():
            path = f"/api/v1/nodes/{node['metadata']['name']}"
            change = {"metadata": {"labels": {"example.com/maintenance": "yes"}}}
            await here.request("PATCH", path, change, "application/merge-patch+json")
        own = remote("Maintenance", address, "filter", "score", mode="Shadow")
        socket = here.folder / "admin.sock"
        await here.start(
            configuration=profile("Maintenance", "filter", "score"), own={**own, "admin": {"socket": str(socket)}}
        )
        await here.create_pods([pod("p"), pod("q", cpu="200m")])
        await here.bound(2)

        async def row() -> dict[str, Any]:
            async with (
                aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(socket))) as session,
                session.get("http://frontend/trireme/v1/status") as response,
            ):
                (found,) = orjson.loads(await response.read())["plugins"]
                return dict(found)

        async def differs() -> bool:
            return bool((await row())["shadow"]["differed"])

        await installation.until(differs, 30, here.story)
        shadow = (await row())["shadow"]
        assert shadow["failed"] == 0
        assert shadow["refusedNodes"] >= 2
