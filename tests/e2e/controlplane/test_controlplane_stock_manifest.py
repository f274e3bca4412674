"""kubeadm's static pod of kube-scheduler, with nothing changed but image and command's name."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from tests.e2e import installation
from tests.e2e.controlplane import access_scenario
from tests.e2e.installation import pod
from tools.controlplane import access_log, controlplane_fixture, launcher, ports
from tools.controlplane.controlplane_fixture import start_controlplane
from trireme.config import trireme_configuration

__all__ = ["start_controlplane"]

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(300)]

USER = "system:kube-scheduler"
PORT = 10259


def command_line(kubeconfig: Path) -> list[str]:
    """The command of the manifest that kubeadm v1.37 writes, without its name.

    Source: getSchedulerCommand of cmd/kubeadm/app/phases/controlplane.
    """
    return [
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=true",
    ]


def _taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.needs_gate("DRADeviceBindingConditions", "DRAExtendedResource")
async def test_the_manifest_needs_no_other_change(
    start_controlplane: controlplane_fixture.StartControlPlane, tmp_path: Path
) -> None:
    """Who swaps the image and keeps the rest has a scheduler.

    One container, the same user with the same roles, the same probes. A permission that this user lacks would stop
    each pod that needs it.
    """
    options = launcher.Options(
        authorization="RBAC",
        users=(launcher.User(USER), launcher.User("nobody")),
        extra={"kube-apiserver": access_log.flags(tmp_path)},
    )
    cluster = start_controlplane(options)
    resources = json.loads(cluster.kubectl("get", "--raw", "/apis/resource.k8s.io/v1"))["resources"]
    served = {each["name"] for each in resources}
    async with access_scenario.opened(cluster, tmp_path, nodes=2) as here:
        flags, port = command_line(cluster.kubeconfig_of(USER)), PORT
        if _taken(PORT):  # by a scheduler of this machine's own
            (port,) = ports.free_ports(1)
            flags.append(f"--secure-port={port}")
        command = [*installation.program("trireme.frontend.process"), *flags]
        process = installation.Process("frontend-0", command, tmp_path / "frontend-0.log")
        here.frontends.append(process)
        process.start()
        await here.leads(process)
        phases = trireme_configuration.Phases()
        expected = [f"{name}-0" for name in trireme_configuration.PHASES if not phases.in_process(name)]
        of_forker = [pid for forker in _children(process.pid) for pid in _children(forker)]
        names = [Path(f"/proc/{pid}/comm").read_text().strip() for pid in of_forker]
        assert sorted(names) == sorted(expected)
        for path in ("/healthz", "/livez", "/readyz"):
            assert await installation.status_of(here.session, port, path) == 200
        assert await installation.status_of(here.session, port, "/metrics", cluster.token("nobody")) == 403
        await here.create_pods(pod(f"p{n}") for n in range(5))
        for number in range(5):
            await access_scenario.on_a_node(here, f"p{number}")
            await access_scenario.delete(here, f"p{number}")
        await access_scenario.volumes(here)
        await access_scenario.devices(here)
        await access_scenario.preemption(here)
        process.stop()
    asked = access_log.requests(tmp_path, [USER])
    assert asked
    # The role of schedulers that a version has does not name what it does not serve.
    refused = {(request.group, request.resource) for request in asked if not request.allowed}
    assert refused == {("resource.k8s.io", name) for name in {"devicetaintrules"} - served}
