"""Devices that stand for cpu of their node, on the real control plane, beside kube-scheduler.

Both count them for the pods that come next, and write the same to the pod's status.
"""

import pathlib
from collections.abc import Iterator

import pytest

from tests.e2e import group_sides, installation
from tests.e2e.group_sides import PODS, Json, Stage
from tools.controlplane import controlplane_fixture, launcher

pytestmark = [pytest.mark.timeout(180), pytest.mark.controlplane]

GATES = ("GenericWorkload", "DRANodeAllocatableResources")

RESOURCE = "/apis/resource.k8s.io/v1"
CLAIMS = f"{RESOURCE}/namespaces/default/resourceclaims"


@pytest.fixture(scope="module")
def plane() -> Iterator[launcher.ControlPlane]:
    """One control plane, all of whose programs know such devices."""
    controlplane_fixture.require_built()
    options = launcher.Options(feature_gates=dict.fromkeys(GATES, True), runtime_config=group_sides.SERVED)
    with launcher.ControlPlane(options) as running:
        yield running


async def _devices(on: Stage) -> None:
    """Two devices on the first node, each of which stands for three cores, and a claim for each."""
    # The API server takes such devices only where the kubelet knows them.
    await on.patch("/api/v1/nodes/node-0/status", {"status": {"declaredFeatures": [GATES[1]]}})
    for claim in (await on.here.request("GET", CLAIMS))["items"] or []:
        await on.patch(f"{CLAIMS}/{claim['metadata']['name']}", {"metadata": {"finalizers": []}})
    for path in (CLAIMS, f"{RESOURCE}/deviceclasses", f"{RESOURCE}/resourceslices"):
        await on.here.request("DELETE", path)
    cores = {"cpu": {"mapping": {"deviceMultiplier": "3"}}, "memory": {"overhead": {"perContainer": "64Mi"}}}
    devices = [{"name": f"dev-{number}", "nodeAllocatableResources": cores} for number in range(2)]
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "cores.example.com", "pool": pool, "nodeName": "node-0", "devices": devices}
    await on.here.request("POST", f"{RESOURCE}/resourceslices", {"metadata": {"name": "slice"}, "spec": spec})
    await on.here.request("POST", f"{RESOURCE}/deviceclasses", {"metadata": {"name": "any"}, "spec": {}})
    request = {"name": "one", "exactly": {"deviceClassName": "any"}}
    for name in ("cores", "more"):
        claim = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
        await on.here.request("POST", CLAIMS, claim)


def _pod(name: str, *claims: str, **requests: str) -> Json:
    resources = {"requests": requests, "claims": [{"name": claim} for claim in claims]}
    return {
        "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "main", "image": "x", "resources": resources}],
            "resourceClaims": [{"name": claim, "resourceClaimName": claim} for claim in claims],
        },
    }


class Seen:
    """What one side made of it."""

    def __init__(self) -> None:
        self.steps: list[Json] = []

    async def look(self, on: Stage) -> None:
        """Note what there is now."""
        pods = await on.here.pods()
        self.steps.append(
            {
                "bound": await on.bound(),
                "counted": {pod["metadata"]["name"]: _counted(pod) for pod in pods},
                "refused": {pod["metadata"]["name"]: _refusal(pod) for pod in pods},
            }
        )

    async def play(self, on: Stage) -> None:
        """Eight cores: three each by two claims, and who comes then has one left."""
        await on.nodes(1, cpu="8")
        await _devices(on)
        await on.pods([_pod("claiming", "cores", cpu="500m")])
        await on.until_bound(1)
        await on.pods([_pod("other", "more", cpu="500m")])
        await on.until_bound(2)
        await on.pods([_pod("plain", cpu="2")])
        await _until_refused(on, "plain")
        await self.look(on)
        await on.delete(f"{PODS}/claiming")
        await on.until_bound(1, "plain", seconds=60.0)
        await self.look(on)


def _counted(pod: Json) -> list[Json]:
    """What its claims take of the node."""
    return pod["status"].get("nodeAllocatableResourceClaimStatuses") or []


def _refusal(pod: Json) -> str:
    conditions = pod["status"].get("conditions") or ()
    return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")


async def _until_refused(on: Stage, name: str) -> None:
    async def refused() -> bool:
        return bool(_refusal(await on.here.request("GET", f"{PODS}/{name}")))

    await installation.until(refused, 30.0, lambda: f"{name} is not refused: {on.logs()}")


async def test_devices_that_stand_for_cpu_are_counted_and_written_as_by_kube_scheduler(
    plane: launcher.ControlPlane, tmp_path: pathlib.Path
) -> None:
    ours, theirs = Seen(), Seen()
    await group_sides.played_to_trireme(plane, tmp_path / "ours", ours.play, GATES)
    full, done = ours.steps
    assert full["bound"] == ["claiming", "other"]
    mapping = [{"name": "cpu", "quantity": "3"}]
    assert [each["mapping"] for each in full["counted"]["claiming"]] == [mapping]
    assert "Insufficient cpu" in full["refused"]["plain"]
    assert "plain" in done["bound"]
    await group_sides.played_to_kube_scheduler(plane, tmp_path / "theirs", theirs.play, GATES)
    assert ours.steps == theirs.steps
