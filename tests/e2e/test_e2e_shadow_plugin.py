"""A plugin in shadow mode beside the whole scheduler."""

import pathlib

import pytest

from tests.e2e import admin_socket, clusters, installation
from tests.e2e.installation import pod
from tests.e2e.test_e2e_plugins import plugin, profile, remote
from trireme.v1.scheduler_status_pb2 import PluginComparison

pytestmark = pytest.mark.timeout(180)

SCRIPT = pathlib.Path(__file__).parents[2] / "examples/plugin-python/maintenance.py"


async def test_it_is_asked_and_compared_and_no_pod_notices(
    cluster: clusters.OpenCluster, tmp_path: pathlib.Path
) -> None:
    """If this fails, a plugin cannot be tried without deciding about pods, or its effect is unknown."""
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

        async def shadow() -> PluginComparison:
            (plugin,) = (await admin_socket.scheduler_status(socket)).plugins
            return plugin.shadow

        async def differs() -> bool:
            return (await shadow()).differed > 0

        await installation.until(differs, 30, here.story)
        found = await shadow()
        assert found.failed == 0
        assert found.refused_nodes >= 2
