"""The scheduler as processes, with feature gates flipped by the dozen: ready, and a pod bound.

`tests/unit/frontend/test_start_with_each_gate.py` puts it together with each gate alone.
"""

import pathlib

import pytest

from tests.e2e import installation

pytestmark = pytest.mark.timeout(120)

# AllAlpha needs GenericWorkload, here as in kube-scheduler.
SETS = (
    "AllAlpha=true,GenericWorkload=true",
    "AllBeta=false",
    "DRASchedulerFilterTimeout=false",
    "InPlacePodVerticalScalingSchedulerPreemption=true",
)


@pytest.mark.parametrize("gates", SETS)
async def test_the_scheduler_starts_and_binds(gates: str, tmp_path: pathlib.Path) -> None:
    async with installation.embedded(tmp_path, "--nodes", "1") as here:
        here.frontend_flags = [f"--feature-gates={gates}"]
        await here.start()
        await here.ready(here.frontends[0])
        await here.request("POST", "/api/v1/namespaces/default/pods", installation.pod("a"))

        async def bound() -> bool:
            return bool((await here.pod("a"))["spec"].get("nodeName"))

        await installation.until(bound, 30, lambda: here.frontends[0].said[-3000:])
