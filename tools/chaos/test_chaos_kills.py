"""Every service killed in turn in the middle of a thousand pods, at a moment when it has calls to answer."""

import asyncio
import contextlib
import pathlib
import time
from collections.abc import AsyncIterator, Mapping

import pytest
import yaml

from tests.e2e import clusters, installation
from tests.e2e.installation import pod
from tools.chaos import relay

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]

PODS = 1000
NODES = 100
LATE_SECONDS = 2.0
"""Bindings that were under way when a frontend died may be seen so much later."""


@contextlib.asynccontextmanager
async def relays(here: installation.Installation) -> AsyncIterator[Mapping[str, relay.Relay]]:
    """A relay before the first replica of each phase, for the frontends that are added within the block."""
    async with contextlib.AsyncExitStack() as stack:
        made = {}
        for phase in here.phases:
            address = here.socket(phase, 0)
            between = relay.Relay(address, address.replace(".sock", ".relay"), grpc=True)
            made[phase] = await stack.enter_async_context(between)
            here.relayed[address] = between.address
        yield made


def burst(here: installation.Installation) -> tuple[list[str], asyncio.Task[None]]:
    """A thousand pods of 50 classes, being created; they take 4/5 of the cluster, so a node given twice would show."""
    names = [f"p{n}" for n in range(PODS)]
    pods = (pod(name, cpu=f"{295 + n % 50}m") for n, name in enumerate(names))
    return names, asyncio.create_task(here.create_pods(pods, at_once=8))


async def killed_at_work(
    here: installation.Installation, victim: installation.Process, at: relay.Relay
) -> tuple[float, list[str]]:
    """SIGKILL while a call is under way there and pods wait for it; answers when, and the pods that had no node."""
    await here.bound(PODS // 5)
    story: list[int] = []

    def kill() -> None:
        story.append(at.under_way)
        victim.kill()

    await at.struck(kill, seconds=30)
    waiting = [uid for uid in here.witness.names if uid not in here.witness.node_of]
    assert story[0] > 0
    assert waiting, "every pod that there was had been bound before the kill: it hit nobody"
    assert here.witness.bound < PODS, "the burst was over before the kill"
    return time.monotonic(), waiting


@pytest.mark.parametrize("service", ["frontend", "filter", "score", "bind"])
async def test_a_service_killed_in_the_middle_of_a_burst(cluster: clusters.OpenCluster, service: str) -> None:
    """SIGKILL of any service with calls under way drops no pod, binds none twice and overcommits no node."""
    async with cluster(nodes=NODES, cpu="4") as here, relays(here) as between:
        await here.start(configuration=installation.SHORT_LEASE if service == "frontend" else None)
        names, creating = burst(here)
        if service == "frontend":
            victim, at = here.frontends[0], between["bind"]
        else:
            victim, at = here.phases[service][0], between[service]
        when, _ = await killed_at_work(here, victim, at)
        await asyncio.sleep(0.3)
        victim.start()
        await creating
        await here.bound(PODS, seconds=120)
        await here.check_promises(names, excused=before(here, when) if service == "frontend" else ())


def before(here: installation.Installation, when: float) -> list[str]:
    """The pods that a frontend killed then may have bound without reporting it."""
    return [uid for uid, bound in here.witness.bound_at.items() if bound < when + LATE_SECONDS]


async def test_bind_killed_between_its_post_and_the_reply(cluster: clusters.OpenCluster) -> None:
    """The API server has the binding, bind dies before it hears so: the pod is bound once, and counts once."""
    async with cluster(nodes=10) as here, relay.Relay(here.url.rpartition("/")[2]) as between:
        here.bind_kubeconfig = _kubeconfig_by(here, between.address)
        await here.start()
        names = [f"p{n}" for n in range(60)]
        # Bind keeps connections to the API server from these; with replies held it could not open any.
        await here.create_pods(pod(name) for name in names[:20])
        await here.bound(20)
        await here.check_promises(names[:20])
        between.hold()
        await here.create_pods(pod(name) for name in names[20:])
        await here.bound(21)
        # Whatever it asked since has been done and not answered.
        assert between.held_bytes > 0
        here.phases["bind"][0].kill()
        between.cut()
        here.phases["bind"][0].start()
        await here.bound(len(names))
        await here.check_promises(names)


def _kubeconfig_by(here: installation.Installation, address: str) -> pathlib.Path:
    """The cluster's kubeconfig, with another address of the same API server."""
    document = yaml.safe_load(here.kubeconfig.read_text())
    scheme = here.url.partition(":")[0]
    document["clusters"][0]["cluster"]["server"] = f"{scheme}://{address}"
    path = here.folder / "bind.kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return path
