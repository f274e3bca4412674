"""A scheduler on an API server without some APIs that it reads: of an earlier version, or with APIs turned off."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.e2e import admin_socket, installation
from tools.controlplane import access_log, controlplane_fixture, launcher
from tools.controlplane.controlplane_fixture import start_controlplane
from trireme_kube.client.informers import listwatch

__all__ = ["start_controlplane"]

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(300)]

GATES = ("GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup", "CoordinatedLeaderElection")
DEVICES = {f"resource.k8s.io/v1/{name}" for name in ("deviceclasses", "resourceclaims", "resourceslices")}
RULES = "resource.k8s.io/v1/devicetaintrules"
OF_GATES = {
    "scheduling.k8s.io/v1beta1/podgroups",
    "scheduling.k8s.io/v1beta1/compositepodgroups",
    "coordination.k8s.io/v1beta1/leasecandidates",
}
LINE = "not served by this API server"
# Long enough for any request that is sent again and again.
QUIET_SECONDS = 5.0


@asynccontextmanager
async def _running(
    plane: launcher.ControlPlane, folder: Path, *gates: str
) -> AsyncIterator[tuple[installation.Installation, Path]]:
    """The scheduler with three nodes, and its admin socket."""
    headers = {"Authorization": f"Bearer {plane.token()}"}
    tls = ssl.create_default_context(cafile=str(plane.authority))
    here = installation.Installation(folder, plane.kubeconfig, plane.server, headers, tls)
    here.frontend_flags += launcher.gate_flags(dict.fromkeys(gates, True))
    socket = folder / "admin.sock"
    async with aiohttp.ClientSession() as here.session:
        for number in range(3):
            await here.add_node(f"node-{number}")
        try:
            await here.start(own={"admin": {"socket": str(socket)}})
            yield here, socket
        finally:
            here.stop()


async def _bound(here: installation.Installation, count: int) -> list[str]:
    """The nodes of the pods, once so many are bound; not by a watch, which a restart of the API server would end."""

    async def nodes() -> list[str]:
        found = [each["spec"].get("nodeName", "") for each in await here.pods()]
        return [name for name in found if name]

    async def are_bound() -> bool:
        return len(await nodes()) >= count

    await installation.until(are_bound, 60, here.story)
    return await nodes()


async def _absent(socket: Path) -> set[str]:
    return {each.api for each in (await admin_socket.scheduler_status(socket)).absent_apis}


async def _printed(command: str, socket: Path, *arguments: str) -> str:
    """What a command about the running scheduler prints."""
    trireme = Path(sys.executable).with_name("trireme")
    process = await asyncio.create_subprocess_exec(
        *(trireme, command, "--socket", socket, *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return out.decode()


def _complaints(here: installation.Installation) -> list[str]:
    """Warnings and errors of all processes, beside the line about APIs and those about flags, as kube-scheduler's."""
    logs = sorted(here.folder.glob("*-*.log"))
    lines = [line for log in logs for line in log.read_text().splitlines()]
    return [
        line for line in lines if re.match(r"[WEF]\d{4} ", line) and LINE not in line and "commandline.py" not in line
    ]


def _not_found(folder: Path) -> Counter[str]:
    """How often the API server answered a read of ours with 404, by path."""
    events = [json.loads(line) for line in (folder / "audit.log").read_text().splitlines()]
    return Counter(
        event["requestURI"].partition("?")[0]
        for event in events
        if event["stage"] == "ResponseComplete"  # and not when a watch began as well
        and event["responseStatus"]["code"] == 404
        and event["verb"] in ("list", "watch", "get")
        and event["user"]["username"] == launcher.ADMIN.name
    )


async def test_this_version_schedules_and_what_it_lacks_is_named(
    start_controlplane: controlplane_fixture.StartControlPlane, tmp_path: Path
) -> None:
    """If this fails, nobody can run this release on the cluster that they have."""
    plane = start_controlplane(launcher.Options())
    served = {
        each["name"] for each in json.loads(plane.kubectl("get", "--raw", "/apis/resource.k8s.io/v1"))["resources"]
    }
    lacks = {RULES} - {f"resource.k8s.io/v1/{name}" for name in served}
    async with _running(plane, tmp_path) as (here, socket):
        (frontend,) = here.frontends
        await here.create_pods([*(installation.pod(f"p{n}") for n in range(20)), installation.pod("big", cpu="99")])
        assert set(await _bound(here, 20)) == {"node-0", "node-1", "node-2"}
        (event,) = await here.reported_events_of("p0", "Scheduled")
        assert event["reportingController"] == "default-scheduler"
        await here.condition("big", "Insufficient cpu")
        lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
        assert (await here.request("GET", lease))["spec"]["holderIdentity"]
        await here.ready(frontend)
        assert "Insufficient cpu" in await _printed("explain", socket, "default/big")
        assert await _absent(socket) == lacks
        document = json.loads(await _printed("status", socket, "-o", "json"))
        assert {each["api"] for each in document.get("absentApis", ())} == lacks
        shown = await _printed("status", socket)
        assert all(f"{api}: no " in shown for api in lacks)
        assert frontend.said.count(LINE) == len(lacks)
        assert _complaints(here) == []


async def test_what_is_not_served_is_off_and_is_not_requested_again(
    start_controlplane: controlplane_fixture.StartControlPlane, tmp_path: Path
) -> None:
    """If this fails, an API server without an API is asked for it all the time, or nothing is scheduled on it."""
    audit = access_log.flags(tmp_path)
    options = launcher.Options(runtime_config={"resource.k8s.io/v1": False}, extra={"kube-apiserver": audit})
    plane = start_controlplane(options)
    async with _running(plane, tmp_path, *GATES) as (here, socket):
        (frontend,) = here.frontends
        await here.create_pods(installation.pod(f"p{n}") for n in range(5))
        await _bound(here, 5)
        await here.ready(frontend)
        assert await _absent(socket) == {*DEVICES, RULES, *OF_GATES}
        assert frontend.said.count(LINE) == 1
        (line,) = (line for line in frontend.said.splitlines() if LINE in line)
        assert all(api in line for api in (*DEVICES, RULES, *OF_GATES))
        await asyncio.sleep(QUIET_SECONDS)
        # Claims also by a new leader, which must have seen what an earlier one wrote.
        often = {path: count for path, count in _not_found(tmp_path).items() if count > 1}
        assert often.keys() <= {"/apis/resource.k8s.io/v1/resourceclaims"}, often
        assert all(count == 2 for count in often.values())
        assert _complaints(here) == []
        plane.restart_program("kube-apiserver", "--runtime-config=resource.k8s.io/v1=true")

        async def are_found() -> bool:
            return await _absent(socket) <= {RULES, *OF_GATES}

        await installation.until(are_found, 2 * listwatch.ABSENT_PAUSE_SECONDS + 60, lambda: frontend.said[-3000:])
        assert "resource.k8s.io/v1/resourceclaims: the API server serves it by now" in frontend.said
        await here.create_pods([installation.pod("later")])
        await _bound(here, 6)
