"""A plugin that orders the queue, in a whole scheduler."""

import asyncio
import pathlib
import time
from typing import Any

import pytest

from tests.e2e import clusters, installation, kube_side
from tests.e2e.installation import pod
from tests.e2e.test_e2e_plugins import plugin, remote

pytestmark = pytest.mark.timeout(120)

FAIR_ORDER = pathlib.Path(__file__).with_name("fair_order.py")
# All pods have served their back-off after a second, and an event has all of them in the queue at once.
SORTED: dict[str, Any] = {
    "podInitialBackoffSeconds": 1,
    "podMaxBackoffSeconds": 1,
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": {"queueSort": {"enabled": [{"name": "FairOrder"}], "disabled": [{"name": "*"}]}},
        }
    ],
}
BACKOFF_SECONDS = 1.5


def waiting(name: str, rank: int | None) -> dict[str, Any]:
    """A pod that fills a node; without a rank it has the highest priority."""
    labels = {} if rank is None else {"rank": str(rank)}
    return pod(name, cpu="5", labels=labels, **({"priorityClassName": "important"} if rank is None else {}))


async def free_place(here: installation.Installation, name: str) -> str:
    """Delete the pod that has the node, once all others have served their back-off; answers who takes its place."""
    await all_have_backed_off(here)
    await here.request("DELETE", f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0")
    return await placed(here)


async def all_have_backed_off(here: installation.Installation) -> None:
    """Return once no pod has been tried for so long as pods back off: a change of a pod has it tried again."""
    attempts, since = -1.0, time.monotonic()
    while time.monotonic() - since < BACKOFF_SECONDS:
        samples = await kube_side.metrics(here.session, here.port(here.frontends[0]))
        found = sum(samples.get("scheduler_schedule_attempts_total", {}).values())
        if found != attempts:
            attempts, since = found, time.monotonic()
        await asyncio.sleep(0.1)


async def placed(here: installation.Installation) -> str:
    """The name of the one pod that has the node, once there is one."""
    found: list[str] = []

    async def there() -> bool:
        found[:] = [each["metadata"]["name"] for each in await here.pods() if each["spec"].get("nodeName")]
        return bool(found)

    await installation.until(there, 30, here.story)
    (only,) = found
    return only


async def test_a_free_place_goes_to_the_pod_that_the_plugin_puts_first(
    cluster: clusters.OpenCluster, tmp_path: pathlib.Path
) -> None:
    """If this fails, the queue is ordered by priority despite the profile, or keys of changed pods stay old."""
    async with cluster(nodes=1) as here, plugin(tmp_path, FAIR_ORDER) as address:
        await here.add_priority_class("important", 1000, preemptionPolicy="Never")
        ranks = {"c": 3, "a": 1, "b": 2, "unranked": None, "late": 9}
        await here.create_pods([waiting(name, rank) for name, rank in ranks.items()])
        await here.start(configuration=SORTED, own=remote("FairOrder", address, "queueSort"))
        assert await placed(here) == "a"
        for name in ("b", "c", "unranked", "late"):
            await here.condition(name, "Insufficient cpu")
        assert await free_place(here, "a") == "b"
        path = "/api/v1/namespaces/default/pods/late"
        await here.request("PATCH", path, {"metadata": {"labels": {"rank": "0"}}}, "application/merge-patch+json")
        assert await free_place(here, "b") == "late"
        assert await free_place(here, "late") == "c"


async def test_pods_wait_for_a_plugin_that_is_down(cluster: clusters.OpenCluster, tmp_path: pathlib.Path) -> None:
    """If this fails, pods are lost, or scheduled in an order that nobody asked for, while the plugin is away."""
    async with cluster(nodes=1) as here:
        own = remote("FairOrder", f"unix:{tmp_path}/plugin.sock", "queueSort", deadline="500ms")
        async with plugin(tmp_path, FAIR_ORDER):
            await here.start(configuration=SORTED, own=own)
        await here.create_pods([pod("p")])
        await here.logged(here.frontends[0], "plugin FairOrder")
        assert not (await here.pod("p"))["spec"].get("nodeName")
        async with plugin(tmp_path, FAIR_ORDER):
            assert await placed(here) == "p"


async def test_a_pod_that_the_plugin_raises_for_is_in_the_metrics_of_the_frontend(
    cluster: clusters.OpenCluster, tmp_path: pathlib.Path
) -> None:
    """If this fails, a pod waits forever, without an event or a condition, and no alert fires."""
    async with cluster(nodes=1) as here, plugin(tmp_path, FAIR_ORDER) as address:
        await here.start(configuration=SORTED, own=remote("FairOrder", address, "queueSort"))
        await here.create_pods([pod("p", labels={"rank": "first"})])

        async def samples() -> list[str]:
            url = f"https://127.0.0.1:{here.port(here.frontends[0])}/metrics"
            async with here.session.get(url, ssl=False) as response:
                return [line for line in (await response.text()).splitlines() if "FairOrder" in line]

        async def held() -> bool:
            return 'trireme_plugin_held_pods{plugin="FairOrder"} 1' in await samples()

        await installation.until(held, 30, here.story)
        found = await samples()
        assert 'trireme_plugin_breaker_open{plugin="FairOrder",rpc="QueueSort"} 0' in found
        # The SDK answers about each pod by itself: the call was answered.
        assert 'trireme_plugin_calls_total{plugin="FairOrder",result="failed"} 0' in found
        path = "/api/v1/namespaces/default/pods/p"
        await here.request("PATCH", path, {"metadata": {"labels": {"rank": "1"}}}, "application/merge-patch+json")
        assert await placed(here) == "p"
        assert not await held()
