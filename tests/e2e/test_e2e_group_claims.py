"""Claims for devices that belong to a PodGroup, on the real control plane, beside kube-scheduler.

Its controller makes them from templates, the pods of a group share one, and it is the group that is known to use it.
"""

import pathlib
from collections.abc import Iterator

import pytest

from tests.e2e import group_sides, installation
from tests.e2e.group_sides import GROUPS, PODS, Json, Stage, gang, members
from tools.controlplane import controlplane_fixture, launcher

pytestmark = [pytest.mark.timeout(180), pytest.mark.controlplane]

GATES = ("GenericWorkload", "DRAWorkloadResourceClaims")

RESOURCE = "/apis/resource.k8s.io/v1"
CLAIMS = f"{RESOURCE}/namespaces/default/resourceclaims"
DRIVER = "shared.example.com"

# What belongs to the group, and its pods say the same.
CLAIM = {"name": "device", "resourceClaimTemplateName": "one"}


@pytest.fixture(scope="module")
def plane() -> Iterator[launcher.ControlPlane]:
    """One control plane with controllers, all of whose programs know claims of groups."""
    controlplane_fixture.require_built()
    options = launcher.Options(
        controllers=True, feature_gates=dict.fromkeys(GATES, True), runtime_config=group_sides.SERVED
    )
    with launcher.ControlPlane(options) as running:
        yield running


async def _devices(on: Stage, count: int) -> None:
    """So many devices on the first node, and a template that asks for one."""
    for claim in (await on.here.request("GET", CLAIMS))["items"] or []:
        path = f"{CLAIMS}/{claim['metadata']['name']}"
        await on.patch(path, {"metadata": {"finalizers": []}})
    templates = f"{RESOURCE}/namespaces/default/resourceclaimtemplates"
    for path in (CLAIMS, templates, f"{RESOURCE}/deviceclasses", f"{RESOURCE}/resourceslices"):
        await on.here.request("DELETE", path)
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"dev-{number}"} for number in range(count)]
    slice_spec = {"driver": DRIVER, "pool": pool, "nodeName": "node-0", "devices": devices}
    await on.here.request("POST", f"{RESOURCE}/resourceslices", {"metadata": {"name": "slice"}, "spec": slice_spec})
    await on.here.request("POST", f"{RESOURCE}/deviceclasses", {"metadata": {"name": "any"}, "spec": {}})
    request = {"name": "one", "exactly": {"deviceClassName": "any"}}
    spec = {"spec": {"devices": {"requests": [request]}}}
    await on.here.request("POST", templates, {"metadata": {"name": "one"}, "spec": spec})


async def _users(on: Stage) -> list[tuple[str, ...]]:
    """Who uses which device."""
    out = []
    for claim in (await on.here.request("GET", CLAIMS))["items"] or []:
        status = claim.get("status", {})
        given = status.get("allocation", {}).get("devices", {}).get("results", ())
        for user in status.get("reservedFor") or [{}]:
            whose = tuple(user.get(field, "") for field in ("apiGroup", "resource", "name"))
            out.append((*whose, *(result["device"] for result in given)))
    return sorted(out)


async def _claiming(on: Stage, group: str, count: int) -> None:
    await on.group(gang(group, count, resourceClaims=[CLAIM]))
    await on.pods(members(group, count, resourceClaims=[CLAIM]))


class Seen:
    """What one side made of it."""

    def __init__(self) -> None:
        self.steps: list[Json] = []

    async def look(self, on: Stage) -> None:
        """Note what there is now."""
        groups = [group["metadata"]["name"] for group in (await on.here.request("GET", GROUPS))["items"]]
        conditions = [await on.condition(group) for group in sorted(groups)]
        self.steps.append(
            {
                "bound": await on.bound(),
                "users": await _users(on),
                "conditions": [each.get("reason") for each in conditions],
            }
        )

    async def play(self, on: Stage) -> None:
        """One device and two groups: the second one waits for the first one's."""
        await on.nodes(2, cpu="8")
        await _devices(on, 1)
        await _claiming(on, "a", 3)
        await on.until_bound(3, "a-")
        await _claiming(on, "b", 2)
        await on.until_condition("b", "Unschedulable", "cannot be satisfied")
        await on.until_condition("a", "Scheduled")
        await self.look(on)
        for number in range(3):
            await on.delete(f"{PODS}/a-{number}")
        await on.delete(f"{GROUPS}/a")
        await on.until_bound(2, "b-", seconds=60.0)
        await on.until_condition("b", "Scheduled")
        await _until_left(on, "a")
        await self.look(on)


async def _until_left(on: Stage, group: str) -> None:
    async def left() -> bool:
        return not any(group in user for user in await _users(on))

    await installation.until(left, 30.0, lambda: f"{group} still uses a claim: {on.logs()}")


async def test_the_pods_of_a_group_share_its_device_and_the_next_group_waits(
    plane: launcher.ControlPlane, tmp_path: pathlib.Path
) -> None:
    """The first pod does not use up the claim, and no two groups get its device. kube-scheduler does the same."""
    ours, theirs = Seen(), Seen()
    await group_sides.played_to_trireme(plane, tmp_path / "ours", ours.play, GATES)
    waiting, done = ours.steps
    assert waiting["bound"] == ["a-0", "a-1", "a-2"]
    assert ("scheduling.k8s.io", "podgroups", "a", "dev-0") in waiting["users"]
    assert done["bound"] == ["b-0", "b-1"]
    assert done["users"] == [("scheduling.k8s.io", "podgroups", "b", "dev-0")]
    await group_sides.played_to_kube_scheduler(plane, tmp_path / "theirs", theirs.play, GATES)
    assert ours.steps == theirs.steps
