"""`helm test` of the chart: it succeeds where the scheduler schedules, and only there."""

import asyncio
import pathlib
import subprocess

import pytest

from deploy import make_manifests
from tests.e2e import installation
from tools.programs import programs_fixture

pytestmark = pytest.mark.timeout(180)

NAMESPACE = "trireme-system"
LEASE = {"leaderElect": True, "resourceName": "trireme", "resourceNamespace": NAMESPACE}
# What makes a container of the embedded cluster end; its Deployments' pods run on.
ENDS = "pods.annotations.trireme\\.dev/run-seconds=1"


async def test_helm_test_succeeds_once_the_scheduler_schedules(tmp_path: pathlib.Path) -> None:
    programs_fixture.require_programs()

    async def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
        words = (*arguments, "--namespace", NAMESPACE, "--kubeconfig", str(here.kubeconfig))
        return await asyncio.to_thread(programs_fixture.run_helm, *words, home=tmp_path)

    async with installation.embedded(tmp_path / "cluster") as here:
        chart = str(make_manifests.CHART)
        values = ("--set", "mode=standalone", "--set-string", ENDS)
        installed = await helm("install", "trireme", chart, "--create-namespace", *values)
        assert installed.returncode == 0, installed.stderr
        unscheduled = await helm("test", "trireme", "--timeout", "3s")
        assert unscheduled.returncode != 0
        here.bind_flags = ["--leader-elect-resource-name=trireme", f"--leader-elect-resource-namespace={NAMESPACE}"]
        profile = {"profiles": [{"schedulerName": "trireme"}]}
        await here.start(configuration={"leaderElection": LEASE, **profile})
        tested = await helm("test", "trireme", "--timeout", "60s")
        assert tested.returncode == 0, tested.stderr + here.story()
        assert "Phase:          Succeeded" in tested.stdout
