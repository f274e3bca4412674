"""Plugins that are found by the EndpointSlices of a Service: their ready endpoints are called, as they come and go."""

import contextlib
import pathlib
import socket
import sys
from collections.abc import AsyncIterator

import pytest

from tests.e2e import admin_socket, installation, witness
from tests.e2e.installation import pod
from tests.e2e.test_e2e_plugins import profile, remote
from trireme.v1.scheduler_status_pb2 import PluginStatus

pytestmark = pytest.mark.timeout(180)

SCRIPT = pathlib.Path(__file__).parent / "prefers.py"
SERVICE = "endpointslice:///default/prefers:grpc"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


class _Replica:
    """One replica of the plugin, and the EndpointSlice that names it."""

    def __init__(self, here: installation.Installation, name: str) -> None:
        self._here, self._name, self.port = here, name, _free_port()
        self.process = installation.Process(
            name,
            [sys.executable, "-u", str(SCRIPT), "--listen", f"127.0.0.1:{self.port}"],
            here.folder / f"{name}.log",
        )

    async def add(self, *, ready: bool) -> None:
        """Add it to the Service."""
        body = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": self._name, "labels": {"kubernetes.io/service-name": "prefers"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": ready}}],
            "ports": [{"name": "grpc", "port": self.port, "protocol": "TCP"}],
        }
        await self._here.request("POST", SLICES, body)

    async def set_ready(self, *, ready: bool) -> None:
        """Whether its readiness probe succeeds."""
        change = {"endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": ready}}]}
        await self._here.request("PATCH", f"{SLICES}/{self._name}", change, "application/merge-patch+json")


@contextlib.asynccontextmanager
async def _cluster(folder: pathlib.Path) -> AsyncIterator[installation.Installation]:
    async with (
        installation.embedded(folder, "--nodes", "2", "--cpu", "64") as here,
        witness.watching(here.session, here.url, here.headers, here.tls) as here.witness,
    ):
        yield here


async def test_the_ready_endpoints_of_a_service_are_called_as_they_change(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a rollout of a plugin has pods wait, or calls go to a replica that is not ready."""
    async with _cluster(tmp_path) as here:
        node = (await here.nodes())[1]["metadata"]["name"]
        monkeypatch.setenv("PREFERRED_NODE", node)
        first, second = _Replica(here, "prefers-1"), _Replica(here, "prefers-2")
        admin = here.folder / "admin.sock"

        async def status() -> PluginStatus:
            (found,) = (await admin_socket.scheduler_status(admin)).plugins
            return found

        async def shows(address: str, health: str) -> None:
            async def shown() -> bool:
                found = await status()
                return (found.address, found.health) == (address, health)

            await installation.until(shown, 30, here.story)

        try:
            first.process.start()
            await first.process.listening()
            await first.add(ready=True)
            # Nobody listens there: a call would fail.
            await second.add(ready=False)
            configuration = profile("Prefers", "score")
            configuration["profiles"][0]["plugins"]["score"]["disabled"] = [{"name": "*"}]
            own = {**remote("Prefers", SERVICE, "score"), "admin": {"socket": str(admin)}}
            await here.start(configuration=configuration, own=own)
            await here.create_pods([pod("a", cpu="10m")])
            await here.bound(1)
            await shows(f"{SERVICE} (1 ready)", "ok")

            second.process.start()
            await second.process.listening()
            await second.set_ready(ready=True)
            await shows(f"{SERVICE} (2 ready)", "ok")
            await first.set_ready(ready=False)
            await shows(f"{SERVICE} (1 ready)", "ok")
            first.process.stop()
            await here.create_pods(pod(f"b-{number}", cpu="20m") for number in range(5))
            bound = await here.bound(6)
            assert {each["spec"]["nodeName"] for each in bound} == {node}
            assert (await status()).failed_calls == 0

            await second.set_ready(ready=False)
            await shows(f"{SERVICE} (0 ready)", "unreachable")
            assert (await status()).problem == f"no endpoint of {SERVICE} is ready"
            await here.create_pods([pod("c", cpu="30m")])
            await here.condition("c", "none of its endpoints is ready")
            await second.set_ready(ready=True)
            await here.bound(7)
        finally:
            for replica in (first, second):
                replica.process.stop()
