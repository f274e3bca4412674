"""Every service killed in turn in the middle of a thousand pods, with calls under way."""

import asyncio
import pathlib

import installation
import pytest
from installation import pod

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]

PODS = 1000


@pytest.mark.parametrize("service", ["frontend", "filter", "score", "bind"])
async def test_a_service_killed_in_the_middle_of_a_burst(tmp_path: pathlib.Path, service: str) -> None:
    """SIGKILL of any service with work under way drops no pod, binds none twice and overcommits no node."""
    async with installation.embedded(tmp_path, "--nodes", "100", "--cpu", "4") as here:
        await here.start()
        names = [f"p{n}" for n in range(PODS)]
        # 40 pods of 100m fill a node: 4,000 fit, so a node given out twice would show.
        creating = asyncio.create_task(here.create_pods((pod(name, cpu="350m") for name in names), at_once=8))
        bound = await here.bound(PODS // 5)
        victim = here.frontends[0] if service == "frontend" else here.phases[service][0]
        victim.kill()
        assert len(bound) < PODS, "the burst was over before the kill: there was nothing under way"
        await asyncio.sleep(0.3)
        victim.start()
        await creating
        await here.bound(PODS, seconds=120)
        await here.check_promises(names)


async def test_bind_killed_between_its_post_and_the_reply(tmp_path: pathlib.Path) -> None:
    """The API server has the binding, bind dies before it hears so: the pod is bound once, and counts once."""
    async with installation.embedded(tmp_path, "--nodes", "10") as here:
        await here.start()
        fault = {"action": "delay-reply", "method": "POST", "path": "/binding", "times": 40, "seconds": 3.0}
        await here.request("POST", "/trireme/faults", fault)
        names = [f"p{n}" for n in range(40)]
        await here.create_pods(pod(name) for name in names)
        await here.bound(1)
        here.phases["bind"][0].kill()
        here.phases["bind"][0].start()
        await here.bound(len(names))
        await here.check_promises(names)
        for name in names:
            await installation.until(lambda name=name: _told_once(here, name), 20, lambda name=name: f"event of {name}")


async def _told_once(here: installation.Installation, name: str) -> bool:
    return len(await here.events_of(name, "Scheduled")) == 1
