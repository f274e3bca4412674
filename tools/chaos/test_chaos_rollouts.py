"""Every replica of every phase is replaced, as `kubectl rollout restart` does it, while pods are being scheduled."""

import asyncio
import itertools
from typing import Any

import pytest

from tests.e2e import clusters, installation
from tests.e2e.installation import pod
from tools.controlplane import ports

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]

NODES = 60
REPLICAS = 2
ROUNDS = 2
BATCH = 25
LAG_SECONDS = 20.0
"""How long pods of a batch may take to be bound in the middle of a rollout; without one it is a tenth of a second."""

SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
WELCOME = {"filter": "in step", "score": "in step", "bind": "knows epoch"}


class Deployment:
    """The replicas of a phase, each a process with an EndpointSlice of its own."""

    def __init__(self, here: installation.Installation, phase: str) -> None:
        self._here = here
        self._phase = phase
        self._numbers = itertools.count()
        self.replicas: list[tuple[installation.Process, str]] = []

    async def add(self) -> None:
        """A new pod of the phase runs, and becomes ready once the frontend uses it."""
        here, phase, number = self._here, self._phase, next(self._numbers)
        (port,) = ports.free_ports(1)
        extra = here.tls_flags(phase)
        if phase == "bind":
            extra += ["--kubeconfig", str(here.bind_kubeconfig), "--kube-api-qps", "-1"]
        command = [*installation.program(f"trireme.{phase}.process"), "--listen", f"127.0.0.1:{port}", *extra]
        process = installation.Process(f"{phase}-{number}", command, here.folder / f"{phase}-{number}.log")
        here.phases[phase].append(process)
        process.start()
        await process.listening()
        await here.request("POST", SLICES, _slice(f"{phase}-{number}", f"trireme-{phase}", port))
        self.replicas.append((process, f"{phase}-{number}"))
        if here.frontends:
            await here.logged(here.frontends[0], f"127.0.0.1:{port}: {WELCOME[phase]}")

    async def remove_oldest(self) -> None:
        """The oldest pod is deleted: its endpoint goes, and its process is told to end, in no order."""
        process, name = self.replicas.pop(0)
        process.signal(installation.signal.SIGTERM)
        await self._here.request("DELETE", f"{SLICES}/{name}")
        assert await process.ended() == 0, process.said[-2000:]


def _slice(name: str, service: str, port: int) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}],
        "ports": [{"name": "grpc", "port": port, "protocol": "TCP"}],
    }


class Load:
    """Pods that are created all the while, a batch whenever the last one is bound."""

    def __init__(self, here: installation.Installation) -> None:
        self._here = here
        self.names: list[str] = []
        self.ending = asyncio.Event()

    async def run(self) -> None:
        """Create pods until `ending`. Raises: AssertionError where a batch is not bound in time."""
        while not self.ending.is_set():
            names = [f"p{len(self.names) + number}" for number in range(BATCH)]
            self.names += names
            await self._here.create_pods(pod(name, cpu=f"{10 + n % 5}m") for n, name in enumerate(names))
            await self._here.bound(len(self.names), seconds=LAG_SECONDS)


# A real API server takes no EndpointSlices with addresses of this machine alone.
@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)
async def test_a_rollout_of_every_phase_under_load(cluster: clusters.OpenCluster) -> None:
    """An upgrade of Trireme, and each change of a Deployment of it, is such a rollout.

    A scheduler that stops in one keeps its Lease, and looks healthy.
    """
    async with cluster(nodes=NODES, cpu="4") as here:
        here.certificates = installation.make_certificates(here.folder / "certificates")
        deployments = [Deployment(here, phase) for phase in here.phases]
        for deployment in deployments:
            for _ in range(REPLICAS):
                await deployment.add()
        phases = {
            phase: {
                "endpoints": [f"endpointslice:///default/trireme-{phase}:grpc"],
                "allowedIdentities": [f"trireme-{phase}.trireme-system.svc"],
            }
            for phase in here.phases
        }
        frontend = here.add_frontend(own={"phases": phases, "fallback": {"mode": "none"}})
        frontend.start()
        await here.leads(frontend)
        load = Load(here)
        async with asyncio.TaskGroup() as group:
            group.create_task(load.run())
            for deployment in deployments * ROUNDS:
                for _ in range(REPLICAS):
                    await deployment.add()
                    await deployment.remove_oldest()
            load.ending.set()
        assert frontend.running
        assert "A task ended" not in frontend.said
        assert len(load.names) > 4 * BATCH
        await here.check_promises(load.names)
