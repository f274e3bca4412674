"""How fast the scheduler writes: clientConnection's qps and burst hold for each of its clients."""

import asyncio
import time

import pytest

from tests.e2e import clusters
from tests.e2e.installation import pod

pytestmark = [pytest.mark.timeout(180), pytest.mark.parametrize("cluster", ["embedded"], indirect=True)]

QPS, BURST, PODS = 4, 4, 24


async def test_no_client_writes_faster_than_configured(cluster: clusters.OpenCluster) -> None:
    """Bindings, or events, would come in a flood that the operator has forbidden; or one would use up what others have.

    Bindings are written by bind, events by the frontend: each has the whole rate for itself.
    """
    async with cluster(nodes=2) as here:
        connection = {"kubeconfig": str(here.kubeconfig), "qps": QPS, "burst": BURST}
        frontend = here.add_frontend({"clientConnection": connection, "leaderElection": {"leaderElect": False}})
        frontend.start()
        await here.leads(frontend)
        began = time.monotonic()
        await here.create_pods(pod(f"p{number}") for number in range(PODS))
        bound = told = 0
        while bound < PODS or told < PODS:
            await asyncio.sleep(0.25)
            bound = sum(1 for each in await here.pods() if each["spec"].get("nodeName"))
            told = len(await here.scheduled_events())
            most = BURST + QPS * (time.monotonic() - began)
            assert max(bound, told) <= most, f"{bound} bound and {told} reported, at most {most:.0f} may be"
            assert time.monotonic() - began < 60, f"{bound} bound and {told} reported\n{frontend.said[-2000:]}"
        took = time.monotonic() - began
    # One after the other would take twice as long.
    assert took < 2 * (PODS - BURST) / QPS + 5, f"{took:.1f} s"
