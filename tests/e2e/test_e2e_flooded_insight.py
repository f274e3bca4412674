"""Ten thousand questions to insight beside a scheduler that places pods: their cost to it, and who is answered."""

import json
import os
import pathlib
import sys

import pytest

from tests.e2e import clusters, installation
from tests.e2e.installation import pod

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.parametrize("cluster", ["embedded"], indirect=True),
]

QUESTIONS = 10_000
CALLERS = 10
PODS = 100
# Processor time of the scheduler for each pod, with the flood and without it; measured: 1.1.
MOST = 2.0


def cpu_seconds(here: installation.Installation) -> float:
    """The processor time that the frontend and all phases have taken."""
    ticks = 0
    for process in (*here.frontends, *(each for replicas in here.phases.values() for each in replicas)):
        fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


async def schedule(here: installation.Installation, first: int) -> float:
    """Create pods, and wait until all are bound; the scheduler's processor time for each, in seconds."""
    before = cpu_seconds(here)
    await here.create_pods(pod(f"p-{number}", cpu="10m") for number in range(first, first + PODS))
    await here.bound(first + PODS, 120)
    return (cpu_seconds(here) - before) / PODS


async def test_the_scheduler_goes_on_as_before_and_every_question_has_an_answer(cluster: clusters.OpenCluster) -> None:
    """A caller could stop scheduling, or wait for an answer that never comes."""
    async with cluster(nodes=3, cpu="64") as here:
        address = f"unix:{here.folder}/insight.sock"
        command = [*installation.program("trireme.insight.process"), "--listen", address]
        insight = installation.Process("insight", command, here.folder / "insight.log")
        program = str(pathlib.Path(__file__).with_name("flood.py"))
        asking = [sys.executable, "-u", program, address, str(QUESTIONS), str(CALLERS)]
        flood = installation.Process("flood", asking, here.folder / "flood.log")
        insight.start()
        try:
            await insight.listening()
            await here.start(own={"insight": {"endpoints": [address]}})
            await here.logged(here.frontends[0], f"{address}: in step")
            await schedule(here, 0)
            alone = await schedule(here, PODS)
            flood.start()
            await here.logged(flood, "asking")
            flooded = await schedule(here, 2 * PODS)
            assert await flood.ended(240) == 0, flood.said
        finally:
            flood.kill()
            insight.stop()
        codes = json.loads(flood.said.splitlines()[-1])
        print(f"{alone * 1e3:.1f} ms a pod alone, {flooded * 1e3:.1f} ms beside the flood; {codes}")
        assert sum(codes.values()) == QUESTIONS
        assert set(codes) == {"OK", "RESOURCE_EXHAUSTED"}
        assert flooded <= MOST * alone, f"{flooded * 1e3:.1f} ms a pod instead of {alone * 1e3:.1f} ms"
