"""A split installation whose phases run in pods that it schedules itself, as in kube-scheduler's place."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.e2e import clusters, installation
from tests.e2e.installation import pod

pytestmark = pytest.mark.timeout(180)

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"

embedded_only = pytest.mark.parametrize("cluster", ["embedded"], indirect=True)

Json = dict[str, Any]


def _deployment(phase: str) -> Json:
    labels = {"phase": phase}
    container = {"name": phase, "image": "trireme", "resources": {"requests": {"cpu": "100m"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "terminationGracePeriodSeconds": 0}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": phase}, "spec": spec}


class _Machines:
    """Runs the process of a phase for as long as a pod of it has a node, as kubelets do."""

    def __init__(self, here: installation.Installation) -> None:
        self._here = here
        # The pod that each phase's process runs for, at first the first one.
        self._running: dict[str, str | None] = dict.fromkeys(here.phases)

    def kill_all(self) -> None:
        """At once, without a goodbye."""
        for phase, replicas in self._here.phases.items():
            replicas[0].kill()
            self._running[phase] = ""

    def settled(self) -> bool:
        """Whether every process runs for a pod."""
        return all(self._running.values())

    async def run(self) -> None:
        while True:
            for phase in self._here.phases:
                await self._look(phase)
            await asyncio.sleep(0.1)

    async def _look(self, phase: str) -> None:
        found = await self._here.request("GET", f"{PODS}?labelSelector=phase%3D{phase}")
        uids = [
            entry["metadata"]["uid"]
            for entry in found["items"] or []
            if entry["spec"].get("nodeName") and not entry["metadata"].get("deletionTimestamp")
        ]
        (process,) = self._here.phases[phase]
        running = self._running[phase]
        if uids and running is None:
            self._running[phase] = uids[0]
        elif running is not None and running not in uids:
            process.kill()
            self._running[phase] = uids[0] if uids else ""
            if uids:
                process.start()


@contextlib.asynccontextmanager
async def _machines(here: installation.Installation) -> AsyncIterator[_Machines]:
    machines = _Machines(here)
    running = asyncio.create_task(machines.run())
    try:
        yield machines
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _served_by_pods(here: installation.Installation) -> None:
    """Return once the frontend uses the phases' pods again, and its own have ended."""

    def settled() -> bool:
        said = here.frontends[0].said
        return all(
            here.welcomes(phase, 0) == 2 and f"{phase} answers again: our own ends" in said for phase in here.phases
        )

    await installation.until(settled, 90, lambda: here.frontends[0].said[-3000:])


@embedded_only
async def test_phase_pods_that_are_all_gone_come_back(cluster: clusters.OpenCluster) -> None:
    """The frontend starts phases of its own and schedules the phase pods with them.

    Without that, a cluster whose phase pods are all gone would have no scheduler, and no way out.
    """
    async with cluster(nodes=3) as here:
        await here.start(own={"fallback": {"after": "1s"}})
        async with _machines(here) as machines:
            for phase in here.phases:
                await here.request("POST", DEPLOYMENTS, _deployment(phase))
            await here.bound(3)
            await installation.until(machines.settled, 10, lambda: "pods of all phases")
            before = {entry["metadata"]["uid"] for entry in await here.pods()}
            machines.kill_all()
            await here.request("DELETE", f"{PODS}?gracePeriodSeconds=0")
            await here.create_pods(pod(f"p{n}") for n in range(10))
            await here.bound(13)
            await _served_by_pods(here)
            assert not before & {entry["metadata"]["uid"] for entry in await here.pods()}
            await here.create_pods(pod(f"q{n}") for n in range(10))
            await here.bound(23)
