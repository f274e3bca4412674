"""Leader election where the API server chooses the holder, on the real control plane."""

import pathlib
from collections.abc import Iterator

import pytest

from tests.e2e import group_sides, installation
from tests.e2e.group_sides import PODS, Stage
from tools.controlplane import controlplane_fixture, launcher
from trireme_kube.client.leaderelection import lease_candidate

pytestmark = [pytest.mark.timeout(180), pytest.mark.controlplane]

CANDIDATES = "/apis/coordination.k8s.io/v1beta1/namespaces/kube-system/leasecandidates"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"


@pytest.fixture(scope="module")
def plane() -> Iterator[launcher.ControlPlane]:
    """A control plane whose API server chooses leaders."""
    controlplane_fixture.require_built()
    options = launcher.Options(
        feature_gates={**group_sides.GATES, lease_candidate.GATE: True},
        runtime_config={**group_sides.SERVED, "coordination.k8s.io/v1beta1": True},
    )
    with launcher.ControlPlane(options) as running:
        yield running


async def _holder(on: Stage) -> str:
    lease = await on.here.request("GET", LEASE)
    return str(lease["spec"].get("holderIdentity") or "")


async def test_the_chosen_candidate_leads_and_another_takes_over(
    plane: launcher.ControlPlane, tmp_path: pathlib.Path
) -> None:
    async with group_sides.stage(plane, tmp_path, ("GenericWorkload",)) as on:
        on.here.frontend_flags = [f"--feature-gates={lease_candidate.GATE}=true"]
        first = on.here.add_frontend()
        first.start()
        try:
            await on.here.leads(first)
            candidates = (await on.here.request("GET", CANDIDATES))["items"]
            holder = await _holder(on)
            (own,) = [each["spec"] for each in candidates if each["metadata"]["name"] == holder]
            assert own["leaseName"] == "kube-scheduler"
            assert own["strategy"] == "OldestEmulationVersion"
            assert own["binaryVersion"] == own["emulationVersion"] == "1.38.0"
            lease = await on.here.request("GET", LEASE)
            assert lease["spec"]["strategy"] == "OldestEmulationVersion"
            await on.here.ready(first)
            await on.nodes(1)
            await on.here.request("POST", PODS, installation.pod("a", cpu="1"))
            await on.until_bound(1)
            second = on.here.add_frontend()
            second.start()
            await on.here.ready(second)
            assert await _holder(on) == holder
            first.kill()
            await on.here.leads(second)
            assert await _holder(on) not in ("", holder)
            await on.here.request("POST", PODS, installation.pod("b", cpu="1"))
            await on.until_bound(2)
        finally:
            on.here.stop()
